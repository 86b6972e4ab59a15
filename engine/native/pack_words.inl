// The bits of four rows at once put in other places, by vectors that GCC and Clang have for every processor.
#pragma once

#include <cstdint>
#include <cstring>

#include "layout.h"

namespace dk {

// A word (4 bytes) of each of four rows.
typedef uint32_t Lanes __attribute__((vector_size(16)));

// The blocks of all rows of a tile that hold the same columns.
struct Blocks {
    const uint8_t *row[kTile];
};

// Four rows of a tile: `first`, `first + step`, ...
struct Four {
    const uint8_t *row[4];

    Four(const Blocks &blocks, int first, int step) {
        for (int i = 0; i < 4; ++i) row[i] = blocks.row[first + step * i];
    }
};

inline Lanes lanes_at(const uint8_t *bytes) {
    Lanes lanes;
    std::memcpy(&lanes, bytes, sizeof lanes);
    return lanes;
}

inline uint32_t word_at(const uint8_t *bytes) {
    uint32_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
}

// The word at `offset` of the blocks of four rows.
inline Lanes load_word(const Four &four, int offset) {
    return Lanes{word_at(four.row[0] + offset), word_at(four.row[1] + offset), word_at(four.row[2] + offset),
                 word_at(four.row[3] + offset)};
}

// Four of the words of `a` (0..3) and `b` (4..7).
template <int i, int j, int k, int l>
Lanes pick(Lanes a, Lanes b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, i, j, k, l);
#else
    return __builtin_shuffle(a, b, Lanes{i, j, k, l});
#endif
}

// The four words from `offset` on.
inline void load_words(const Four &four, int offset, Lanes *words) {
    const Lanes a = lanes_at(four.row[0] + offset), b = lanes_at(four.row[1] + offset);
    const Lanes c = lanes_at(four.row[2] + offset), d = lanes_at(four.row[3] + offset);
    const Lanes ab = pick<0, 4, 1, 5>(a, b), ab_later = pick<2, 6, 3, 7>(a, b);
    const Lanes cd = pick<0, 4, 1, 5>(c, d), cd_later = pick<2, 6, 3, 7>(c, d);
    words[0] = pick<0, 1, 4, 5>(ab, cd);
    words[1] = pick<2, 3, 6, 7>(ab, cd);
    words[2] = pick<0, 1, 4, 5>(ab_later, cd_later);
    words[3] = pick<2, 3, 6, 7>(ab_later, cd_later);
}

// Of each 2 · `bits` bits of two words `a` gets the lower halves, its own first, and `b` the upper ones.
template <int bits>
void sort(Lanes &a, Lanes &b) {
    constexpr uint32_t lower = UINT32_MAX / ((1u << bits) + 1);
    const Lanes lowers = (a & lower) | (b & lower) << bits;
    b = (a >> bits & lower) | (b & ~lower);
    a = lowers;
}

// Of every 4 · `bits` bits of four words, word i gets field i of each, in the order of the words.
template <int bits>
void transpose(Lanes *words) {
    sort<2 * bits>(words[0], words[2]);
    sort<2 * bits>(words[1], words[3]);
    sort<bits>(words[0], words[1]);
    sort<bits>(words[2], words[3]);
}

// Exchanges each of the bits `which` with the one that is `distance` above it.
template <int distance, uint32_t which>
Lanes exchange(Lanes word) {
    const Lanes differ = (word ^ word >> distance) & which;
    return word ^ differ ^ differ << distance;
}

// Bit 4 i + k of a word goes to 8 k + i: bit i of byte k.
inline Lanes spread_nibbles(Lanes word) {
    word = exchange<14, 0x0000cccc>(word);
    word = exchange<7, 0x00aa00aa>(word);
    word = exchange<2, 0x0c0c0c0c>(word);
    return exchange<1, 0x22222222>(word);
}

// 32 less in each byte.
inline Lanes subtract_32(Lanes word) {
    typedef uint8_t Bytes __attribute__((vector_size(16)));
    return reinterpret_cast<Lanes>(reinterpret_cast<Bytes>(word) - 32);
}

}  // namespace dk
