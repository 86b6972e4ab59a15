// How the blocks of GGUF files become groups of held formats: values and scales as they are, in other places.
// Layouts: ggml's ggml-common.h; d is a block's half-float scale, m its minimum. Each type has `values`, for
// four neighbouring rows, and `scales`, for all 16 of a tile.
#pragma once

#include "layout.h"
#include "pack_words.inl"

namespace dk {

// Where the columns of a block go in a tile: one group, or 8 of them behind their header.
template <int32_t format>
struct Target {
    uint8_t *header;

    uint8_t *group(int g) const { return header + header_bytes(format) + g * group_bytes(format); }
    uint8_t *scales(int g) const { return group(g) + value_bytes(format); }
};

// The part of it that four neighbouring rows have: a quarter of each word.
template <int32_t format>
struct Quarter {
    Target<format> target;
    int quarter;

    void put(int g, int word, Lanes lanes) const {
        std::memcpy(target.group(g) + 4 * kTile * word + 16 * quarter, &lanes, sizeof lanes);
    }
    void put(int g, int first_word, const Lanes (&words)[4]) const {
        for (int j = 0; j < 4; ++j) put(g, first_word + j, words[j]);
    }
};

// The half float at `offset` of each block.
inline void put_halves(const Blocks &blocks, int offset, uint8_t *out) {
    for (int row = 0; row < kTile; ++row) std::memcpy(out + 2 * row, blocks.row[row] + offset, 2);
}

inline void put_scales(Lanes scales, uint8_t *out) { std::memcpy(out, &scales, sizeof scales); }

// 16 bytes of nibbles in the order of a tile: column i in the low half of byte i, 16 + i in the high one.
template <int32_t format>
void nibbles(const Four &four, int offset, Quarter<format> out) {
    Lanes words[4];
    load_words(four, offset, words);
    out.put(0, 0, words);
}

// The fifth bits of columns 0..31, in four bytes.
template <int32_t format>
void fifth_bits(const Four &four, int offset, Quarter<format> out) {
    out.put(0, 4, spread_nibbles(load_word(four, offset)));
}

// 32 bytes: byte i of `low` gets the low halves of bytes i and 16 + i, byte i of `high` the high ones.
inline void load_sorted(const Four &four, int offset, Lanes (&low)[4], Lanes (&high)[4]) {
    load_words(four, offset, low);
    load_words(four, offset + 16, high);
    for (int j = 0; j < 4; ++j) sort<4>(low[j], high[j]);
}

// 32 bytes whose low halves are one group and whose high halves are another.
template <int32_t format>
void two_groups(const Four &four, int offset, int low, int high, Quarter<format> out) {
    Lanes words[2][4];
    load_sorted(four, offset, words[0], words[1]);
    out.put(low, 0, words[0]);
    out.put(high, 0, words[1]);
}

// w = d (q − 8): half d, 16 bytes of nibbles
struct Q4_0 {
    static constexpr int32_t kType = 2, kFormat = DK_INT4;
    static constexpr int kColumns = 32, kBytes = 18;

    static void values(const Four &four, Quarter<kFormat> out) { nibbles(four, 2, out); }
    static void scales(const Blocks &blocks, Target<kFormat> out) { put_halves(blocks, 0, out.scales(0)); }
};

// w = d q + m: half d, half m, 16 bytes of nibbles
struct Q4_1 {
    static constexpr int32_t kType = 3, kFormat = DK_INT4Z;
    static constexpr int kColumns = 32, kBytes = 20;

    static void values(const Four &four, Quarter<kFormat> out) { nibbles(four, 4, out); }
    static void scales(const Blocks &blocks, Target<kFormat> out) {
        put_halves(blocks, 0, out.scales(0));
        put_halves(blocks, 2, out.scales(0) + 2 * kTile);
    }
};

// w = d (q − 16): half d, 4 bytes of fifth bits, 16 bytes of nibbles
struct Q5_0 {
    static constexpr int32_t kType = 6, kFormat = DK_INT5;
    static constexpr int kColumns = 32, kBytes = 22;

    static void values(const Four &four, Quarter<kFormat> out) {
        fifth_bits(four, 2, out);
        nibbles(four, 6, out);
    }
    static void scales(const Blocks &blocks, Target<kFormat> out) { put_halves(blocks, 0, out.scales(0)); }
};

// w = d q + m: half d, half m, 4 bytes of fifth bits, 16 bytes of nibbles
struct Q5_1 {
    static constexpr int32_t kType = 7, kFormat = DK_INT5Z;
    static constexpr int kColumns = 32, kBytes = 24;

    static void values(const Four &four, Quarter<kFormat> out) {
        fifth_bits(four, 4, out);
        nibbles(four, 8, out);
    }
    static void scales(const Blocks &blocks, Target<kFormat> out) {
        put_halves(blocks, 0, out.scales(0));
        put_halves(blocks, 2, out.scales(0) + 2 * kTile);
    }
};

// w = d q: half d, 32 signed bytes
struct Q8_0 {
    static constexpr int32_t kType = 8, kFormat = DK_INT8;
    static constexpr int kColumns = 32, kBytes = 34;

    static void values(const Four &four, Quarter<kFormat> out) {
        for (int half = 0; half < 2; ++half) {
            Lanes words[4];
            load_words(four, 2 + 16 * half, words);
            for (Lanes &word : words) word ^= 0x80808080;
            out.put(0, 4 * half, words);
        }
    }
    static void scales(const Blocks &blocks, Target<kFormat> out) { put_halves(blocks, 0, out.scales(0)); }
};

// A signed byte for each 16 columns. words[i][r]: bytes 4i .. 4i + 3 of rows r, 4 + r, 8 + r and 12 + r.
template <int32_t format>
void put_signed(Lanes (&words)[4][4], Target<format> out) {
    for (int i = 0; i < 4; ++i) {
        transpose<8>(words[i]);
        for (int k = 0; k < 4; ++k) put_scales(words[i][k], out.scales(2 * i + k / 2) + k % 2 * kTile);
    }
}

// w = d s (q − 4): 32 bytes of third bits, 64 bytes of two bits, 16 scales s + 32 of 6 bits, half d
struct Q3_K {
    static constexpr int32_t kType = 11, kFormat = DK_INT4H;
    static constexpr int kColumns = 256, kBytes = 110;

    static void values(const Four &four, Quarter<kFormat> out) {
        Lanes third[2][4], two[2][4];  // bits of four groups each, and of two
        load_sorted(four, 0, third[0], third[1]);
        for (int run = 0; run < 2; ++run) {
            load_sorted(four, 32 + 32 * run, two[0], two[1]);
            for (int pair = 0; pair < 2; ++pair) {
                for (int j = 0; j < 4; ++j) {
                    const Lanes top = pair ? third[run][j] : third[run][j] << 2, low = two[pair][j];
                    const int g = 4 * run + 2 * pair;
                    out.put(g, j, (low & 0x33333333) | (top & 0x44444444));
                    out.put(g + 1, j, (low >> 2 & 0x33333333) | (top >> 1 & 0x44444444));
                }
            }
        }
    }

    // Low four bits in halves of 8 bytes, two more bits in quarters of the next 4.
    static void scales(const Blocks &blocks, Target<kFormat> out) {
        Lanes words[4][4];
        for (int r = 0; r < 4; ++r) {
            const Four four(blocks, r, 4);
            const Lanes a = load_word(four, 96), b = load_word(four, 100), top = load_word(four, 104);
            const Lanes low[] = {a & 0x0f0f0f0f, b & 0x0f0f0f0f, a >> 4 & 0x0f0f0f0f, b >> 4 & 0x0f0f0f0f};
            for (int i = 0; i < 4; ++i) {
                words[i][r] = subtract_32(low[i] | (top >> 2 * i & 0x03030303) << 4);
            }
        }
        put_halves(blocks, 108, out.header);
        put_signed(words, out);
    }
};

// d, d_min, and eight scales and minima of 6 bits in 12 bytes, as Q4_K and Q5_K keep them.
template <int32_t format>
void scales_and_minima(const Blocks &blocks, Target<format> out) {
    Lanes words[4][4];  // [scales of groups 0..3 and 4..7, then minima][as in put_signed]
    for (int r = 0; r < 4; ++r) {
        Lanes head[4];
        load_words(Four(blocks, r, 4), 0, head);
        words[0][r] = head[1] & 0x3f3f3f3f;
        words[1][r] = (head[3] & 0x0f0f0f0f) | (head[1] >> 2 & 0x30303030);
        words[2][r] = head[2] & 0x3f3f3f3f;
        words[3][r] = (head[3] >> 4 & 0x0f0f0f0f) | (head[2] >> 2 & 0x30303030);
    }
    put_halves(blocks, 0, out.header);
    put_halves(blocks, 2, out.header + 2 * kTile);
    for (int i = 0; i < 4; ++i) {
        transpose<8>(words[i]);
        for (int k = 0; k < 4; ++k) put_scales(words[i][k], out.scales(i % 2 * 4 + k) + i / 2 * kTile);
    }
}

// w = d s q − d_min m: half d, half d_min, 12 bytes of s and m, 128 bytes of nibbles: in each run of 32, low
// halves are one group and high ones the next
struct Q4_K {
    static constexpr int32_t kType = 12, kFormat = DK_INT4K;
    static constexpr int kColumns = 256, kBytes = 144;

    static void values(const Four &four, Quarter<kFormat> out) {
        for (int run = 0; run < 4; ++run) two_groups(four, 16 + 32 * run, 2 * run, 2 * run + 1, out);
    }
    static void scales(const Blocks &blocks, Target<kFormat> out) { scales_and_minima(blocks, out); }
};

// As Q4_K, with 32 bytes before the nibbles: bit g of byte i is the fifth bit of column i of group g
struct Q5_K {
    static constexpr int32_t kType = 13, kFormat = DK_INT5K;
    static constexpr int kColumns = 256, kBytes = 176;

    static void values(const Four &four, Quarter<kFormat> out) {
        for (int run = 0; run < 4; ++run) two_groups(four, 48 + 32 * run, 2 * run, 2 * run + 1, out);
        Lanes fifth[2][4];
        load_sorted(four, 16, fifth[0], fifth[1]);
        for (int half = 0; half < 2; ++half) {
            transpose<1>(fifth[half]);
            for (int k = 0; k < 4; ++k) out.put(4 * half + k, 4, fifth[half][k]);
        }
    }
    static void scales(const Blocks &blocks, Target<kFormat> out) { scales_and_minima(blocks, out); }
};

// w = d s (q − 32): 128 bytes of low nibbles, 64 bytes of two upper bits, 16 signed bytes s, half d
struct Q6_K {
    static constexpr int32_t kType = 14, kFormat = DK_INT6H;
    static constexpr int kColumns = 256, kBytes = 210;

    static void values(const Four &four, Quarter<kFormat> out) {
        for (int run = 0; run < 4; ++run) {
            const int first = run / 2 * 4 + run % 2;
            two_groups(four, 32 * run, first, first + 2, out);
            Lanes upper[4];
            load_words(four, 128 + 16 * run, upper);
            transpose<2>(upper);
            for (int k = 0; k < 4; ++k) out.put(run / 2 * 4 + k, 4 + run % 2, upper[k]);
        }
    }
    static void scales(const Blocks &blocks, Target<kFormat> out) {
        Lanes words[4][4], scales[4];
        for (int r = 0; r < 4; ++r) {
            load_words(Four(blocks, r, 4), 192, scales);
            for (int i = 0; i < 4; ++i) words[i][r] = scales[i];
        }
        put_halves(blocks, 208, out.header);
        put_signed(words, out);
    }
};

}  // namespace dk
