// AVX-512 with VNNI: one row of a tile in each of 16 lanes.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "half.h"
#include "kernels.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#pragma clang attribute push(                                                                                 \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 says this of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
#endif

namespace dk::avx512 {

constexpr int kOffset = 128;     // what `dot_offset` leaves in the product
constexpr int kPrefetch = 4096;  // bytes ahead
constexpr int kSums = 24;        // of Floats that registers hold beside what is added to them
constexpr int kRowsAtOnce = 8;   // whose sums of a group they hold

struct Bytes {
    __m512i v;
    static ALWAYS_INLINE Bytes load(const uint8_t *p) { return {_mm512_loadu_si512(p)}; }
};

struct Ints {
    __m512i v;
    static ALWAYS_INLINE Ints splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
};

struct Floats {
    __m512 v;
    static ALWAYS_INLINE Floats splat(float x) { return {_mm512_set1_ps(x)}; }
    static ALWAYS_INLINE Floats load(const float *p) { return {_mm512_loadu_ps(p)}; }
    ALWAYS_INLINE void store(float *p) const { _mm512_storeu_ps(p, v); }
};

ALWAYS_INLINE Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
ALWAYS_INLINE Floats sub(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
ALWAYS_INLINE Floats mul(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
ALWAYS_INLINE Floats div(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
ALWAYS_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
ALWAYS_INLINE Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
ALWAYS_INLINE Floats absolute(Floats a) { return {_mm512_abs_ps(a.v)}; }
ALWAYS_INLINE Floats floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
ALWAYS_INLINE float sum(Floats a) { return _mm512_reduce_add_ps(a.v); }
ALWAYS_INLINE float largest(Floats a) { return _mm512_reduce_max_ps(a.v); }
// Of 32 values without their signs. As integers they are in the same order, with NaN above all numbers.
ALWAYS_INLINE float largest_magnitude(Floats a, Floats b) {
    const __m512i x = _mm512_castps_si512(_mm512_abs_ps(a.v)), y = _mm512_castps_si512(_mm512_abs_ps(b.v));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(_mm512_max_epi32(x, y)))));
}

ALWAYS_INLINE void prefetch(const uint8_t *p, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char *>(p + i), _MM_HINT_T0);
}

ALWAYS_INLINE Bytes low_halves(Bytes a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
ALWAYS_INLINE Bytes high_halves(Bytes a) {
    return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(15))};
}

template <int K>
ALWAYS_INLINE Bytes shift_left(Bytes a) {
    return {_mm512_slli_epi16(a.v, K)};
}
template <int K>
ALWAYS_INLINE Bytes shift_right(Bytes a) {
    return {_mm512_srli_epi16(a.v, K)};
}
// a | (b & M) in every byte.
template <int M>
ALWAYS_INLINE Bytes merge(Bytes a, Bytes b) {
    return {_mm512_ternarylogic_epi32(a.v, b.v, _mm512_set1_epi8(M), 0xF8)};
}

ALWAYS_INLINE int32_t word(const int8_t *q) {
    int32_t four;
    std::memcpy(&four, q, 4);
    return four;
}

// acc[lane] += Σ over 4 columns of value · activation; values 0..127.
ALWAYS_INLINE Ints dot_small(Ints acc, Bytes w, const int8_t *q) {
    return {_mm512_dpbusd_epi32(acc.v, w.v, _mm512_set1_epi32(word(q)))};
}
// The same for values with 128 added: the product is too large by kOffset · Σ activations.
ALWAYS_INLINE Ints dot_offset(Ints acc, Bytes w, const int8_t *q) { return dot_small(acc, w, q); }

ALWAYS_INLINE Floats load_half(const uint8_t *p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)))};
}
ALWAYS_INLINE Floats load_unsigned(const uint8_t *p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))))};
}
ALWAYS_INLINE Floats load_signed(const uint8_t *p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))))};
}
ALWAYS_INLINE Floats load_bf16(const uint8_t *p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

// Each lane has two bfloat16, as they lie in memory: the first ones, and the second ones.
ALWAYS_INLINE Floats first_of_pairs(Floats a) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a.v), 16))};
}
ALWAYS_INLINE Floats second_of_pairs(Floats a) {
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(-0x10000)))};
}
// a₀ b₁ a₂ b₃ …
ALWAYS_INLINE Floats in_turn(Floats a, Floats b) { return {_mm512_mask_blend_ps(0xAAAA, a.v, b.v)}; }
// Stores a₀ b₀ a₁ b₁ …
ALWAYS_INLINE void store_pairs(Floats a, Floats b, float *out) {
    const __m512i left = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i right = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    _mm512_storeu_ps(out, _mm512_permutex2var_ps(a.v, left, b.v));
    _mm512_storeu_ps(out + 16, _mm512_permutex2var_ps(a.v, right, b.v));
}

// Rounds to the nearest int8, stores 16 of them and returns their sum.
ALWAYS_INLINE int32_t store_rounded(Floats x, int8_t *out) {
    const __m512i q = _mm512_cvtps_epi32(x.v);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out), _mm512_cvtsepi32_epi8(q));
    return _mm512_reduce_add_epi32(q);
}

// e^x by 2^n · e^r, |r| ≤ ln 2 / 2, and the first terms of the series of e^r; below e^−87 it is 0.
// NaN stays NaN: of two operands min and max give the second one then.
ALWAYS_INLINE Floats exponential(Floats x) {
    const __m512 in = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(_mm512_set1_ps(-104.0f), x.v));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(in, _mm512_set1_ps(1.44269504f)),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), in);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
    __m512 p = _mm512_set1_ps(1.0f / 720);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    const __mmask16 is_seen = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
    return {_mm512_maskz_scalef_ps(is_seen, p, n)};
}

// Lane i gets what lane i ^ K has.
template <int K>
ALWAYS_INLINE Floats swap(Floats a) {
    if constexpr (K == 1) return {_mm512_permute_ps(a.v, 0xB1)};
    if constexpr (K == 2) return {_mm512_permute_ps(a.v, 0x4E)};
    if constexpr (K == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xB1)};
    return {_mm512_shuffle_f32x4(a.v, a.v, 0x4E)};
}

// Element k of row n becomes element n of row k.
ALWAYS_INLINE void transpose(Floats (&x)[16]) {
    __m512 pairs[16], quads[16];
    for (int i = 0; i < 16; i += 2) {
        pairs[i] = _mm512_unpacklo_ps(x[i].v, x[i + 1].v);
        pairs[i + 1] = _mm512_unpackhi_ps(x[i].v, x[i + 1].v);
    }
    for (int i = 0; i < 16; i += 4) {
        for (int half = 0; half < 2; ++half) {
            const __m512d a = _mm512_castps_pd(pairs[i + half]), b = _mm512_castps_pd(pairs[i + 2 + half]);
            quads[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            quads[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
    for (int i = 0; i < 4; ++i) {  // lane l of quads[4n + i] has rows 4n..4n+3 of column 4l + i
        const __m512 a = _mm512_shuffle_f32x4(quads[i], quads[4 + i], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(quads[8 + i], quads[12 + i], 0x88);
        const __m512 c = _mm512_shuffle_f32x4(quads[i], quads[4 + i], 0xDD);
        const __m512 d = _mm512_shuffle_f32x4(quads[8 + i], quads[12 + i], 0xDD);
        x[i].v = _mm512_shuffle_f32x4(a, b, 0x88);
        x[8 + i].v = _mm512_shuffle_f32x4(a, b, 0xDD);
        x[4 + i].v = _mm512_shuffle_f32x4(c, d, 0x88);
        x[12 + i].v = _mm512_shuffle_f32x4(c, d, 0xDD);
    }
}

#include "kernels.inl"
#include "gemm_avx512.inl"

bool is_supported() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

constexpr Kernels with_own_quantize(Kernels table) {
    table.quantize = quantize_by_eight;
    return table;
}

constexpr Kernels kTable = with_own_quantize(DK_KERNEL_TABLE("avx512vnni"));

}  // namespace dk::avx512

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const dk::Kernels dk::kAvx512 = dk::avx512::kTable;

#endif
