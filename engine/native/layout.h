// Where the bytes of a held matrix lie. Knows no instruction set.
//
// Quantized matrices are cut into tiles of 16 rows. A tile holds its groups of 32 columns one behind the other,
// each with its values first and its scales after them: one stream of bytes, read from front to back. (Values
// and scales apart cost a sixth of the bandwidth.) A processor with 16 lanes has one row in each:
//   4 bits: a group is 4 words of 64 bytes; in word j, bytes 4r..4r+3 belong to row r and hold columns
//           4j..4j+3 in their low halves and columns 16+4j..16+4j+3 in their high ones.
//   8 bits: a group is 8 words of 64 bytes; in word j, bytes 4r..4r+3 are columns 4j..4j+3 of row r.
//           Symmetric values are stored with 128 added, because the dot-product instruction wants them unsigned.
//   scales: 16 half floats, then, where the format has them, 16 minima (INT4Z, INT8Z) or the scales of the
//           second 16 columns (INT8H).
#pragma once

#include "decodeck.h"

namespace dk {

constexpr int64_t kTile = 16;   // rows
constexpr int64_t kGroup = 32;  // columns

constexpr bool is_dense(int32_t format) { return format == DK_F32 || format == DK_BF16; }
constexpr bool is_4bit(int32_t format) { return format == DK_INT4 || format == DK_INT4Z; }
constexpr bool has_two_scales(int32_t format) {
    return format == DK_INT4Z || format == DK_INT8Z || format == DK_INT8H;
}
constexpr int64_t value_bytes(int32_t format) { return is_4bit(format) ? kTile * kGroup / 2 : kTile * kGroup; }
constexpr int64_t scale_bytes(int32_t format) { return has_two_scales(format) ? 4 * kTile : 2 * kTile; }
constexpr int64_t element_bytes(int32_t format) { return format == DK_F32 ? 4 : 2; }

constexpr int64_t num_tiles(int64_t rows) { return (rows + kTile - 1) / kTile; }
constexpr int64_t num_groups(int64_t cols) { return cols / kGroup; }

// Bytes from one group of a tile to the next.
constexpr int64_t group_bytes(int32_t format) { return value_bytes(format) + scale_bytes(format); }

// Bytes from one tile to the next; a multiple of 64.
constexpr int64_t tile_bytes(int32_t format, int64_t cols) {
    return (num_groups(cols) * group_bytes(format) + 63) / 64 * 64;
}

constexpr int64_t matrix_bytes(int32_t format, int64_t rows, int64_t cols) {
    return is_dense(format) ? rows * cols * element_bytes(format) : num_tiles(rows) * tile_bytes(format, cols);
}

}  // namespace dk
