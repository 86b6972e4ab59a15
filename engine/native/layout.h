// Where the bytes of a held matrix lie. Knows no instruction set.
//
// Quantized matrices are cut into tiles of 16 rows. A tile holds its groups of 32 columns one behind the other,
// each with its values first and its scales after them: one stream of bytes, read from front to back. (Values
// and scales apart cost a sixth of the bandwidth.) A processor with 16 lanes has one row in each:
//   4 bits: a group is 4 words of 64 bytes; in word j, bytes 4r..4r+3 belong to row r and hold columns
//           4j..4j+3 in their low halves and columns 16+4j..16+4j+3 in their high ones.
//   5 bits: after these a word more, with the fifth bits: bit j of a byte for the low half, bit 4 + j for the
//           high half of the same byte in word j.
//   6 bits: two words more, with bits 4 and 5: bits 2j and 2j + 1 of the first word for the low halves of word
//           j, of the second one for the high halves.
//   8 bits: a group is 8 words; in word j, bytes 4r..4r+3 are columns 4j..4j+3 of row r, with 128 added, because
//           the dot-product instruction wants them unsigned.
//   scales: 16 half floats d; then 16 minima m (INT4Z, INT5Z). Formats with blocks of 256 columns have before
//           each 8 groups 16 half floats d, then (INT4K, INT5K) 16 half floats e; each group has 16 bytes s and
//           16 bytes t, or (INT4H, INT6H) 16 signed bytes s for each half of its columns.
#pragma once

#include "decodeck.h"

namespace dk {

constexpr int64_t kTile = 16;        // rows
constexpr int64_t kGroup = 32;       // columns
constexpr int64_t kBlockGroups = 8;  // groups that share a header

constexpr bool is_dense(int32_t f) { return f == DK_F32 || f == DK_BF16; }
constexpr bool has_minimum(int32_t f) {
    return f == DK_INT4Z || f == DK_INT5Z || f == DK_INT4K || f == DK_INT5K;
}
constexpr bool has_halves(int32_t f) { return f == DK_INT4H || f == DK_INT6H; }
constexpr bool has_header(int32_t f) { return f == DK_INT4K || f == DK_INT5K || has_halves(f); }

// Bits of a value beyond the first four; INT8 has no halves of bytes.
constexpr int64_t extra_bits(int32_t f) {
    return f == DK_INT5 || f == DK_INT5Z || f == DK_INT5K ? 1 : f == DK_INT6H ? 2 : 0;
}

// What is added to a value when it is stored.
constexpr int32_t zero_of(int32_t f) {
    switch (f) {
        case DK_INT4: return 8;
        case DK_INT4H: return 4;
        case DK_INT5: return 16;
        case DK_INT6H: return 32;
        case DK_INT8: return 128;
        default: return 0;
    }
}

constexpr int64_t value_bytes(int32_t f) {
    return f == DK_INT8 ? kTile * kGroup : kTile * kGroup / 2 + 4 * kTile * extra_bits(f);
}
constexpr int64_t scale_bytes(int32_t f) { return has_minimum(f) && !has_header(f) ? 4 * kTile : 2 * kTile; }
constexpr int64_t header_bytes(int32_t f) {
    return !has_header(f) ? 0 : has_minimum(f) ? 4 * kTile : 2 * kTile;
}
constexpr int64_t element_bytes(int32_t f) { return f == DK_F32 ? 4 : 2; }

constexpr int64_t num_tiles(int64_t rows) { return (rows + kTile - 1) / kTile; }
constexpr int64_t num_groups(int64_t cols) { return cols / kGroup; }

constexpr int64_t group_bytes(int32_t f) { return value_bytes(f) + scale_bytes(f); }
constexpr int64_t block_bytes(int32_t f) { return kBlockGroups * group_bytes(f) + header_bytes(f); }

// From the start of a tile to a group, and to the header that it shares with its neighbours.
constexpr int64_t header_offset(int32_t f, int64_t group) { return group / kBlockGroups * block_bytes(f); }
constexpr int64_t group_offset(int32_t f, int64_t group) {
    return group * group_bytes(f) + (has_header(f) ? (group / kBlockGroups + 1) * header_bytes(f) : 0);
}

// Bytes from one tile to the next; a multiple of 64.
constexpr int64_t tile_bytes(int32_t f, int64_t cols) {
    const int64_t headers = has_header(f) ? num_groups(cols) / kBlockGroups * header_bytes(f) : 0;
    return (num_groups(cols) * group_bytes(f) + headers + 63) / 64 * 64;
}

constexpr int64_t matrix_bytes(int32_t f, int64_t rows, int64_t cols) {
    return is_dense(f) ? rows * cols * element_bytes(f) : num_tiles(rows) * tile_bytes(f, cols);
}

}  // namespace dk
