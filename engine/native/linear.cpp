// Products of float activations with held matrices: few rows by the kernels of decoding, many in blocks.
#include <algorithm>
#include <cstring>

#include "kernels.h"
#include "team.h"

namespace dk {
namespace {

// How n rows are cut into blocks of equal size; sizes are multiples of kMaxRows but for the last.
struct Blocks {
    int64_t n, size;

    explicit Blocks(int64_t rows) : n(rows) {
        const int64_t count = (n + kBlockRows - 1) / kBlockRows, even = (n + count - 1) / count;
        size = (even + kMaxRows - 1) / kMaxRows * kMaxRows;
    }
    int64_t count() const { return (n + size - 1) / size; }
    int64_t rows(int64_t block) const { return std::min(size, n - block * size); }
};

// Where the row groups begin, behind the activations.
int64_t groups_offset(int64_t n, int64_t cols) { return (Activations::bytes(n, cols) + 63) / 64 * 64; }

// The products of one input with several matrices, on one team.
class Products {
  public:
    Products(const dk_matrix *matrices, int32_t num, const float *x, float *out, int64_t n, uint8_t *scratch)
        : kernels_(kernels()), w_(matrices), num_(num), cols_(matrices->cols),
          a_(Activations::at(scratch, n, cols_)), out_(out), blocks_(n),
          groups_(reinterpret_cast<RowGroup *>(scratch + groups_offset(n, cols_))) {
        a_.x = const_cast<float *>(x);  // nothing below writes to it
    }

    void run(Worker &worker) const {
        if (blocks_.n <= kMaxRows) return run_few(worker);
        for (int32_t first = 0, end; first < num_; first = end) {
            for (end = first + 1; end < num_ && w_[end].format == w_[first].format;) ++end;
            run_blocks(worker, first, end);
        }
    }

  private:
    void run_few(Worker &worker) const {
        bool is_quantized = false;
        for (int32_t i = 0; i < num_; ++i) is_quantized |= !is_dense(w_[i].format);
        if (is_quantized) worker.phase(blocks_.n, [&](int64_t row) { kernels_.quantize(a_, row, 0, cols_); });
        worker.phase(count(0, num_, 1), [&](int64_t task) {
            const Place at = place(0, 1, task);
            multiply_few(w_[at.matrix], at.tile, out_ + blocks_.n * at.first_row);
        });
    }

    // Matrices of one format, which want their input prepared alike.
    void run_blocks(Worker &worker, int32_t first, int32_t end) const {
        worker.phase((blocks_.n + kMaxRows - 1) / kMaxRows,
                     [&](int64_t task) { prepare(w_[first].format, task * kMaxRows); });
        const int64_t pairs = count(first, end, 2);
        worker.phase(blocks_.count() * pairs, [&](int64_t task) {
            const Place at = place(first, 2, task % pairs);
            multiply_block(w_[at.matrix], task / pairs, at.tile, out_ + blocks_.n * at.first_row);
        });
    }

    // `step` tiles of a matrix, and the rows of all matrices before it.
    struct Place {
        int32_t matrix;
        int64_t tile, first_row;
    };

    static int64_t tasks(const dk_matrix &w, int64_t step) { return (num_tiles(w.rows) + step - 1) / step; }

    int64_t count(int32_t first, int32_t end, int64_t step) const {
        int64_t total = 0;
        for (int32_t i = first; i < end; ++i) total += tasks(w_[i], step);
        return total;
    }

    Place place(int32_t first, int64_t step, int64_t task) const {
        int64_t rows = 0;
        for (int32_t i = 0; i < first; ++i) rows += w_[i].rows;
        for (; task >= tasks(w_[first], step); rows += w_[first++].rows) task -= tasks(w_[first], step);
        return {first, task * step, rows};
    }

    // Up to kMaxRows rows, all of one block.
    void prepare(int32_t format, int64_t row) const {
        const int64_t block = row / blocks_.size, count = std::min<int64_t>(kMaxRows, blocks_.n - row);
        RowGroup *groups = groups_of(block) + row % blocks_.size;
        kernels_.prepare[format](a_, row, static_cast<int>(count), groups, blocks_.rows(block));
    }

    void multiply_few(const dk_matrix &w, int64_t tile, float *out) const {
        float products[kMaxRows][kTile];
        const int64_t first = tile * kTile, count = std::min(kTile, w.rows - first);
        kernels_.tile[w.format](w, tile, a_, 0, static_cast<int>(blocks_.n), products);
        for (int64_t row = 0; row < blocks_.n; ++row) {
            std::memcpy(out + row * w.rows + first, products[row], static_cast<size_t>(count) * 4);
        }
    }

    void multiply_block(const dk_matrix &w, int64_t block, int64_t tile, float *out) const {
        const RowBlock rows{a_, block * blocks_.size, blocks_.rows(block), groups_of(block)};
        kernels_.gemm[w.format](w, tile, std::min<int64_t>(2, num_tiles(w.rows) - tile), rows, out);
    }

    RowGroup *groups_of(int64_t block) const { return groups_ + block * blocks_.size * num_groups(cols_); }

    const Kernels &kernels_;
    const dk_matrix *w_;
    const int32_t num_;
    const int64_t cols_;
    Activations a_;
    float *out_;
    Blocks blocks_;
    RowGroup *groups_;
};

}  // namespace
}  // namespace dk

int64_t dk_linear_scratch(int64_t n, int64_t cols, int32_t) {
    const int64_t groups = n > dk::kMaxRows ? n * dk::num_groups(cols) : 0;
    return dk::groups_offset(n, cols) + groups * static_cast<int64_t>(sizeof(dk::RowGroup));
}

void dk_linear(const dk_matrix *matrices, int32_t num, const float *x, float *out, int64_t n, int32_t threads,
               uint8_t *scratch) {
    if (n < 1 || num < 1) return;
    const dk::Products products(matrices, num, x, out, n, scratch);
    dk::in_parallel(threads, [&](dk::Worker &worker) { products.run(worker); });
}
