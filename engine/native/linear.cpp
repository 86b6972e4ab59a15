// The product of float activations with a held matrix: few rows by the kernels of decoding, many in blocks.
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

// One product on one team.
class Product {
  public:
    Product(const dk_matrix &matrix, const float *x, float *out, int64_t n, uint8_t *scratch)
        : kernels_(kernels()), w_(matrix), a_(Activations::at(scratch, n, matrix.cols)), out_(out),
          blocks_(n), groups_(reinterpret_cast<RowGroup *>(scratch + groups_offset(n, matrix.cols))) {
        a_.x = const_cast<float *>(x);  // nothing below writes to it
    }

    void run(Worker &worker) const {
        const int64_t tiles = num_tiles(w_.rows);
        if (blocks_.n <= kMaxRows) {
            if (!is_dense(w_.format)) worker.phase(blocks_.n, [&](int64_t row) { quantize(row); });
            return worker.phase(tiles, [&](int64_t tile) { multiply_few(tile); });
        }
        worker.phase((blocks_.n + kMaxRows - 1) / kMaxRows, [&](int64_t task) { prepare(task * kMaxRows); });
        const int64_t pairs = (tiles + 1) / 2;
        worker.phase(blocks_.count() * pairs, [&](int64_t task) {
            const int64_t tile = task % pairs * 2;
            multiply_block(task / pairs, tile, std::min<int64_t>(2, tiles - tile));
        });
    }

  private:
    void quantize(int64_t row) const { kernels_.quantize(a_, row, 0, a_.cols); }

    // Up to kMaxRows rows, all of one block.
    void prepare(int64_t row) const {
        const int64_t block = row / blocks_.size, count = std::min<int64_t>(kMaxRows, blocks_.n - row);
        RowGroup *groups = groups_of(block) + row % blocks_.size;
        kernels_.prepare[w_.format](a_, row, static_cast<int>(count), groups, blocks_.rows(block));
    }

    void multiply_few(int64_t tile) const {
        float products[kMaxRows][kTile];
        const int64_t first = tile * kTile, count = std::min(kTile, w_.rows - first);
        kernels_.tile[w_.format](w_, tile, a_, 0, static_cast<int>(blocks_.n), products);
        for (int64_t row = 0; row < blocks_.n; ++row) {
            std::memcpy(out_ + row * w_.rows + first, products[row], static_cast<size_t>(count) * 4);
        }
    }

    void multiply_block(int64_t block, int64_t tile, int64_t tiles) const {
        const RowBlock rows{a_, block * blocks_.size, blocks_.rows(block), groups_of(block)};
        kernels_.gemm[w_.format](w_, tile, tiles, rows, out_);
    }

    RowGroup *groups_of(int64_t block) const { return groups_ + block * blocks_.size * num_groups(a_.cols); }

    const Kernels &kernels_;
    const dk_matrix &w_;
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

void dk_linear(const dk_matrix *matrix, const float *x, float *out, int64_t n, int32_t threads,
               uint8_t *scratch) {
    if (n < 1) return;
    const dk::Product product(*matrix, x, out, n, scratch);
    dk::in_parallel(threads, [&](dk::Worker &worker) { product.run(worker); });
}
