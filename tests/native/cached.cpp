#include "cached.h"

#include <algorithm>
#include <cmath>

#include "numbers.h"

namespace test {
namespace {

using Row = std::vector<double>;

constexpr int32_t kTokens = 16;  // of a block

int32_t padded(int32_t dim) { return (dim + 31) / 32 * 32; }

// Columns of keys that share a scale.
int32_t key_group(int32_t format) { return format == DK_INT8 ? 32 : 16; }

double half_at(const uint8_t *at) {
    uint16_t half;
    std::memcpy(&half, at, 2);
    return from_half(half);
}

// A group of numbers in steps of its scale.
void round_group(double *x, int32_t count, int32_t format) {
    double top = 0;
    for (int32_t i = 0; i < count; ++i) top = std::fabs(x[i]) > std::fabs(top) ? x[i] : top;
    const double scale = from_half(to_half(format == DK_INT8 ? std::fabs(top) / 127 : top / -8));
    const double low = format == DK_INT8 ? -127 : -8, high = format == DK_INT8 ? 127 : 7;
    for (int32_t i = 0; i < count; ++i) {
        x[i] = scale == 0 ? 0 : std::fmin(high, std::fmax(low, std::nearbyint(x[i] / scale))) * scale;
    }
}

}  // namespace

int64_t cached_bytes(int32_t format, int32_t dim, bool is_keys) {
    if (format == DK_F32) return 4 * dim;
    if (format == DK_BF16) return 2 * dim;
    return padded(dim) / (format == DK_INT8 ? 1 : 2) + 2 * (is_keys ? padded(dim) / key_group(format) : 1);
}

double cached_number(const uint8_t *cache, int32_t format, int32_t dim, bool is_keys, int64_t token, int32_t column) {
    if (format == DK_F32 || format == DK_BF16) {
        const int64_t at = token * dim + column;
        float value;
        uint16_t half;
        if (format == DK_F32) return std::memcpy(&value, cache + 4 * at, 4), value;
        return std::memcpy(&half, cache + 2 * at, 2), from_bf16(half);
    }
    const uint8_t *block = cache + token / kTokens * kTokens * cached_bytes(format, dim, is_keys);
    const int64_t t = token % kTokens, c = column;
    const uint8_t *scales = block + kTokens * padded(dim) / (format == DK_INT8 ? 1 : 2);
    const double scale = half_at(scales + 2 * t + (is_keys ? c / key_group(format) * 32 : 0));
    if (format == DK_INT8) {  // words of 64 bytes: 8 for 32 columns of keys, 4 for 16 columns of values
        const int64_t word = is_keys ? c / 4 : c / 16 * 4 + t / 4;
        const int64_t byte = is_keys ? 4 * t + c % 4 : c % 16 * 4 + t % 4;
        return scale * (block[word * 64 + byte] - 128);
    }
    const int64_t word = c / 32 * 4 + (is_keys ? c % 16 / 4 : t / 4);
    const int64_t byte = is_keys ? 4 * t + c % 4 : c % 16 * 4 + t % 4;
    const int both = block[word * 64 + byte];
    return scale * ((c % 32 < 16 ? both & 15 : both >> 4) - 8);
}

Row rotated(const Row &x) {
    const size_t dim = x.size(), block = dim & (~dim + 1);
    Row out(dim);
    for (size_t i = 0; i < dim; ++i) {
        for (size_t j = 0; j < block; ++j) {
            const int sign = __builtin_parityll(i % block & j) ? -1 : 1;  // the bits both indices have
            out[i] += sign * x[i / block * block + j] / std::sqrt(static_cast<double>(block));
        }
    }
    return out;
}

void round_cache(Row &row, int32_t format, int32_t dim, bool is_keys) {
    for (double &value : row) {
        value = format == DK_BF16 ? from_bf16(to_bf16(static_cast<float>(value))) : static_cast<float>(value);
    }
    if (format == DK_F32 || format == DK_BF16) return;
    for (size_t first = 0; first < row.size(); first += static_cast<size_t>(dim)) {
        const auto begin = row.begin() + static_cast<int64_t>(first);
        Row head = rotated({begin, begin + dim});
        const int32_t group = key_group(format);
        for (int32_t i = 0; is_keys && i < dim; i += group) {
            round_group(&head[static_cast<size_t>(i)], std::min(group, dim - i), format);
        }
        if (!is_keys) round_group(head.data(), dim, format);
        head = rotated(head);
        std::copy(head.begin(), head.end(), begin);
    }
}

}  // namespace test
