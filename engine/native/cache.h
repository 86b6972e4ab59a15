// Where the bytes of a cache of keys or values lie. Knows no instruction set.
//
// In float32 and bfloat16 a token of a head is its numbers. In 8 and 4 bits, 16 tokens of a head are a block:
// columns beyond the head's are zero up to a multiple of 32, and numbers are rotated, so that no column is much
// larger than the others: each block of the largest power of two that divides head_dim is multiplied with the
// orthonormal Hadamard matrix of that size (arXiv 2404.00456), which is its own inverse.
//   keys: a group of 32 columns after the other, each with the words of a group of DK_INT8 or DK_INT4 in layout.h,
//         where row r is token r; then for each 32 columns in 8 bits, for each 16 in 4, 16 half floats d, one for
//         each token.
//   values in 8 bits: for each 16 columns 4 words of 64 bytes; in word t, bytes 4c..4c+3 are tokens 4t..4t+3 of
//         column c, with 128 added.
//   values in 4 bits: for each 32 columns 4 words; in word t, bytes 4c..4c+3 are tokens 4t..4t+3, of column c in
//         their low halves and of column 16 + c in their high ones, with 8 added.
//         Then, for both, 16 half floats d, one for each token.
// A number is d q; q is within ±127, or from −8 to 7, where d has the sign that gives the largest number the −8.
#pragma once

#include "layout.h"

namespace dk {

constexpr int64_t kBlockTokens = 16;
constexpr int32_t kRecent = 128;  // positions that a token sees in the rings, its own included

// The keys or the values of one head.
struct CacheKind {
    int32_t format;
    int32_t dim;
    bool is_keys;
};

// Columns of keys that share a scale.
constexpr int64_t key_columns(int32_t format) { return format == DK_INT8 ? kGroup : kGroup / 2; }

constexpr int64_t padded(int64_t dim) { return (dim + kGroup - 1) / kGroup * kGroup; }

// From a block's start to its scales d.
constexpr int64_t cache_scales(const CacheKind &c) {
    return kBlockTokens * padded(c.dim) / (c.format == DK_INT8 ? 1 : 2);
}

constexpr int64_t token_bytes(const CacheKind &c) {
    if (is_dense(c.format)) return c.dim * element_bytes(c.format);
    return cache_scales(c) / kBlockTokens + 2 * (c.is_keys ? padded(c.dim) / key_columns(c.format) : 1);
}

// The bytes of a group of 32 columns in a block, without scales.
constexpr int64_t cache_group(int32_t format) { return kBlockTokens * kGroup / (format == DK_INT8 ? 1 : 2); }

// Where in a block the number of a token and a column is; in 4 bits, of the second 16 columns of a group in the
// high half of the byte.
constexpr int64_t key_place(int32_t format, int64_t token, int64_t column) {
    const int64_t in_group = format == DK_INT8 ? column % kGroup : column % 16;
    return column / kGroup * cache_group(format) + in_group / 4 * 64 + 4 * token + in_group % 4;
}
constexpr int64_t value_place(int32_t format, int64_t token, int64_t column) {
    const int64_t part = format == DK_INT8 ? column / 16 * (cache_group(format) / 2)
                                           : column / kGroup * cache_group(format);
    return part + token / 4 * 64 + column % 16 * 4 + token % 4;
}

}  // namespace dk
