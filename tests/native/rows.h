// Rows of activations of every kind a model can meet, and as the kernels hold them.
#pragma once

#include <vector>

#include "kernels.h"
#include "memory.h"
#include "numbers.h"

namespace test {

constexpr double kRounding = 0x1p-24;  // of a float, relative
constexpr double kSmallest = 0x1p-149;

// One of: ordinary, all zero, one outlier of 1e4, all of one magnitude, denormal, large, one non-zero column.
constexpr int kRowKinds = 7;
void fill_row(int kind, float *row, int64_t cols, Random &random);

// [n][cols], the kinds one after another.
Floats mixed_rows(int64_t n, int64_t cols, Random &random);

// dk::Activations whose arrays have exactly their sizes.
struct QuantizedRows {
    QuantizedRows(int64_t n, int64_t cols);
    dk::Activations view() const;

    int64_t n, cols;
    Floats x;
    Exact<int8_t> q;
    Floats scale, sum;
    Exact<int32_t> half, offset;
};

// The rows of `x`, quantized by the kernel.
QuantizedRows quantized(const dk::Kernels &k, const float *x, int64_t n, int64_t cols);

}  // namespace test
