// Products of many activation rows with quantized matrices. The 32 columns of half a tile stay in 8
// registers while every row of a block passes by; its float sums lie in the first-level cache. A row's sum
// runs over the groups in order, whatever the other rows are.
#include "gemm_generic.inl"

// ---- activations ----

inline RowGroup group_of(const Activations &a, int64_t row, int64_t group) {
    const int64_t at = row * num_groups(a.cols) + group;
    RowGroup x;
    std::memcpy(x.q, a.q + at * kGroup, kGroup);
    x.scale = a.scale[at];
    x.sum = a.sum[at];
    x.start[0] = -8 * (a.half[2 * at] + a.half[2 * at + 1]);  // 8-bit values have their sign back
    x.start[1] = 0;
    return x;
}

inline void prepare_rows(const Activations &a, int64_t row, int count, RowGroup *out, int64_t stride) {
    for (int r = 0; r < count; ++r) quantize(a, row + r, 0, a.cols);
    for (int64_t g = 0; g < num_groups(a.cols); ++g, out += stride) {
        for (int r = 0; r < count; ++r) out[r] = group_of(a, row + r, g);
    }
}

// ---- products ----

// One group of half a tile: its values in registers, those with a sign also as they are.
struct Panel {
    __m256i words[8], values[8];
    __m256 scale, second;  // `second`: the minimum, or the scale of the second 16 columns
};

ALWAYS_INLINE __m256i load_32(const uint8_t *p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
}
ALWAYS_INLINE __m256 load_8_halves(const uint8_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
}

template <int32_t F>
ALWAYS_INLINE void load_panel(const uint8_t *group, int half, Panel &p) {
    const uint8_t *values = group + half * 32, *scales = group + value_bytes(F) + half * kTile;
    const __m256i low = _mm256_set1_epi8(15), sign = _mm256_set1_epi8(-128);
    for (int j = 0; j < 8; ++j) {
        if (is_4bit(F)) {
            const __m256i both = load_32(values + j % 4 * 64);
            p.words[j] = _mm256_and_si256(j < 4 ? both : _mm256_srli_epi16(both, 4), low);
        } else if (F == DK_INT8Z) {
            p.words[j] = load_32(values + j * 64);
        } else {
            p.values[j] = _mm256_xor_si256(load_32(values + j * 64), sign);
            p.words[j] = _mm256_abs_epi8(p.values[j]);
        }
    }
    p.scale = load_8_halves(scales);
    p.second = has_two_scales(F) ? load_8_halves(scales + 2 * kTile) : p.scale;
}

// Σ over 32 columns for 4 bits: 16 products of values up to 15 fit 16 bits.
ALWAYS_INLINE __m256i dot_4bit_words(const Panel &p, const RowGroup &x) {
    __m256i pairs = _mm256_maddubs_epi16(p.words[0], four_columns(x.q));
    for (int j = 1; j < 8; ++j) {
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(p.words[j], four_columns(x.q + 4 * j)));
    }
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// dots + Σ over the 16 columns from word `first` on.
template <int32_t F>
ALWAYS_INLINE __m256i dot_8bit_words(const Panel &p, const RowGroup &x, int first, __m256i dots) {
    for (int j = first; j < first + 4; ++j) {
        const __m256i q = four_columns(x.q + 4 * j);
        dots = dot_half(dots, p.words[j], F == DK_INT8Z ? q : _mm256_sign_epi8(q, p.values[j]));
    }
    return dots;
}

// total + the product of a group with its row of activations.
template <int32_t F>
ALWAYS_INLINE __m256 add_group(const Panel &p, const RowGroup &x, __m256 total) {
    const __m256 by = _mm256_set1_ps(x.scale);
    __m256 last = p.scale;
    __m256i dots = _mm256_setzero_si256();
    if (is_4bit(F)) {
        dots = dot_4bit_words(p, x);
        if (F == DK_INT4) dots = _mm256_add_epi32(dots, _mm256_set1_epi32(x.start[0]));
    } else {
        dots = dot_8bit_words<F>(p, x, 0, dots);
        if (F == DK_INT8H) {
            total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(p.scale, by), total);
            dots = _mm256_setzero_si256();
            last = p.second;
        }
        dots = dot_8bit_words<F>(p, x, 4, dots);
    }
    total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(last, by), total);
    if (F == DK_INT4Z || F == DK_INT8Z) total = _mm256_fmadd_ps(p.second, _mm256_set1_ps(x.sum), total);
    return total;
}

// sums[row][16], half of each, += the products of one group. Not inlined: compilers would interleave two
// groups, whose values do not fit the registers.
template <int32_t F>
__attribute__((noinline)) void sweep(const uint8_t *group, int half, const RowGroup *x, int64_t rows,
                                     float *sums) {
    Panel panel;
    load_panel<F>(group, half, panel);
    prefetch(group + kPrefetch, group_bytes(F));
    for (int64_t r = 0; r < rows; ++r) {
        float *here = sums + r * kTile + half * 8;
        _mm256_storeu_ps(here, add_group<F>(panel, x[r], _mm256_loadu_ps(here)));
    }
}

template <int32_t F>
void gemm_tile(const dk_matrix &w, int64_t tile, const RowBlock &x, float *out) {
    alignas(64) float sums[kBlockRows * kTile];
    const uint8_t *group = w.data + tile * tile_bytes(F, w.cols);
    std::memset(sums, 0, static_cast<size_t>(x.rows) * kTile * sizeof(float));
    for (int64_t g = 0; g < num_groups(w.cols); ++g, group += group_bytes(F)) {
        for (int half = 0; half < 2; ++half) sweep<F>(group, half, x.groups + g * x.rows, x.rows, sums);
    }
    store_block<kTile>(w, tile, x, sums, out);
}

#define DK_SPECIALIZE(F)                                                                                     \
    template <>                                                                                              \
    void prepare<F>(const Activations &a, int64_t row, int rows, RowGroup *groups, int64_t stride) {         \
        prepare_rows(a, row, rows, groups, stride);                                                          \
    }                                                                                                        \
    template <>                                                                                              \
    void gemm<F>(const dk_matrix &w, int64_t tile, int64_t tiles, const RowBlock &x, float *out) {           \
        for (int64_t end = tile + tiles; tile < end; ++tile) gemm_tile<F>(w, tile, x, out);                  \
    }
DK_SPECIALIZE(DK_INT4)
DK_SPECIALIZE(DK_INT4Z)
DK_SPECIALIZE(DK_INT8)
DK_SPECIALIZE(DK_INT8Z)
DK_SPECIALIZE(DK_INT8H)
#undef DK_SPECIALIZE
