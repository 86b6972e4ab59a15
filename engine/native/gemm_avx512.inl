// Products of many activation rows with quantized matrices. The 32 columns of two tiles stay in 16
// registers while every row of a block passes by; its float sums lie in the first-level cache. A row's sum
// runs over the groups in order, whatever the other rows are.
#include "gemm_generic.inl"

// ---- activations ----

// Lane k, and k + 8: the largest of x[k], floats without signs as integers: in the same order, NaN above all.
ALWAYS_INLINE __m512 max8(const __m512i (&x)[8]) {
    __m512i quads[2];
    for (int i = 0; i < 2; ++i) {
        const __m512i *v = x + 4 * i;
        const __m512i ab =
            _mm512_max_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
        const __m512i cd =
            _mm512_max_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
        quads[i] = _mm512_max_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    }
    const __m512i top = _mm512_max_epi32(_mm512_shuffle_i32x4(quads[0], quads[1], 0x88),
                                         _mm512_shuffle_i32x4(quads[0], quads[1], 0xDD));
    return _mm512_castsi512_ps(
        _mm512_max_epi32(_mm512_shuffle_i32x4(top, top, 0x88), _mm512_shuffle_i32x4(top, top, 0xDD)));
}

// Lanes 0..7: Σ of the first 16 bytes of rows 0..7; lanes 8..15: of the second 16. q[k] = row k, row k + 4.
ALWAYS_INLINE __m512i sum_halves(const __m512i (&q)[4]) {
    __m512i s[4];
    const __m512i ones = _mm512_set1_epi8(1);
    for (int k = 0; k < 4; ++k) s[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, q[k]);
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
    const __m512i sums = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    return _mm512_shuffle_i32x4(sums, sums, 0xD8);
}

// 32 floats rounded to 16 bits, those of the first and of the second half in turn by fours.
ALWAYS_INLINE __m512i round_row(const float *x, float inverse) {
    const __m512 by = _mm512_set1_ps(inverse);
    const __m512i left = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), by));
    return _mm512_packs_epi32(left, _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), by)));
}

// The scales of one group of 8 rows and their inverses.
struct Scales {
    float scale[8], inverse[8];
};

ALWAYS_INLINE void find_scales(const float *const (&rows)[8], int64_t first, Scales &out) {
    __m512i tops[8];
    for (int r = 0; r < 8; ++r) {
        tops[r] = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(_mm512_loadu_ps(rows[r] + first))),
                                   _mm512_castps_si512(_mm512_abs_ps(_mm512_loadu_ps(rows[r] + first + 16))));
    }
    // The arithmetic of `quantize`, to the bit.
    const __m256 scale = _mm256_div_ps(_mm512_castps512_ps256(max8(tops)), _mm256_set1_ps(127.0f));
    const __mmask8 is_seen = _mm256_cmp_ps_mask(scale, _mm256_set1_ps(1e-37f), _CMP_GT_OQ);
    _mm256_storeu_ps(out.scale, scale);
    _mm256_storeu_ps(out.inverse, _mm256_maskz_div_ps(is_seen, _mm256_set1_ps(1.0f), scale));
}

// The groups of 32 floats that begin with `first` in 8 rows as int8: q[k] = that of row k, of row k + 4.
ALWAYS_INLINE void round_eight(const float *const (&rows)[8], int64_t first, const float *inverse, __m512i (&q)[4]) {
    const __m512i fours = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int k = 0; k < 4; ++k) {
        const __m512i one = round_row(rows[k] + first, inverse[k]);
        const __m512i other = round_row(rows[k + 4] + first, inverse[k + 4]);
        q[k] = _mm512_permutexvar_epi32(fours, _mm512_packs_epi16(one, other));
    }
}

// `quantize` of 8 groups of a row, to the bit: groups at … at + 7 of all rows. Returns whether each has a scale; what
// it wrote counts only then.
bool quantize_eight(const Activations &a, int64_t at) {
    const float *groups[8];
    for (int k = 0; k < 8; ++k) groups[k] = a.x + (at + k) * kGroup;
    Scales scales;
    find_scales(groups, 0, scales);
    __m512i q[4];
    round_eight(groups, 0, scales.inverse, q);
    for (int k = 0; k < 4; ++k) {
        auto *out = reinterpret_cast<__m256i *>(a.q + (at + k) * kGroup);
        _mm256_storeu_si256(out, _mm512_castsi512_si256(q[k]));
        _mm256_storeu_si256(out + 4, _mm512_extracti64x4_epi64(q[k], 1));
    }
    const __m512i in_turn = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    const __m512i halves = sum_halves(q);
    const __m256i both = _mm256_add_epi32(_mm512_castsi512_si256(halves), _mm512_extracti64x4_epi64(halves, 1));
    const __m256 scale = _mm256_loadu_ps(scales.scale);
    _mm512_storeu_si512(a.half + 2 * at, _mm512_permutexvar_epi32(in_turn, halves));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(a.offset + at), _mm256_mullo_epi32(both, _mm256_set1_epi32(-8)));
    _mm256_storeu_ps(a.scale + at, scale);
    _mm256_storeu_ps(a.sum + at, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(both)));
    return _mm256_cmp_ps_mask(scale, _mm256_set1_ps(std::numeric_limits<float>::infinity()), _CMP_LT_OQ) == 0xFF;
}

void quantize_by_eight(const Activations &a, int64_t row, int64_t first, int64_t count) {
    const int64_t end = first + count, step = 8 * kGroup;
    for (; first + step <= end; first += step) {
        if (!quantize_eight(a, (row * a.cols + first) / kGroup)) quantize(a, row, first, step);
    }
    quantize(a, row, first, end - first);
}

// What a group of 8 rows has behind its values: tails[k] is that of row k, then that of row k + 4.
template <int32_t F>
ALWAYS_INLINE void find_tails(const float *scales, __m512i sums, __m256 (&tails)[4]) {
    const __m256i left = _mm512_castsi512_si256(sums), right = _mm512_extracti64x4_epi64(sums, 1);
    const __m256i both = _mm256_add_epi32(left, right), zero = _mm256_set1_epi32(-zero_of(F));
    const __m256 scale = _mm256_loadu_ps(scales), sum = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(both));
    const __m256 first = _mm256_castsi256_ps(_mm256_mullo_epi32(has_halves(F) ? left : both, zero));
    const __m256 second = _mm256_castsi256_ps(_mm256_mullo_epi32(right, zero));
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(scale, sum));
    const __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(scale, sum));
    const __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(first, second));
    const __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(first, second));
    tails[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
    tails[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
    tails[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
    tails[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
}

ALWAYS_INLINE void put(RowGroup &out, __m256i q, __m128 tail) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out.q), q);
    _mm_storeu_ps(&out.scale, tail);  // scale, sum, start[2]
}

// One group of `count` rows, of 8 that are there.
template <int32_t F>
ALWAYS_INLINE void round_group(const float *const (&rows)[8], int64_t first, const Scales &scales, int count,
                               RowGroup *out) {
    __m512i q[4];
    round_eight(rows, first, scales.inverse, q);
    __m256 tails[4];
    find_tails<F>(scales.scale, sum_halves(q), tails);
    for (int k = 0; k < 4; ++k) {
        if (k < count) put(out[k], _mm512_castsi512_si256(q[k]), _mm256_castps256_ps128(tails[k]));
        if (k + 4 < count) {
            put(out[k + 4], _mm512_extracti64x4_epi64(q[k], 1), _mm256_extractf128_ps(tails[k], 1));
        }
    }
}

template <int32_t F>
void prepare_rows(const Activations &a, int64_t row, int count, RowGroup *out, int64_t stride) {
    constexpr int64_t kAhead = 16 * kGroup;  // columns whose scales are found together: a division takes long
    Scales scales[kAhead / kGroup];
    static_assert(kMaxRows == 8);
    const float *rows[8];  // those behind the last one repeat it
    for (int r = 0; r < 8; ++r) rows[r] = a.x + (row + (r < count ? r : count - 1)) * a.cols;
    for (int64_t begin = 0; begin < a.cols; begin += kAhead) {
        const int64_t groups = (a.cols - begin < kAhead ? a.cols - begin : kAhead) / kGroup;
        for (int64_t g = 0; g < groups; ++g) find_scales(rows, begin + g * kGroup, scales[g]);
        for (int64_t g = 0; g < groups; ++g, out += stride) {
            round_group<F>(rows, begin + g * kGroup, scales[g], count, out);
        }
    }
}

// ---- products ----

// dots[R][T] += the words [first, first + 4) of T tiles with those of R rows.
template <int R, int T>
ALWAYS_INLINE void dot_rows(const Panel (&panels)[T], const RowGroup *x, int first, Ints (&dots)[R][T]) {
    for (int j = first; j < first + 4; ++j) {
        for (int r = 0; r < R; ++r) {
            const int8_t *q = x[r].q + 4 * j;
            for (int t = 0; t < T; ++t) dots[r][t] = dot_small(dots[r][t], panels[t].words[j], q);
        }
    }
}

// sums[R][T · 16] += the products of R rows with one group of T tiles.
template <int32_t F, int R, int T>
ALWAYS_INLINE void add_rows(const Panel (&panels)[T], const RowGroup *x, float *sums) {
    Ints dots[R][T], more[R][T];
    for (int r = 0; r < R; ++r) {
        for (int t = 0; t < T; ++t) dots[r][t] = Ints::splat(zero_of(F) ? x[r].start[0] : 0);
        for (int t = 0; t < T; ++t) more[r][t] = Ints::splat(x[r].start[1]);
    }
    dot_rows<R, T>(panels, x, 0, dots);
    dot_rows<R, T>(panels, x, 4, has_halves(F) ? more : dots);
    for (int r = 0; r < R; ++r) {
        const Floats by = Floats::splat(x[r].scale);
        for (int t = 0; t < T; ++t) {
            float *here = sums + (r * T + t) * kTile;
            Floats total = fma(floats(dots[r][t]), mul(panels[t].scale, by), Floats::load(here));
            if (has_halves(F)) total = fma(floats(more[r][t]), mul(panels[t].second, by), total);
            if (has_minimum(F)) total = fma(panels[t].second, Floats::splat(x[r].sum), total);
            total.store(here);
        }
    }
}

// sums[row][T · 16] += the products of one group of T tiles, `next` bytes apart. Not inlined: compilers would
// interleave two groups, whose values do not fit the registers.
template <int32_t F, int T>
__attribute__((noinline)) void sweep(const uint8_t *tile, int64_t next, int64_t g, const RowGroup *x, int64_t rows,
                                     float *sums) {
    Panel panels[T];
    for (int t = 0; t < T; ++t) {
        const uint8_t *group = tile + t * next + group_offset(F, g);
        Header header{Floats::splat(0.0f), Floats::splat(0.0f)};
        if (has_header(F)) header = load_header<F>(tile + t * next, g);
        panels[t] = load_panel<F>(group, header);
        prefetch(group + kPrefetch, group_bytes(F));
    }
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2) add_rows<F, 2, T>(panels, x + r, sums + r * T * kTile);
    if (r < rows) add_rows<F, 1, T>(panels, x + r, sums + r * T * kTile);
}

template <int32_t F, int T>
void gemm_tiles(const dk_matrix &w, int64_t tile, const RowBlock &x, float *out) {
    alignas(64) float sums[kBlockRows * T * kTile];
    const int64_t next = tile_bytes(F, w.cols);
    std::memset(sums, 0, static_cast<size_t>(x.rows) * T * kTile * sizeof(float));
    for (int64_t g = 0; g < num_groups(w.cols); ++g) {
        sweep<F, T>(w.data + tile * next, next, g, x.groups + g * x.rows, x.rows, sums);
    }
    store_block<T * kTile>(w, tile, x, sums, out);
}

template <int32_t F>
void gemm_pairs(const dk_matrix &w, int64_t tile, int64_t tiles, const RowBlock &x, float *out) {
    const int64_t end = tile + tiles;
    for (; tile + 2 <= end; tile += 2) gemm_tiles<F, 2>(w, tile, x, out);
    if (tile < end) gemm_tiles<F, 1>(w, tile, x, out);
}

#define DK_SPECIALIZE(F)                                                                                     \
    template <>                                                                                              \
    void prepare<F>(const Activations &a, int64_t row, int rows, RowGroup *groups, int64_t stride) {         \
        prepare_rows<F>(a, row, rows, groups, stride);                                                       \
    }                                                                                                        \
    template <>                                                                                              \
    void gemm<F>(const dk_matrix &w, int64_t tile, int64_t tiles, const RowBlock &x, float *out) {           \
        gemm_pairs<F>(w, tile, tiles, x, out);                                                               \
    }
DK_SPECIALIZE(DK_INT4)
DK_SPECIALIZE(DK_INT4Z)
DK_SPECIALIZE(DK_INT4K)
DK_SPECIALIZE(DK_INT4H)
DK_SPECIALIZE(DK_INT5)
DK_SPECIALIZE(DK_INT5Z)
DK_SPECIALIZE(DK_INT5K)
DK_SPECIALIZE(DK_INT6H)
DK_SPECIALIZE(DK_INT8)
#undef DK_SPECIALIZE
