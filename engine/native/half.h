// Half floats by their bits, for processors and compilers without instructions for them.
#pragma once

#include <cstdint>
#include <cstring>

namespace dk {

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline float from_half(uint16_t half) {
    const uint32_t magnitude = half & 0x7fff, sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const float value = bits_as<float>(magnitude << 13) * 0x1p112f;  // subnormal halves too
    const uint32_t bits = magnitude < 0x7c00 ? bits_as<uint32_t>(value) : magnitude << 13 | 0x7f800000;
    return bits_as<float>(bits | sign);
}

// Ties to even; what is too large becomes the largest, and what is no number stays none.
inline uint16_t to_half(float value) {
    uint32_t bits = bits_as<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
    if (bits < 0x38800000) {  // below 2⁻¹⁴ halves are multiples of 2⁻²⁴, as floats from a half on are
        return static_cast<uint16_t>(sign | (bits_as<uint32_t>(bits_as<float>(bits) + 0.5f) - 0x3f000000));
    }
    bits += 0x0fff + (bits >> 13 & 1);
    const uint32_t half = (bits - (112u << 23)) >> 13;
    return static_cast<uint16_t>(sign | (half < 0x7bff ? half : 0x7bff));
}

}  // namespace dk
