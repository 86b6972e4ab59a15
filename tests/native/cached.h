// Keys and values as caches hold them, by the description in cache.h.
#pragma once

#include <vector>

#include "decodeck.h"

namespace test {

// Bytes of a token of one head.
int64_t cached_bytes(int32_t format, int32_t dim, bool is_keys);

// The number at a column of a token in a cache [tokens][dim] of one head, rotated where the format is not dense.
double cached_number(const uint8_t *cache, int32_t format, int32_t dim, bool is_keys, int64_t token, int32_t column);

// A head [dim] times the Hadamard matrix, block by block.
std::vector<double> rotated(const std::vector<double> &x);

// All heads of a token as a cache makes them, in 8 and 4 bits rotated back.
void round_cache(std::vector<double> &row, int32_t format, int32_t dim, bool is_keys);

}  // namespace test
