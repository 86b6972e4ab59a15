#include "rows.h"

#include <algorithm>

namespace test {

void fill_row(int kind, float *row, int64_t cols, Random &random) {
    for (int64_t i = 0; i < cols; ++i) {
        const double normal = random.normal();
        double value = normal;
        if (kind == 1 || kind == 6) value = 0;
        if (kind == 3) value = random.sign() * 0.7;
        if (kind == 4) value = normal * 1e-40;
        if (kind == 5) value = normal * 1e8;
        row[i] = static_cast<float>(value);
    }
    if (kind == 2) row[random.integer(0, cols - 1)] = 1e4f;
    if (kind == 6) row[random.integer(0, cols - 1)] = -3.0f;
}

Floats mixed_rows(int64_t n, int64_t cols, Random &random) {
    Floats x(n * cols);
    for (int64_t r = 0; r < n; ++r) {
        fill_row(static_cast<int>(r % kRowKinds), x.data() + r * cols, cols, random);
    }
    return x;
}

QuantizedRows::QuantizedRows(int64_t n, int64_t cols)
    : n(n),
      cols(cols),
      x(n * cols, kLine),
      q(n * cols, kLine),
      scale(n * cols / 32, kLine),
      sum(n * cols / 32, kLine),
      half(n * cols / 16, kLine),
      offset(n * cols / 32, kLine) {}

dk::Activations QuantizedRows::view() const {
    dk::Activations a;
    a.x = x.data();
    a.q = q.data();
    a.scale = scale.data();
    a.sum = sum.data();
    a.half = half.data();
    a.offset = offset.data();
    a.cols = cols;
    return a;
}

QuantizedRows quantized(const dk::Kernels &k, const float *x, int64_t n, int64_t cols) {
    QuantizedRows held(n, cols);
    std::copy(x, x + n * cols, held.x.data());
    for (int64_t r = 0; r < n; ++r) k.quantize(held.view(), r, 0, cols);
    return held;
}

}  // namespace test
