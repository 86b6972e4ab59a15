// ARM's dot-product extension: a tile's 16 rows in four quarters of 4 lanes.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <cmath>
#include <cstring>
#include <limits>

#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "half.h"
#include "kernels.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

namespace dk::neon {

constexpr int kOffset = 0;
constexpr int kPrefetch = 4096;
constexpr int kSums = 6;        // of Floats that registers hold beside what is added to them
constexpr int kRowsAtOnce = 2;  // whose sums of a group they hold

struct Bytes {
    uint8x16_t v[4];
    static ALWAYS_INLINE Bytes load(const uint8_t *p) {
        return {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
    }
};

struct Ints {
    int32x4_t v[4];
    static ALWAYS_INLINE Ints splat(int32_t x) {
        const int32x4_t four = vdupq_n_s32(x);
        return {{four, four, four, four}};
    }
};

struct Floats {
    float32x4_t v[4];
    static ALWAYS_INLINE Floats splat(float x) {
        const float32x4_t four = vdupq_n_f32(x);
        return {{four, four, four, four}};
    }
    static ALWAYS_INLINE Floats load(const float *p) {
        return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
    }
    ALWAYS_INLINE void store(float *p) const {
        for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, v[i]);
    }
};

template <class Quarter>
ALWAYS_INLINE Floats each(Quarter quarter) {
    return {{quarter(0), quarter(1), quarter(2), quarter(3)}};
}

ALWAYS_INLINE Floats add(Floats x, Floats y) {
    return each([&](int i) { return vaddq_f32(x.v[i], y.v[i]); });
}
ALWAYS_INLINE Floats sub(Floats x, Floats y) {
    return each([&](int i) { return vsubq_f32(x.v[i], y.v[i]); });
}
ALWAYS_INLINE Floats mul(Floats x, Floats y) {
    return each([&](int i) { return vmulq_f32(x.v[i], y.v[i]); });
}
ALWAYS_INLINE Floats div(Floats x, Floats y) {
    return each([&](int i) { return vdivq_f32(x.v[i], y.v[i]); });
}
ALWAYS_INLINE Floats fma(Floats x, Floats y, Floats z) {
    return each([&](int i) { return vfmaq_f32(z.v[i], x.v[i], y.v[i]); });
}
ALWAYS_INLINE Floats max(Floats x, Floats y) {
    return each([&](int i) { return vmaxq_f32(x.v[i], y.v[i]); });
}
ALWAYS_INLINE Floats absolute(Floats x) {
    return each([&](int i) { return vabsq_f32(x.v[i]); });
}
ALWAYS_INLINE Floats floats(Ints x) {
    return each([&](int i) { return vcvtq_f32_s32(x.v[i]); });
}
ALWAYS_INLINE float sum(Floats x) {
    return vaddvq_f32(vaddq_f32(vaddq_f32(x.v[0], x.v[1]), vaddq_f32(x.v[2], x.v[3])));
}
ALWAYS_INLINE float largest(Floats x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.v[0], x.v[1]), vmaxq_f32(x.v[2], x.v[3])));
}
// Of 32 values without their signs; NaN where one is.
ALWAYS_INLINE float largest_magnitude(Floats x, Floats y) { return largest(max(absolute(x), absolute(y))); }

ALWAYS_INLINE void prefetch(const uint8_t *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
}

ALWAYS_INLINE Bytes low_halves(Bytes x) {
    for (uint8x16_t &part : x.v) part = vandq_u8(part, vdupq_n_u8(15));
    return x;
}
ALWAYS_INLINE Bytes high_halves(Bytes x) {
    for (uint8x16_t &part : x.v) part = vshrq_n_u8(part, 4);
    return x;
}

template <int K>
ALWAYS_INLINE Bytes shift_left(Bytes x) {
    for (uint8x16_t &part : x.v) part = vshlq_n_u8(part, K);
    return x;
}
template <int K>
ALWAYS_INLINE Bytes shift_right(Bytes x) {
    for (uint8x16_t &part : x.v) part = vshrq_n_u8(part, K);
    return x;
}
// x | (y & M) in every byte.
template <int M>
ALWAYS_INLINE Bytes merge(Bytes x, Bytes y) {
    for (int i = 0; i < 4; ++i) x.v[i] = vorrq_u8(x.v[i], vandq_u8(y.v[i], vdupq_n_u8(M)));
    return x;
}

ALWAYS_INLINE int8x16_t four_columns(const int8_t *q) {
    int32_t four;
    std::memcpy(&four, q, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

// Values up to 127 are the same signed and unsigned.
ALWAYS_INLINE Ints dot_small(Ints acc, Bytes w, const int8_t *q) {
    const int8x16_t x = four_columns(q);
    for (int i = 0; i < 4; ++i) acc.v[i] = vdotq_s32(acc.v[i], vreinterpretq_s8_u8(w.v[i]), x);
    return acc;
}
ALWAYS_INLINE Ints dot_offset(Ints acc, Bytes w, const int8_t *q) {
    for (uint8x16_t &part : w.v) part = veorq_u8(part, vdupq_n_u8(128));
    return dot_small(acc, w, q);
}

ALWAYS_INLINE Floats load_half(const uint8_t *p) {
    return each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * i))); });
}
ALWAYS_INLINE Floats load_unsigned(const uint8_t *p) {
    const uint8x16_t x = vld1q_u8(p);
    const uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_u8(vget_high_u8(x));
    return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
             vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
}
ALWAYS_INLINE Floats load_signed(const uint8_t *p) {
    const int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(p));
    const int16x8_t low = vmovl_s8(vget_low_s8(x)), high = vmovl_s8(vget_high_s8(x));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
ALWAYS_INLINE Floats load_bf16(const uint8_t *p) {
    return each([&](int i) {
        return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p + 8 * i)), 16));
    });
}

// Each lane has two bfloat16, as they lie in memory: the first ones, and the second ones.
ALWAYS_INLINE Floats first_of_pairs(Floats x) {
    return each([&](int i) { return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(x.v[i]), 16)); });
}
ALWAYS_INLINE Floats second_of_pairs(Floats x) {
    const uint32x4_t mask = vdupq_n_u32(0xFFFF0000);
    return each([&](int i) { return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x.v[i]), mask)); });
}
// x₀ y₁ x₂ y₃ …
ALWAYS_INLINE Floats in_turn(Floats x, Floats y) {
    const uint32x4_t odd = vreinterpretq_u32_u64(vdupq_n_u64(0xFFFFFFFF00000000));
    return each([&](int i) { return vbslq_f32(odd, y.v[i], x.v[i]); });
}
// Stores x₀ y₀ x₁ y₁ …
ALWAYS_INLINE void store_pairs(Floats x, Floats y, float *out) {
    for (int i = 0; i < 4; ++i) vst2q_f32(out + 8 * i, float32x4x2_t{{x.v[i], y.v[i]}});
}

// Rounds to the nearest int8, stores 16 of them and returns their sum.
ALWAYS_INLINE int32_t store_rounded(Floats x, int8_t *out) {
    int32x4_t q[4];
    for (int i = 0; i < 4; ++i) q[i] = vcvtnq_s32_f32(x.v[i]);
    const int16x8_t left = vcombine_s16(vqmovn_s32(q[0]), vqmovn_s32(q[1]));
    const int16x8_t right = vcombine_s16(vqmovn_s32(q[2]), vqmovn_s32(q[3]));
    vst1q_s8(out, vcombine_s8(vqmovn_s16(left), vqmovn_s16(right)));
    return vaddvq_s32(vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3])));
}

// e^x by 2^n · e^r, |r| ≤ ln 2 / 2, and the first terms of the series of e^r; below e^−87 it is 0.
ALWAYS_INLINE float32x4_t exponential_quarter(float32x4_t x) {
    const float32x4_t in = vminq_f32(vmaxq_f32(x, vdupq_n_f32(-87.0f)), vdupq_n_f32(88.0f));
    const float32x4_t n = vrndnq_f32(vmulq_n_f32(in, 1.44269504f));
    float32x4_t r = vfmsq_f32(in, n, vdupq_n_f32(0.693145752f));
    r = vfmsq_f32(r, n, vdupq_n_f32(1.42860677e-6f));
    float32x4_t p = vdupq_n_f32(1.0f / 720);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 120), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 24), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 6), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    const int32x4_t power = vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23);
    const uint32x4_t is_hidden = vcltq_f32(x, vdupq_n_f32(-87.0f));
    const float32x4_t value = vmulq_f32(p, vreinterpretq_f32_s32(power));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(value), is_hidden));
}
ALWAYS_INLINE Floats exponential(Floats x) {
    return each([&](int i) { return exponential_quarter(x.v[i]); });
}

// Lane i gets what lane i ^ K has.
template <int K>
ALWAYS_INLINE Floats swap(Floats x) {
    if constexpr (K == 1) return each([&](int i) { return vrev64q_f32(x.v[i]); });
    if constexpr (K == 2) return each([&](int i) { return vextq_f32(x.v[i], x.v[i], 2); });
    return each([&](int i) { return x.v[i ^ (K / 4)]; });
}

ALWAYS_INLINE void transpose_four(float32x4_t (&x)[4]) {
    const float32x4_t a = vtrn1q_f32(x[0], x[1]), b = vtrn2q_f32(x[0], x[1]);
    const float32x4_t c = vtrn1q_f32(x[2], x[3]), d = vtrn2q_f32(x[2], x[3]);
    auto low = [](float32x4_t p, float32x4_t q) { return vcombine_f32(vget_low_f32(p), vget_low_f32(q)); };
    auto high = [](float32x4_t p, float32x4_t q) { return vcombine_f32(vget_high_f32(p), vget_high_f32(q)); };
    x[0] = low(a, c);
    x[1] = low(b, d);
    x[2] = high(a, c);
    x[3] = high(b, d);
}

// Element k of row n becomes element n of row k, in blocks of 4 × 4.
ALWAYS_INLINE void transpose(Floats (&x)[16]) {
    Floats turned[16];
    for (int row = 0; row < 4; ++row) {
        for (int col = 0; col < 4; ++col) {
            float32x4_t block[4];
            for (int i = 0; i < 4; ++i) block[i] = x[4 * row + i].v[col];
            transpose_four(block);
            for (int i = 0; i < 4; ++i) turned[4 * col + i].v[row] = block[i];
        }
    }
    for (int i = 0; i < 16; ++i) x[i] = turned[i];
}

#include "kernels.inl"
#include "gemm_generic.inl"

bool is_supported() {
#if defined(__linux__)
    return getauxval(AT_HWCAP) & (1UL << 20);  // HWCAP_ASIMDDP
#elif defined(__APPLE__)
    int has = 0;
    size_t size = sizeof has;
    return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has;
#else
    return false;
#endif
}

constexpr Kernels kTable = DK_KERNEL_TABLE("neon");

}  // namespace dk::neon

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const dk::Kernels dk::kNeon = dk::neon::kTable;

#endif
