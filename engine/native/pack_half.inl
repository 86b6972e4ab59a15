// Half floats without the instructions for them: the packer runs on every processor.
#pragma once

#include <cstdint>
#include <cstring>

namespace dk {

inline float as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline uint32_t as_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Exact for all 65,536 of them.
inline float from_half(uint16_t half) {
    const uint32_t rest = half & 0x7fffu;
    const uint32_t normal = (rest << 13) + (112u << 23);  // the exponent's bias goes from 15 to 127
    const uint32_t special = normal + (112u << 23);
    const uint32_t tiny = as_bits(static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f);
    const uint32_t magnitude = rest < 0x400u ? tiny : rest < 0x7c00u ? normal : special;
    return as_float(magnitude | static_cast<uint32_t>(half & 0x8000u) << 16);
}

// By arithmetic: of a comparison compilers make branches here, and loops with branches are not vectorised.
inline int32_t lesser(int32_t a, int32_t b) { return b + ((a - b) & -static_cast<int32_t>(a < b)); }
inline int32_t greater(int32_t a, int32_t b) { return b + ((a - b) & -static_cast<int32_t>(a > b)); }

// The nearest half float, ties to even; a finite number beyond the range becomes the largest one, and what is
// not finite becomes infinite.
//
// A half float is a multiple k of 2^(e − 10), e being its exponent and at least −14. The processor rounds to
// such a multiple when it adds 2^(e + 13), whose own last place that is; k then stands in the last bits.
// Positive floats are in the order of their bits.
inline uint16_t to_half(float value) {
    constexpr int32_t most = 0x477fe000, infinite = 0x7f800000, normal = 0x38800000;  // 65504, ∞, 2^-14
    const auto bits = static_cast<int32_t>(as_bits(value));
    const int32_t magnitude = bits & 0x7fffffff;
    const int32_t kept = lesser(magnitude, most);
    const int32_t exponent = greater(kept & infinite, normal);
    const int32_t added = exponent + (13 << 23);
    const float rounded = as_float(static_cast<uint32_t>(kept)) + as_float(static_cast<uint32_t>(added));
    const int32_t k = static_cast<int32_t>(as_bits(rounded)) - added;
    const int32_t half = ((exponent - normal) >> 13) + k + (magnitude >= infinite);
    return static_cast<uint16_t>(half | (bits >> 16 & 0x8000));
}

}  // namespace dk
