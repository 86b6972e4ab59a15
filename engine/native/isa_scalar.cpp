// Plain C++: what every processor runs, and what the others are compared with.
#include <cmath>
#include <cstring>
#include <limits>

#include "half.h"
#include "kernels.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace dk::scalar {

constexpr int kOffset = 0;
constexpr int kPrefetch = 4096;
constexpr int kSums = 2;  // of Floats; as good as any: no register holds one
constexpr int kRowsAtOnce = 8;

struct Bytes {
    uint8_t v[64];
    static Bytes load(const uint8_t *p) {
        Bytes b;
        std::memcpy(b.v, p, 64);
        return b;
    }
};

struct Ints {
    int32_t v[16];
    static Ints splat(int32_t x) {
        Ints r;
        for (int32_t &lane : r.v) lane = x;
        return r;
    }
};

struct Floats {
    float v[16];
    static Floats splat(float x) {
        Floats r;
        for (float &lane : r.v) lane = x;
        return r;
    }
    static Floats load(const float *p) {
        Floats r;
        std::memcpy(r.v, p, sizeof r.v);
        return r;
    }
    void store(float *p) const { std::memcpy(p, v, sizeof v); }
};

template <class Lane>
ALWAYS_INLINE Floats each(Lane lane) {
    Floats r;
    for (int i = 0; i < 16; ++i) r.v[i] = lane(i);
    return r;
}

ALWAYS_INLINE Floats add(const Floats &x, const Floats &y) {
    return each([&](int i) { return x.v[i] + y.v[i]; });
}
ALWAYS_INLINE Floats sub(const Floats &x, const Floats &y) {
    return each([&](int i) { return x.v[i] - y.v[i]; });
}
ALWAYS_INLINE Floats mul(const Floats &x, const Floats &y) {
    return each([&](int i) { return x.v[i] * y.v[i]; });
}
ALWAYS_INLINE Floats div(const Floats &x, const Floats &y) {
    return each([&](int i) { return x.v[i] / y.v[i]; });
}
// Not fused: without the instruction, the fused operation is a slow library call.
ALWAYS_INLINE Floats fma(const Floats &x, const Floats &y, const Floats &z) {
    return each([&](int i) { return x.v[i] * y.v[i] + z.v[i]; });
}
ALWAYS_INLINE Floats max(const Floats &x, const Floats &y) {
    return each([&](int i) { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
}
ALWAYS_INLINE Floats absolute(const Floats &x) {
    return each([&](int i) { return std::fabs(x.v[i]); });
}
ALWAYS_INLINE Floats floats(const Ints &x) {
    return each([&](int i) { return static_cast<float>(x.v[i]); });
}
ALWAYS_INLINE Floats exponential(const Floats &x) {
    return each([&](int i) { return x.v[i] < -87.0f ? 0.0f : std::exp(x.v[i] > 88.0f ? 88.0f : x.v[i]); });
}

ALWAYS_INLINE float sum(const Floats &x) {
    float total = 0.0f;
    for (float lane : x.v) total += lane;
    return total;
}
ALWAYS_INLINE float largest(const Floats &x) {
    float top = x.v[0];
    for (float lane : x.v) top = lane > top ? lane : top;
    return top;
}
// Of 32 values without their signs; NaN where one is.
ALWAYS_INLINE float largest_magnitude(const Floats &x, const Floats &y) {
    float top = 0.0f;
    for (int i = 0; i < 32; ++i) {
        const float magnitude = std::fabs(i < 16 ? x.v[i] : y.v[i - 16]);
        top = magnitude <= top || top != top ? top : magnitude;
    }
    return top;
}
// Lane i gets what lane i ^ K has.
template <int K>
ALWAYS_INLINE Floats swap(const Floats &x) {
    return each([&](int i) { return x.v[i ^ K]; });
}

// Element k of row n becomes element n of row k.
ALWAYS_INLINE void transpose(Floats (&x)[16]) {
    for (int n = 0; n < 16; ++n) {
        for (int k = 0; k < n; ++k) {
            const float kept = x[n].v[k];
            x[n].v[k] = x[k].v[n];
            x[k].v[n] = kept;
        }
    }
}

ALWAYS_INLINE void prefetch(const uint8_t *, int64_t) {}

ALWAYS_INLINE Bytes low_halves(const Bytes &x) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = x.v[i] & 15;
    return r;
}
ALWAYS_INLINE Bytes high_halves(const Bytes &x) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = x.v[i] >> 4;
    return r;
}

// Bits that leave a byte are lost; the others shift pairs of bytes, whose strays `merge` masks out.
template <int K>
ALWAYS_INLINE Bytes shift_left(const Bytes &x) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = static_cast<uint8_t>(x.v[i] << K);
    return r;
}
template <int K>
ALWAYS_INLINE Bytes shift_right(const Bytes &x) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = x.v[i] >> K;
    return r;
}
// x | (y & M) in every byte.
template <int M>
ALWAYS_INLINE Bytes merge(const Bytes &x, const Bytes &y) {
    Bytes r;
    for (int i = 0; i < 64; ++i) r.v[i] = x.v[i] | (y.v[i] & M);
    return r;
}

ALWAYS_INLINE Ints dot_small(Ints acc, const Bytes &w, const int8_t *q) {
    for (int lane = 0; lane < 16; ++lane) {
        for (int i = 0; i < 4; ++i) acc.v[lane] += w.v[4 * lane + i] * q[i];
    }
    return acc;
}
ALWAYS_INLINE Ints dot_offset(Ints acc, const Bytes &w, const int8_t *q) {
    for (int lane = 0; lane < 16; ++lane) {
        for (int i = 0; i < 4; ++i) acc.v[lane] += (w.v[4 * lane + i] - 128) * q[i];
    }
    return acc;
}

ALWAYS_INLINE Floats load_half(const uint8_t *p) {
    uint16_t h[16];
    std::memcpy(h, p, sizeof h);
    return each([&](int i) { return from_half(h[i]); });
}
ALWAYS_INLINE Floats load_unsigned(const uint8_t *p) {
    return each([&](int i) { return static_cast<float>(p[i]); });
}
ALWAYS_INLINE Floats load_signed(const uint8_t *p) {
    return each([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
}
ALWAYS_INLINE Floats load_bf16(const uint8_t *p) {
    uint16_t h[16];
    std::memcpy(h, p, sizeof h);
    return each([&](int i) {
        const uint32_t bits = static_cast<uint32_t>(h[i]) << 16;
        float x;
        std::memcpy(&x, &bits, 4);
        return x;
    });
}

// Each lane has two bfloat16, as they lie in memory: the first ones, and the second ones.
ALWAYS_INLINE Floats first_of_pairs(const Floats &x) {
    return each([&](int i) { return bits_as<float>(bits_as<uint32_t>(x.v[i]) << 16); });
}
ALWAYS_INLINE Floats second_of_pairs(const Floats &x) {
    return each([&](int i) { return bits_as<float>(bits_as<uint32_t>(x.v[i]) & 0xFFFF0000); });
}
// x₀ y₁ x₂ y₃ …
ALWAYS_INLINE Floats in_turn(const Floats &x, const Floats &y) {
    return each([&](int i) { return i % 2 ? y.v[i] : x.v[i]; });
}
// Stores x₀ y₀ x₁ y₁ …
ALWAYS_INLINE void store_pairs(const Floats &x, const Floats &y, float *out) {
    for (int i = 0; i < 16; ++i) out[2 * i] = x.v[i], out[2 * i + 1] = y.v[i];
}

// Rounds to the nearest int8, stores 16 of them and returns their sum.
ALWAYS_INLINE int32_t store_rounded(const Floats &x, int8_t *out) {
    int32_t total = 0;
    for (int i = 0; i < 16; ++i) {
        const float bounded = x.v[i] > -127.0f ? (x.v[i] < 127.0f ? x.v[i] : 127.0f) : -127.0f;
        const int32_t q = static_cast<int32_t>(std::nearbyint(bounded));
        out[i] = static_cast<int8_t>(q);
        total += q;
    }
    return total;
}

#include "kernels.inl"
#include "gemm_generic.inl"

bool is_supported() { return true; }

constexpr Kernels kTable = DK_KERNEL_TABLE("scalar");

}  // namespace dk::scalar

const dk::Kernels dk::kScalar = dk::scalar::kTable;
