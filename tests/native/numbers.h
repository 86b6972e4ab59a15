// Random numbers that are the same everywhere, and half floats and bfloat16 by their definitions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace test {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

    // splitmix64
    uint64_t bits() {
        uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    int64_t integer(int64_t low, int64_t high) {  // both included
        return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
    }
    double uniform(double low, double high) { return low + (high - low) * 0x1p-53 * (bits() >> 11); }
    double sign() { return bits() & 1 ? 1 : -1; }
    double normal() {
        return std::sqrt(-2 * std::log(uniform(1e-9, 1))) * std::cos(6.283185307179586 * uniform(0, 1));
    }

  private:
    uint64_t state_;
};

inline double from_half(uint16_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                             : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                            : std::ldexp(fraction, -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

// The nearest half float, ties to even; beyond the largest one, the largest.
inline uint16_t to_half(double value) {
    const double magnitude = std::fabs(value);
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (magnitude == 0) return sign;
    if (magnitude >= 65504) return sign | 0x7BFF;
    int exponent;
    std::frexp(magnitude, &exponent);
    const int unit = exponent - 11 > -24 ? exponent - 11 : -24;  // halves near it are multiples of 2^unit
    const int64_t count = std::llrint(std::ldexp(magnitude, -unit));
    return static_cast<uint16_t>(sign | ((static_cast<int64_t>(unit + 24) << 10) + count));
}

inline float from_bf16(uint16_t value) {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
}

// The nearest bfloat16, ties to even.
inline uint16_t to_bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t below = bits & 0xFFFF, kept = bits >> 16;
    return static_cast<uint16_t>(kept + (below > 0x8000 || (below == 0x8000 && kept & 1)));
}

}  // namespace test
