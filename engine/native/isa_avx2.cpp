// AVX2: a tile's 16 rows in two halves of 8 lanes.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "half.h"
#include "kernels.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace dk::avx2 {

constexpr int kOffset = 0;  // `dot_offset` takes the 128 off itself
constexpr int kPrefetch = 4096;
constexpr int kSums = 6;        // of Floats that registers hold beside what is added to them
constexpr int kRowsAtOnce = 2;  // whose sums of a group they hold

struct Bytes {
    __m256i a, b;
    static ALWAYS_INLINE Bytes load(const uint8_t *p) {
        return {_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)),
                _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p + 32))};
    }
};

struct Ints {
    __m256i a, b;
    static ALWAYS_INLINE Ints splat(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
};

struct Floats {
    __m256 a, b;
    static ALWAYS_INLINE Floats splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
    static ALWAYS_INLINE Floats load(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
    ALWAYS_INLINE void store(float *p) const {
        _mm256_storeu_ps(p, a);
        _mm256_storeu_ps(p + 8, b);
    }
};

ALWAYS_INLINE Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
ALWAYS_INLINE Floats sub(Floats x, Floats y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
ALWAYS_INLINE Floats mul(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
ALWAYS_INLINE Floats div(Floats x, Floats y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
ALWAYS_INLINE Floats fma(Floats x, Floats y, Floats z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
ALWAYS_INLINE Floats max(Floats x, Floats y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
ALWAYS_INLINE Floats absolute(Floats x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
ALWAYS_INLINE Floats floats(Ints x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

ALWAYS_INLINE float sum(Floats x) {
    const __m256 eight = _mm256_add_ps(x.a, x.b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
ALWAYS_INLINE float largest(Floats x) {
    const __m256 eight = _mm256_max_ps(x.a, x.b);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
// Of 32 values without their signs. As integers they are in the same order, with NaN above all numbers.
ALWAYS_INLINE float largest_magnitude(Floats x, Floats y) {
    const Floats p = absolute(x), q = absolute(y);
    const __m256i eight = _mm256_max_epi32(
        _mm256_max_epi32(_mm256_castps_si256(p.a), _mm256_castps_si256(p.b)),
        _mm256_max_epi32(_mm256_castps_si256(q.a), _mm256_castps_si256(q.b)));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1))));
}

ALWAYS_INLINE void prefetch(const uint8_t *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char *>(p + i), _MM_HINT_T0);
}

ALWAYS_INLINE Bytes low_halves(Bytes x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
ALWAYS_INLINE Bytes high_halves(Bytes x) {
    return low_halves({_mm256_srli_epi16(x.a, 4), _mm256_srli_epi16(x.b, 4)});
}

template <int K>
ALWAYS_INLINE Bytes shift_left(Bytes x) {
    return {_mm256_slli_epi16(x.a, K), _mm256_slli_epi16(x.b, K)};
}
template <int K>
ALWAYS_INLINE Bytes shift_right(Bytes x) {
    return {_mm256_srli_epi16(x.a, K), _mm256_srli_epi16(x.b, K)};
}
// x | (y & M) in every byte.
template <int M>
ALWAYS_INLINE Bytes merge(Bytes x, Bytes y) {
    const __m256i mask = _mm256_set1_epi8(M);
    return {_mm256_or_si256(x.a, _mm256_and_si256(y.a, mask)), _mm256_or_si256(x.b, _mm256_and_si256(y.b, mask))};
}

ALWAYS_INLINE __m256i four_columns(const int8_t *q) {
    int32_t four;
    std::memcpy(&four, q, 4);
    return _mm256_set1_epi32(four);
}

// Pairs of products fit 16 bits: values up to 127 here, and both factors within 128 below.
ALWAYS_INLINE __m256i dot_half(__m256i acc, __m256i w, __m256i q) {
    const __m256i pairs = _mm256_maddubs_epi16(w, q);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
ALWAYS_INLINE Ints dot_small(Ints acc, Bytes w, const int8_t *q) {
    const __m256i x = four_columns(q);
    return {dot_half(acc.a, w.a, x), dot_half(acc.b, w.b, x)};
}
ALWAYS_INLINE __m256i dot_signed(__m256i acc, __m256i w, __m256i q) {
    const __m256i value = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
    return dot_half(acc, _mm256_abs_epi8(value), _mm256_sign_epi8(q, value));
}
ALWAYS_INLINE Ints dot_offset(Ints acc, Bytes w, const int8_t *q) {
    const __m256i x = four_columns(q);
    return {dot_signed(acc.a, w.a, x), dot_signed(acc.b, w.b, x)};
}

ALWAYS_INLINE Floats load_half(const uint8_t *p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p + 16)))};
}
ALWAYS_INLINE Floats load_unsigned(const uint8_t *p) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)))};
}
ALWAYS_INLINE Floats load_signed(const uint8_t *p) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
ALWAYS_INLINE __m256 eight_bf16(const uint8_t *p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
ALWAYS_INLINE Floats load_bf16(const uint8_t *p) { return {eight_bf16(p), eight_bf16(p + 16)}; }

// Each lane has two bfloat16, as they lie in memory: the first ones, and the second ones.
ALWAYS_INLINE Floats first_of_pairs(Floats x) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.a), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.b), 16))};
}
ALWAYS_INLINE Floats second_of_pairs(Floats x) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(-0x10000));
    return {_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask)};
}
ALWAYS_INLINE void store_eight_pairs(__m256 x, __m256 y, float *out) {
    const __m256 low = _mm256_unpacklo_ps(x, y), high = _mm256_unpackhi_ps(x, y);
    _mm256_storeu_ps(out, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
// x₀ y₁ x₂ y₃ …
ALWAYS_INLINE Floats in_turn(Floats x, Floats y) {
    return {_mm256_blend_ps(x.a, y.a, 0xAA), _mm256_blend_ps(x.b, y.b, 0xAA)};
}
// Stores x₀ y₀ x₁ y₁ …
ALWAYS_INLINE void store_pairs(Floats x, Floats y, float *out) {
    store_eight_pairs(x.a, y.a, out);
    store_eight_pairs(x.b, y.b, out + 16);
}

// Rounds to the nearest int8, stores 16 of them and returns their sum.
ALWAYS_INLINE int32_t store_rounded(Floats x, int8_t *out) {
    const __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out), bytes);
    const __m256i eight = _mm256_add_epi32(a, b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}

// e^x by 2^n · e^r, |r| ≤ ln 2 / 2, and the first terms of the series of e^r; below e^−87 it is 0.
ALWAYS_INLINE __m256 exponential_half(__m256 x) {
    // NaN stays NaN: of two operands min and max give the second one then.
    const __m256 in = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), x));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(in, _mm256_set1_ps(1.44269504f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), in);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.0f / 720);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    const __m256 is_seen = _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_NLT_UQ);
    return _mm256_and_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(power)), is_seen);
}
ALWAYS_INLINE Floats exponential(Floats x) { return {exponential_half(x.a), exponential_half(x.b)}; }

// Lane i gets what lane i ^ K has.
template <int K>
ALWAYS_INLINE Floats swap(Floats x) {
    if constexpr (K == 1) return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
    if constexpr (K == 2) return {_mm256_permute_ps(x.a, 0x4E), _mm256_permute_ps(x.b, 0x4E)};
    if constexpr (K == 4) return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
    return {x.b, x.a};
}

ALWAYS_INLINE void transpose_eight(__m256 (&x)[8]) {
    __m256 pairs[8], quads[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int half = 0; half < 2; ++half) {
            quads[i + 2 * half] = _mm256_shuffle_ps(pairs[i + half], pairs[i + 2 + half], 0x44);
            quads[i + 2 * half + 1] = _mm256_shuffle_ps(pairs[i + half], pairs[i + 2 + half], 0xEE);
        }
    }
    for (int i = 0; i < 4; ++i) {
        x[i] = _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x20);
        x[4 + i] = _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x31);
    }
}

// Element k of row n becomes element n of row k: four blocks of 8 × 8, two of which change places.
ALWAYS_INLINE void transpose(Floats (&x)[16]) {
    __m256 top[8], right[8], left[8], bottom[8];
    for (int i = 0; i < 8; ++i) {
        top[i] = x[i].a;
        right[i] = x[i].b;
        left[i] = x[8 + i].a;
        bottom[i] = x[8 + i].b;
    }
    transpose_eight(top);
    transpose_eight(right);
    transpose_eight(left);
    transpose_eight(bottom);
    for (int i = 0; i < 8; ++i) {
        x[i] = {top[i], left[i]};
        x[8 + i] = {right[i], bottom[i]};
    }
}

#include "kernels.inl"
#include "gemm_avx2.inl"

bool is_supported() {
    __builtin_cpu_init();
    // Conversions of half floats (F16C) are older than AVX2; not every compiler can ask for them.
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

constexpr Kernels kTable = DK_KERNEL_TABLE("avx2");

}  // namespace dk::avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const dk::Kernels dk::kAvx2 = dk::avx2::kTable;

#endif
