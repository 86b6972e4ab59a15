// From the blocks of GGUF files to the tiles of held matrices, at the speed at which files are read.
#include <cstring>

#include "layout.h"
#include "pack_blocks.inl"
#include "team.h"

namespace dk {
namespace {

constexpr int64_t kTaskBytes = 256 << 10;  // of source: small enough to share evenly, large enough to find

void put_halves(const uint16_t (&halves)[kTile], uint8_t *out) { std::memcpy(out, halves, sizeof halves); }

void put_halves(const float (&scales)[kTile], uint8_t *out) {
    uint16_t halves[kTile];
    for (int row = 0; row < kTile; ++row) halves[row] = to_half(scales[row]);
    put_halves(halves, out);
}

// Word j of a group: bytes 4j .. 4j + 3 of each of the 16 rows.
template <int32_t format, class Scale>
void lay_out(const Group<Scale> &group, uint8_t *values, uint8_t *scales) {
    constexpr int words = static_cast<int>(value_bytes(format) / (4 * kTile));
    for (int word = 0; word < words; ++word) {
        for (int row = 0; row < kTile; ++row) {
            std::memcpy(values + 4 * (kTile * word + row), group.values[row] + 4 * word, 4);
        }
    }
    put_halves(group.scale, scales);
    if constexpr (has_two_scales(format)) put_halves(group.second, scales + 2 * kTile);
}

// One tile from `rows` (1..16) rows of blocks; missing rows are zero.
template <class Block>
void pack_tile(const uint8_t *source, int rows, int64_t cols, uint8_t *tile) {
    constexpr int groups = Block::kColumns / kGroup;
    constexpr int32_t format = Block::kFormat;
    const int64_t row_bytes = cols / Block::kColumns * Block::kBytes;
    typename Block::Unpacked unpacked[groups];
    if (rows < kTile) std::memset(unpacked, 0, sizeof unpacked);
    for (int64_t first = 0; first < num_groups(cols); first += groups) {
        for (int row = 0; row < rows; ++row) {
            Block::unpack(source + row * row_bytes + first / groups * Block::kBytes, unpacked, row);
        }
        for (int64_t g = 0; g < groups; ++g) {
            uint8_t *values = tile + (first + g) * group_bytes(format);
            lay_out<format>(unpacked[g], values, values + value_bytes(format));
        }
    }
    const int64_t used = num_groups(cols) * group_bytes(format);
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
                const int64_t rows = count - tile * kTile < kTile ? count - tile * kTile : kTile;
                pack_tile<Block>(source + tile * source_tile, static_cast<int>(rows), cols, data + tile * stride);
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
