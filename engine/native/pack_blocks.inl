// How the blocks of GGUF files become groups of 32 columns of a held format. Layouts: ggml's ggml-common.h;
// d is a block's half-float scale, m its minimum. Knows nothing of tiles.
#pragma once

#include "layout.h"
#include "pack_half.inl"

namespace dk {

// A group of 32 columns of 16 rows before it is laid out. With 4 bits a row has 16 bytes: in byte i, column
// i in the low half and column 16 + i in the high one. `Scale` is half floats as the file has them, or
// floats where the file has them as products; those are rounded 16 at a time when they are laid out.
template <class Scale>
struct Group {
    alignas(64) uint8_t values[kTile][kGroup];
    alignas(64) Scale scale[kTile];
    Scale second[kTile];  // minima, or the scales of columns 16..31
};

using Exact = Group<uint16_t>;
using Product = Group<float>;

inline uint16_t half_at(const uint8_t *bytes) {
    uint16_t half;
    std::memcpy(&half, bytes, sizeof half);
    return half;
}

// Eight columns at a time, a byte each. Whatever is shifted out of a byte is masked away.
using Eight = uint64_t;

constexpr Eight all(uint8_t byte) { return byte * 0x0101010101010101u; }

inline Eight eight_at(const uint8_t *bytes) {
    Eight eight;
    std::memcpy(&eight, bytes, sizeof eight);
    return eight;
}

inline void put(uint8_t *bytes, Eight eight) { std::memcpy(bytes, &eight, sizeof eight); }

// Eight bits as eight bytes of 0 or 1, the lowest bit first in memory.
inline Eight spread(uint8_t bits) {
    const Eight each = all(bits) & 0x8040201008040201u;  // byte i keeps bit i
    return (each + all(127)) >> 7 & all(1);
}

// w = d (q − 8): half d, 16 bytes of nibbles
struct Q4_0 {
    using Unpacked = Exact;
    static constexpr int32_t kType = 2, kFormat = DK_INT4;
    static constexpr int kColumns = 32, kBytes = 18;

    static void unpack(const uint8_t *block, Exact *group, int row) {
        group->scale[row] = half_at(block);
        std::memcpy(group->values[row], block + 2, 16);
    }
};

// w = d q + m: half d, half m, 16 bytes of nibbles
struct Q4_1 {
    using Unpacked = Exact;
    static constexpr int32_t kType = 3, kFormat = DK_INT4Z;
    static constexpr int kColumns = 32, kBytes = 20;

    static void unpack(const uint8_t *block, Exact *group, int row) {
        group->scale[row] = half_at(block);
        group->second[row] = half_at(block + 2);
        std::memcpy(group->values[row], block + 4, 16);
    }
};

// Nibbles with a fifth bit each, plus `added`.
inline void five_bits(const uint8_t *fifth, const uint8_t *nibbles, uint8_t added, uint8_t *values) {
    for (int i = 0; i < 16; i += 8) {
        const Eight both = eight_at(nibbles + i);
        put(values + i, ((both & all(15)) | spread(fifth[i / 8]) << 4) + all(added));
        put(values + 16 + i, ((both >> 4 & all(15)) | spread(fifth[2 + i / 8]) << 4) + all(added));
    }
}

// w = d (q − 16): half d, 4 bytes of fifth bits, 16 bytes of nibbles
struct Q5_0 {
    using Unpacked = Exact;
    static constexpr int32_t kType = 6, kFormat = DK_INT8;
    static constexpr int kColumns = 32, kBytes = 22;

    static void unpack(const uint8_t *block, Exact *group, int row) {
        group->scale[row] = half_at(block);
        five_bits(block + 2, block + 6, 128 - 16, group->values[row]);
    }
};

// w = d q + m: half d, half m, 4 bytes of fifth bits, 16 bytes of nibbles
struct Q5_1 {
    using Unpacked = Exact;
    static constexpr int32_t kType = 7, kFormat = DK_INT8Z;
    static constexpr int kColumns = 32, kBytes = 24;

    static void unpack(const uint8_t *block, Exact *group, int row) {
        group->scale[row] = half_at(block);
        group->second[row] = half_at(block + 2);
        five_bits(block + 4, block + 8, 0, group->values[row]);
    }
};

// w = d q: half d, 32 signed bytes
struct Q8_0 {
    using Unpacked = Exact;
    static constexpr int32_t kType = 8, kFormat = DK_INT8;
    static constexpr int kColumns = 32, kBytes = 34;

    static void unpack(const uint8_t *block, Exact *group, int row) {
        group->scale[row] = half_at(block);
        for (int i = 0; i < 32; i += 8) put(group->values[row] + i, eight_at(block + 2 + i) ^ all(128));
    }
};

// w = d s (q − 4): 32 bytes of third bits, 64 bytes of two bits, 16 scales s − 32 of 6 bits, half d
struct Q3_K {
    using Unpacked = Product;
    static constexpr int32_t kType = 11, kFormat = DK_INT8H;
    static constexpr int kColumns = 256, kBytes = 110;

    static void unpack(const uint8_t *block, Product *groups, int row) {
        const uint8_t *third = block, *pairs = block + 32;
        for (int g = 0; g < 8; ++g) {
            const uint8_t *run = pairs + g / 4 * 32;
            uint8_t *values = groups[g].values[row];
            const int shift = g % 4 * 2;
            for (int i = 0; i < 32; i += 8) {
                const Eight q = (eight_at(run + i) >> shift & all(3)) | (eight_at(third + i) >> g & all(1)) << 2;
                put(values + i, q + all(128 - 4));
            }
        }
        unpack_scales(block + 96, from_half(half_at(block + 108)), groups, row);
    }

    // Low four bits in halves of the first 8 bytes, two more bits in quarters of the last 4.
    static void unpack_scales(const uint8_t *packed, float d, Product *groups, int row) {
        for (int i = 0; i < 16; ++i) {
            const int low = i < 8 ? packed[i] & 15 : packed[i - 8] >> 4;
            const int high = packed[8 + i % 4] >> i / 4 * 2 & 3;
            const float scale = d * static_cast<float>((low | high << 4) - 32);
            (i % 2 ? groups[i / 2].second : groups[i / 2].scale)[row] = scale;
        }
    }
};

// Eight scales and minima of 6 bits in 12 bytes, as Q4_K and Q5_K keep them, times d and d_min.
inline void scales_and_minima(const uint8_t *block, Product *groups, int row) {
    const float d = from_half(half_at(block)), d_min = from_half(half_at(block + 2));
    const uint8_t *first = block + 4, *second = block + 8, *third = block + 12;
    for (int i = 0; i < 4; ++i) {
        groups[i].scale[row] = d * static_cast<float>(first[i] & 63);
        groups[i].second[row] = -(d_min * static_cast<float>(second[i] & 63));
        groups[4 + i].scale[row] = d * static_cast<float>((third[i] & 15) | first[i] >> 6 << 4);
        groups[4 + i].second[row] = -(d_min * static_cast<float>(third[i] >> 4 | second[i] >> 6 << 4));
    }
}

// w = d s q − d_min m: half d, half d_min, 12 bytes of s and m, 128 bytes of nibbles: in each run of 32, low
// halves are one group and high ones the next
struct Q4_K {
    using Unpacked = Product;
    static constexpr int32_t kType = 12, kFormat = DK_INT4Z;
    static constexpr int kColumns = 256, kBytes = 144;

    static void unpack(const uint8_t *block, Product *groups, int row) {
        scales_and_minima(block, groups, row);
        for (int pair = 0; pair < 4; ++pair) {
            const uint8_t *run = block + 16 + 32 * pair;
            uint8_t *low = groups[2 * pair].values[row], *high = groups[2 * pair + 1].values[row];
            for (int i = 0; i < 16; i += 8) {
                const Eight left = eight_at(run + i), right = eight_at(run + 16 + i);
                put(low + i, (left & all(15)) | (right & all(15)) << 4);
                put(high + i, (left >> 4 & all(15)) | (right & all(240)));
            }
        }
    }
};

// As Q4_K, with 32 bytes before the nibbles: bit g of byte i is the fifth bit of column i of group g
struct Q5_K {
    using Unpacked = Product;
    static constexpr int32_t kType = 13, kFormat = DK_INT8Z;
    static constexpr int kColumns = 256, kBytes = 176;

    static void unpack(const uint8_t *block, Product *groups, int row) {
        scales_and_minima(block, groups, row);
        const uint8_t *fifth = block + 16;
        for (int g = 0; g < 8; ++g) {
            const uint8_t *run = block + 48 + g / 2 * 32;
            uint8_t *values = groups[g].values[row];
            const int shift = g % 2 * 4;
            for (int i = 0; i < 32; i += 8) {
                const Eight q = eight_at(run + i) >> shift & all(15);
                put(values + i, q | (eight_at(fifth + i) >> g & all(1)) << 4);
            }
        }
    }
};

// w = d s (q − 32): 128 bytes of low nibbles, 64 bytes of two upper bits, 16 signed bytes s, half d
struct Q6_K {
    using Unpacked = Product;
    static constexpr int32_t kType = 14, kFormat = DK_INT8H;
    static constexpr int kColumns = 256, kBytes = 210;

    static void unpack(const uint8_t *block, Product *groups, int row) {
        for (int g = 0; g < 8; ++g) {
            const uint8_t *low = block + g / 4 * 64 + g % 2 * 32, *high = block + 128 + g / 4 * 32;
            uint8_t *values = groups[g].values[row];
            const int low_shift = g % 4 / 2 * 4, high_shift = g % 4 * 2;
            for (int i = 0; i < 32; i += 8) {
                const Eight q = eight_at(low + i) >> low_shift & all(15);
                const Eight top = (eight_at(high + i) >> high_shift & all(3)) << 4;
                put(values + i, (q | top) + all(128 - 32));
            }
        }
        const float d = from_half(half_at(block + 208));
        const auto *scales = reinterpret_cast<const int8_t *>(block + 192);
        for (int g = 0; g < 8; ++g) {
            groups[g].scale[row] = d * static_cast<float>(scales[2 * g]);
            groups[g].second[row] = d * static_cast<float>(scales[2 * g + 1]);
        }
    }
};

}  // namespace dk
