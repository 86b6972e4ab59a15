// Attention over a cache in 8 and 4 bits with whole numbers: included in kernels.inl.
//
// Queries become int8 with a scale for each 32 columns, and softmax weights, each times the scale of its value, int8
// with a scale for each block of 16 positions; both round about as much as a cache of 8 bits does. Sums over a
// group of columns and over a block of positions are then exact.

inline void round_queries(const Stretch &s) {
    const int64_t cols = s.asked.cols;
    for (int64_t n = 0; n < s.num; ++n) {
        float *x = s.asked.x + n * cols;
        std::memcpy(x, s.queries + n * s.head_dim, static_cast<size_t>(s.head_dim) * 4);
        for (int64_t i = s.head_dim; i < cols; ++i) x[i] = 0.0f;
        quantize(s.asked, n, 0, cols);
    }
}

// A group of 32 columns of a block of keys, whose scales in 4 bits are of 16 columns each.
template <int32_t F>
ALWAYS_INLINE Panel load_keys(const uint8_t *values, const uint8_t *scales) {
    Panel p;
    load_values<F>(values, p);
    p.scale = load_half(scales);
    p.second = F == DK_INT4 ? load_half(scales + 2 * kBlockTokens) : p.scale;
    return p;
}

// Scores of `Q` queries, the first of which is query `n`, with a block of keys.
template <int32_t F, int Q>
ALWAYS_INLINE void score_packed_block(int32_t n, const Stretch &s, const uint8_t *block, float *weights) {
    const int64_t groups = s.asked.cols / kGroup;
    const uint8_t *scales = block + groups * cache_group(F);
    constexpr int64_t scale_bytes = 2 * kBlockTokens * (kGroup / key_columns(F));  // of 32 columns
    Floats total[Q];
    for (int q = 0; q < Q; ++q) total[q] = Floats::splat(0.0f);
    for (int64_t g = 0; g < groups; ++g) {
        const Panel p = load_keys<F>(block + g * cache_group(F), scales + g * scale_bytes);
        add_group<F, Q, F == DK_INT4>(p, s.asked, n * groups + g, groups, total);
    }
    for (int q = 0; q < Q; ++q) total[q].store(weights + (n + q) * kKeyChunk);
}

template <int Q>
struct ScoreInt8 {
    static void run(int32_t n, const Stretch &s, const uint8_t *block, float *weights) {
        score_packed_block<DK_INT8, Q>(n, s, block, weights);
    }
};

template <int Q>
struct ScoreInt4 {
    static void run(int32_t n, const Stretch &s, const uint8_t *block, float *weights) {
        score_packed_block<DK_INT4, Q>(n, s, block, weights);
    }
};

template <int32_t F>
void score_packed(const Stretch &s) {
    round_queries(s);
    for (int32_t at = s.begin; at < s.stop; at += kKeyBlock) {
        read_ahead_of_keys(s, at);
        const uint8_t *block = block_of(s, s.keys, at);
        float *weights = s.weights + (at - s.begin);
        if constexpr (F == DK_INT8) in_groups<ScoreInt8, 4>(s.num, s, block, weights);
        else in_groups<ScoreInt4, 4>(s.num, s, block, weights);
    }
}

// The scales of a block of values; zero behind the last position, where anything may be.
ALWAYS_INLINE Floats value_scales(const Stretch &s, int64_t offset, int32_t at) {
    const Floats scales = load_half(block_of(s, s.values, at) + offset);
    const int32_t num = have(s, at);
    if (num == kKeyBlock) return scales;
    float lanes[16];
    scales.store(lanes);
    for (int32_t i = num; i < 16; ++i) lanes[i] = 0.0f;
    return Floats::load(lanes);
}

// Softmax weights of query `n` → s.weighed.
inline void weigh(const Stretch &s, int32_t n, int64_t scales_offset) {
    const Weighed &out = s.weighed;
    for (int32_t at = s.begin; at < s.stop; at += kKeyBlock) {
        const int32_t from = n * kKeyChunk + (at - s.begin), block = from / kKeyBlock;
        const Floats x = mul(Floats::load(s.weights + from), value_scales(s, scales_offset, at));
        const float top = largest_magnitude(x, x);
        const bool is_number = top <= std::numeric_limits<float>::max();
        const float scale = dot_scale(top), inverse = is_number && scale > 1e-37f ? 1.0f / scale : 0.0f;
        const int32_t total = store_rounded(is_number ? mul(x, Floats::splat(inverse)) : Floats::splat(0.0f),
                                            out.q + from);
        out.scale[block] = is_number ? scale : std::numeric_limits<float>::quiet_NaN();
        out.offset[block] = -8 * total;
    }
}

template <int32_t F>
ALWAYS_INLINE Ints dot(Ints sum, const Bytes &words, const int8_t *weights) {
    return F == DK_INT8 ? dot_offset(sum, words, weights) : dot_small(sum, words, weights);
}

// The 32 columns that begin with `i` of the results of `Q` queries, the first of which is query `n`.
template <int32_t F, int Q>
ALWAYS_INLINE void gather_packed_columns(const Stretch &s, int32_t n, int64_t i) {
    Floats total[Q][2];
    for (int q = 0; q < Q; ++q) total[q][0] = total[q][1] = Floats::splat(0.0f);
    for (int32_t at = s.begin; at < s.stop; at += kKeyBlock) {
        if (n == 0 && i == 0) read_ahead_of_values(s, at);
        const uint8_t *words = block_of(s, s.values, at) + i / kGroup * cache_group(F);
        const int32_t from = n * kKeyChunk + (at - s.begin);
        Ints sums[Q][2];
        for (int q = 0; q < Q; ++q) {
            sums[q][0] = sums[q][1] = start_of<F>(s.weighed.offset + (from + q * kKeyChunk) / kKeyBlock);
        }
        for (int t = 0; t < 4; ++t) {
            const Bytes both = Bytes::load(words + 64 * t);
            const Bytes left = F == DK_INT8 ? both : low_halves(both);
            const Bytes right = F == DK_INT8 ? Bytes::load(words + 256 + 64 * t) : high_halves(both);
            for (int q = 0; q < Q; ++q) {
                const int8_t *weights = s.weighed.q + from + q * kKeyChunk + 4 * t;
                sums[q][0] = dot<F>(sums[q][0], left, weights);
                sums[q][1] = dot<F>(sums[q][1], right, weights);
            }
        }
        for (int q = 0; q < Q; ++q) {
            const Floats scale = Floats::splat(s.weighed.scale[(from + q * kKeyChunk) / kKeyBlock]);
            for (int half = 0; half < 2; ++half) total[q][half] = fma(floats(sums[q][half]), scale, total[q][half]);
        }
    }
    for (int q = 0; q < Q; ++q) {
        total[q][0].store(s.out[n + q] + i);
        if (s.head_dim - i > 16) total[q][1].store(s.out[n + q] + i + 16);
    }
}

template <int Q>
struct GatherPacked {
    static void run(int32_t n, const Stretch &s) {
        for (int64_t i = 0; i < s.head_dim; i += kGroup) {
            if (s.values.format == DK_INT8) gather_packed_columns<DK_INT8, Q>(s, n, i);
            else gather_packed_columns<DK_INT4, Q>(s, n, i);
        }
    }
};

void gather_packed(const Stretch &s) {
    const int64_t scales = cache_scales({s.values.format, s.head_dim, false});
    for (int32_t n = 0; n < s.num; ++n) weigh(s, n, scales);
    in_groups<GatherPacked, 4>(s.num, s);
}

void attend(const Stretch &s) {
    if (s.keys.format == DK_INT8) score_packed<DK_INT8>(s);
    else if (s.keys.format == DK_INT4) score_packed<DK_INT4>(s);
    else score_dense(s);
    for (int32_t n = 0; n < s.num; ++n) soften(s, n, s.out[n] + s.head_dim);
    if (is_dense(s.values.format)) gather_dense(s);
    else gather_packed(s);
}
