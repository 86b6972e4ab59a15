#include "blocks.h"

#include "decodeck.h"

namespace test {
namespace {

double half_in(const uint8_t *data) { return from_half(static_cast<uint16_t>(data[0] | data[1] << 8)); }

int bit(const uint8_t *bytes, int i) { return bytes[i / 8] >> (i % 8) & 1; }

// Nibble i of 16 bytes: the low ones first, then the high ones.
int nibble(const uint8_t *bytes, int i) { return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4; }

double q4_0(const uint8_t *b, int i) { return half_in(b) * (nibble(b + 2, i) - 8); }

double q4_1(const uint8_t *b, int i) { return half_in(b) * nibble(b + 4, i) + half_in(b + 2); }

double q5_0(const uint8_t *b, int i) { return half_in(b) * ((nibble(b + 6, i) | bit(b + 2, i) << 4) - 16); }

double q5_1(const uint8_t *b, int i) {
    return half_in(b) * (nibble(b + 8, i) | bit(b + 4, i) << 4) + half_in(b + 2);
}

double q8_0(const uint8_t *b, int i) { return half_in(b) * static_cast<int8_t>(b[2 + i]); }

// Two bits of value i of 256: each run of 32 bytes holds four runs of 32 values.
int two_bits(const uint8_t *bytes, int i) { return bytes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3; }

double q3_k(const uint8_t *b, int i) {
    const uint8_t *packed = b + 96;
    const int sub = i / 16;
    const int low = sub < 8 ? packed[sub] & 15 : packed[sub - 8] >> 4;
    const int high = packed[8 + sub % 4] >> (2 * (sub / 4)) & 3;
    const int q = two_bits(b + 32, i) - (b[i % 32] >> (i / 32) & 1 ? 0 : 4);
    return half_in(b + 108) * ((low | high << 4) - 32) * q;
}

struct ScaleAndMinimum {
    int scale, minimum;
};

// Of sub-block 0..7, six bits each in 12 bytes.
ScaleAndMinimum six_bits(const uint8_t *packed, int sub) {
    if (sub < 4) return {packed[sub] & 63, packed[4 + sub] & 63};
    return {(packed[4 + sub] & 15) | packed[sub - 4] >> 6 << 4, packed[4 + sub] >> 4 | packed[sub] >> 6 << 4};
}

double scaled(const uint8_t *b, int sub, int q) {
    const auto [scale, minimum] = six_bits(b + 4, sub);
    return half_in(b) * scale * q - half_in(b + 2) * minimum;
}

int run_nibble(const uint8_t *bytes, int i) {
    return bytes[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15;
}

double q4_k(const uint8_t *b, int i) { return scaled(b, i / 32, run_nibble(b + 16, i)); }

double q5_k(const uint8_t *b, int i) {
    return scaled(b, i / 32, run_nibble(b + 48, i) | (b[16 + i % 32] >> (i / 32) & 1) << 4);
}

double q6_k(const uint8_t *b, int i) {
    const int half = i / 128, part = i / 32 % 4, at = i % 32;
    const int low = b[half * 64 + part % 2 * 32 + at] >> (part < 2 ? 0 : 4) & 15;
    const int high = b[128 + half * 32 + at] >> (2 * part) & 3;
    return half_in(b + 208) * static_cast<int8_t>(b[192 + i / 16]) * ((low | high << 4) - 32);
}

uint16_t random_half(Random &random) {
    const uint64_t kind = random.bits() % 8;
    if (kind == 0) return static_cast<uint16_t>(random.integer(0, 0x7BFF) | (random.bits() & 0x8000));
    if (kind == 1) return 0;
    return to_half(random.normal() * 0.01);
}

}  // namespace

const std::vector<BlockType> &block_types() {
    static const std::vector<BlockType> types = {
        {"Q4_0", 2, 32, 18, {0}, DK_INT4, q4_0},        {"Q4_1", 3, 32, 20, {0, 2}, DK_INT4Z, q4_1},
        {"Q5_0", 6, 32, 22, {0}, DK_INT5, q5_0},        {"Q5_1", 7, 32, 24, {0, 2}, DK_INT5Z, q5_1},
        {"Q8_0", 8, 32, 34, {0}, DK_INT8, q8_0},        {"Q3_K", 11, 256, 110, {108}, DK_INT4H, q3_k},
        {"Q4_K", 12, 256, 144, {0, 2}, DK_INT4K, q4_k}, {"Q5_K", 13, 256, 176, {0, 2}, DK_INT5K, q5_k},
        {"Q6_K", 14, 256, 210, {208}, DK_INT6H, q6_k},
    };
    return types;
}

Bytes random_blocks(const BlockType &type, int64_t rows, int64_t cols, Random &random) {
    const int64_t count = rows * (cols / type.cols);
    Bytes blocks(count * type.bytes);
    for (uint8_t &byte : blocks) byte = static_cast<uint8_t>(random.bits());
    for (int64_t i = 0; i < count; ++i) {
        for (int at : type.halves) {
            const uint16_t half = random_half(random);
            blocks[i * type.bytes + at] = static_cast<uint8_t>(half);
            blocks[i * type.bytes + at + 1] = static_cast<uint8_t>(half >> 8);
        }
    }
    return blocks;
}

}  // namespace test
