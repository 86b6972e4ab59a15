// Products of many activation rows with quantized matrices. The 32 columns of half a tile stay in 8
// registers while every row of a block passes by; its float sums lie in the first-level cache. A row's sum
// runs over the groups in order, whatever the other rows are.
#include "gemm_generic.inl"

// ---- activations ----

template <int32_t F>
inline RowGroup group_of(const Activations &a, int64_t row, int64_t group) {
    const int64_t at = row * num_groups(a.cols) + group;
    RowGroup x;
    std::memcpy(x.q, a.q + at * kGroup, kGroup);
    x.scale = a.scale[at];
    x.sum = a.sum[at];
    const bool is_split = has_halves(F);  // 8-bit values have their sign back and start from nothing
    x.start[0] = -zero_of(F) * (a.half[2 * at] + (is_split ? 0 : a.half[2 * at + 1]));
    x.start[1] = -zero_of(F) * a.half[2 * at + 1];
    return x;
}

template <int32_t F>
inline void prepare_rows(const Activations &a, int64_t row, int count, RowGroup *out, int64_t stride) {
    for (int r = 0; r < count; ++r) quantize(a, row + r, 0, a.cols);
    for (int64_t g = 0; g < num_groups(a.cols); ++g, out += stride) {
        for (int r = 0; r < count; ++r) out[r] = group_of<F>(a, row + r, g);
    }
}

// ---- products ----

// One group of half a tile: its values in registers, those of 8 bits also with their sign.
struct HalfPanel {
    __m256i words[8], values[8];
    __m256 scale, second;
};

template <int32_t F>
ALWAYS_INLINE HalfPanel half_of(const Panel &p, bool is_right) {
    HalfPanel h;
    for (int j = 0; j < 8; ++j) {
        h.words[j] = is_right ? p.words[j].b : p.words[j].a;
        h.values[j] = _mm256_xor_si256(h.words[j], _mm256_set1_epi8(-128));
        if (F == DK_INT8) h.words[j] = _mm256_abs_epi8(h.values[j]);
    }
    h.scale = is_right ? p.scale.b : p.scale.a;
    h.second = is_right ? p.second.b : p.second.a;
    return h;
}

// Σ over 32 columns for 4 bits: 16 products of values up to 15 fit 16 bits.
ALWAYS_INLINE __m256i dot_nibbles(const HalfPanel &p, const RowGroup &x) {
    __m256i pairs = _mm256_maddubs_epi16(p.words[0], four_columns(x.q));
    for (int j = 1; j < 8; ++j) {
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(p.words[j], four_columns(x.q + 4 * j)));
    }
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// dots + Σ over the 16 columns from word `first` on.
template <int32_t F>
ALWAYS_INLINE __m256i dot_half_words(const HalfPanel &p, const RowGroup &x, int first, __m256i dots) {
    for (int j = first; j < first + 4; ++j) {
        const __m256i q = four_columns(x.q + 4 * j);
        dots = dot_half(dots, p.words[j], F == DK_INT8 ? _mm256_sign_epi8(q, p.values[j]) : q);
    }
    return dots;
}

// total + the product of a group with its row of activations.
template <int32_t F>
ALWAYS_INLINE __m256 add_group(const HalfPanel &p, const RowGroup &x, __m256 total) {
    const __m256 by = _mm256_set1_ps(x.scale);
    __m256i dots = _mm256_set1_epi32(zero_of(F) && F != DK_INT8 ? x.start[0] : 0);
    if (has_halves(F)) {
        dots = dot_half_words<F>(p, x, 0, dots);
        total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(p.scale, by), total);
        dots = dot_half_words<F>(p, x, 4, _mm256_set1_epi32(x.start[1]));
        return _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(p.second, by), total);
    }
    if (F != DK_INT8 && extra_bits(F) == 0) {
        dots = _mm256_add_epi32(dots, dot_nibbles(p, x));
    } else {
        dots = dot_half_words<F>(p, x, 4, dot_half_words<F>(p, x, 0, dots));
    }
    total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_mul_ps(p.scale, by), total);
    return has_minimum(F) ? _mm256_fmadd_ps(p.second, _mm256_set1_ps(x.sum), total) : total;
}

// sums[row][16], half of each, += the products of one group. Not inlined: compilers would interleave two
// groups, whose values do not fit the registers.
template <int32_t F>
__attribute__((noinline)) void sweep(const uint8_t *tile, int64_t g, bool is_right, const RowGroup *x, int64_t rows,
                                     float *sums) {
    const uint8_t *group = tile + group_offset(F, g);
    Header header{Floats::splat(0.0f), Floats::splat(0.0f)};
    if (has_header(F)) header = load_header<F>(tile, g);
    const HalfPanel panel = half_of<F>(load_panel<F>(group, header), is_right);
    prefetch(group + kPrefetch, group_bytes(F));
    for (int64_t r = 0; r < rows; ++r) {
        float *here = sums + r * kTile + is_right * 8;
        _mm256_storeu_ps(here, add_group<F>(panel, x[r], _mm256_loadu_ps(here)));
    }
}

template <int32_t F>
void gemm_tile(const dk_matrix &w, int64_t tile, const RowBlock &x, float *out) {
    alignas(64) float sums[kBlockRows * kTile];
    const uint8_t *data = w.data + tile * tile_bytes(F, w.cols);
    std::memset(sums, 0, static_cast<size_t>(x.rows) * kTile * sizeof(float));
    for (int64_t g = 0; g < num_groups(w.cols); ++g) {
        const RowGroup *groups = x.groups + g * x.rows;
        sweep<F>(data, g, false, groups, x.rows, sums);
        sweep<F>(data, g, true, groups, x.rows, sums);
    }
    store_block<kTile>(w, tile, x, sums, out);
}

#define DK_SPECIALIZE(F)                                                                                     \
    template <>                                                                                              \
    void prepare<F>(const Activations &a, int64_t row, int rows, RowGroup *groups, int64_t stride) {         \
        prepare_rows<F>(a, row, rows, groups, stride);                                                          \
    }                                                                                                        \
    template <>                                                                                              \
    void gemm<F>(const dk_matrix &w, int64_t tile, int64_t tiles, const RowBlock &x, float *out) {           \
        for (int64_t end = tile + tiles; tile < end; ++tile) gemm_tile<F>(w, tile, x, out);                  \
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
