// From the blocks of GGUF files to the tiles of held matrices, at the speed at which files are read.
#include <cstring>

#include "layout.h"
#include "pack_blocks.inl"
#include "team.h"

namespace dk {
namespace {

constexpr int64_t kTaskBytes = 256 << 10;  // of source: small enough to share evenly, large enough to find

// What missing rows of the last tile are made of: their scales are zero.
constexpr uint8_t kNothing[256] = {};

// One tile from `rows` (1..16) rows of blocks.
template <class Block>
void pack_tile(const uint8_t *source, int rows, int64_t cols, uint8_t *tile) {
    constexpr int32_t format = Block::kFormat;
    static_assert(Block::kBytes <= sizeof kNothing);
    constexpr int64_t bytes = has_header(format) ? block_bytes(format) : group_bytes(format);
    const int64_t blocks = cols / Block::kColumns;
    Blocks at;
    for (int row = 0; row < kTile; ++row) {
        at.row[row] = row < rows ? source + row * blocks * Block::kBytes : kNothing;
    }
    for (int64_t block = 0; block < blocks; ++block) {
        const Target<format> target{tile + block * bytes};
        for (int quarter = 0; quarter < 4; ++quarter) {
            Block::values(Four(at, 4 * quarter, 1), {target, quarter});
        }
        Block::scales(at, target);
        for (int row = 0; row < rows; ++row) at.row[row] += Block::kBytes;
    }
    const int64_t used = blocks * bytes;
    std::memset(tile + used, 0, static_cast<size_t>(tile_bytes(format, cols) - used));
}

template <class Block>
void pack_rows(const uint8_t *source, int64_t count, int64_t cols, uint8_t *data, int threads) {
    const int64_t source_tile = kTile * (cols / Block::kColumns) * Block::kBytes;
    const int64_t stride = tile_bytes(Block::kFormat, cols);
    const int64_t tiles = num_tiles(count), per_task = kTaskBytes / source_tile + 1;
    in_parallel(threads, [&](Worker &worker) {
        worker.phase((tiles + per_task - 1) / per_task, [&](int64_t task) {
            for (int64_t tile = task * per_task; tile < tiles && tile < (task + 1) * per_task; ++tile) {
                const int64_t left = count - tile * kTile;
                const int rows = static_cast<int>(left < kTile ? left : kTile);
                pack_tile<Block>(source + tile * source_tile, rows, cols, data + tile * stride);
            }
        });
    });
}

struct Packer {
    int32_t type, format;
    int columns;
    void (*pack)(const uint8_t *source, int64_t count, int64_t cols, uint8_t *data, int threads);
};

template <class Block>
constexpr Packer packer() {
    return {Block::kType, Block::kFormat, Block::kColumns, pack_rows<Block>};
}

constexpr Packer kPackers[] = {
    packer<Q4_0>(), packer<Q4_1>(), packer<Q5_0>(), packer<Q5_1>(), packer<Q8_0>(),
    packer<Q3_K>(), packer<Q4_K>(), packer<Q5_K>(), packer<Q6_K>(),
};

}  // namespace
}  // namespace dk

int64_t dk_matrix_bytes(int32_t format, int64_t rows, int64_t cols) {
    return dk::matrix_bytes(format, rows, cols);
}

int32_t dk_pack(int32_t ggml_type, const uint8_t *source, int64_t count, int64_t cols, int32_t format,
                uint8_t *data, int64_t target, int32_t threads) {
    for (const dk::Packer &packer : dk::kPackers) {
        if (packer.type != ggml_type || packer.format != format) continue;
        if (cols % packer.columns != 0 || target % dk::kTile != 0) return -1;
        packer.pack(source, count, cols, data + target / dk::kTile * dk::tile_bytes(format, cols), threads);
        return 0;
    }
    return -1;
}
