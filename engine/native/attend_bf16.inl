// Attention over a bfloat16 cache with the instruction that multiplies pairs of bfloat16 and adds in float32.
// Queries and softmax weights are rounded to bfloat16, as the cache itself is; sums stay in float32.

constexpr int kMostWords = 512;  // pairs of elements of a head

// Two bfloat16 in each of 16 lanes.
struct Words {
    __m512i v;
};

ALWAYS_INLINE Words broadcast(const uint32_t *pair) { return {_mm512_set1_epi32(static_cast<int32_t>(*pair))}; }
ALWAYS_INLINE Floats dot_pairs(Floats acc, Words a, Words b) {
    return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(a.v), reinterpret_cast<__m512bh>(b.v))};
}

// Up to 32 elements of a cache row from column `i` on; zero behind the last one and for rows that are not there.
ALWAYS_INLINE Words load_words(const uint8_t *row, int32_t i, int32_t dim, bool is_there) {
    const __mmask32 mask = is_there ? (dim - i >= 32 ? 0xFFFFFFFFu : 0xFFFFu) : 0u;
    return {_mm512_maskz_loadu_epi16(mask, row + 2 * i)};
}

// Stores 16 floats as bfloat16 and returns what these are.
ALWAYS_INLINE Floats round_words(Floats x, uint32_t *out) {
    const __m256i half = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), half);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}

ALWAYS_INLINE void round_query(const float *query, int32_t dim, uint32_t *out) {
    for (int32_t i = 0; i < dim; i += 16) round_words(Floats::load(query + i), out + i / 2);
}

ALWAYS_INLINE void transpose_words(Words (&x)[16]) {
    Floats lanes[16];
    for (int k = 0; k < 16; ++k) lanes[k].v = _mm512_castsi512_ps(x[k].v);
    transpose(lanes);
    for (int k = 0; k < 16; ++k) x[k].v = _mm512_castps_si512(lanes[k].v);
}

// Adds the products of `N` words with those of `Q` queries. Each query has two sums, so that one addition need
// not wait for the other; whatever `Q` is, so that its bits do not depend on how many queries there are.
template <int Q, int N>
ALWAYS_INLINE void dot_block(const Words (&keys)[16], const uint32_t (*queries)[kMostWords], int32_t word,
                             Floats (&dots)[Q][2]) {
#pragma GCC unroll 16  // else the words and sums would lie in memory
    for (int d = 0; d < N; ++d) {
#pragma GCC unroll 8
        for (int q = 0; q < Q; ++q) {
            dots[q][d % 2] = dot_pairs(dots[q][d % 2], keys[d], broadcast(queries[q] + word + d));
        }
    }
}

// Scores of `Q` queries, the first of which is query `n`, with all positions of the stretch.
template <int Q>
void score_bf16(const Stretch &s, int32_t n) {
    alignas(64) uint32_t queries[Q][kMostWords];
    for (int q = 0; q < Q; ++q) round_query(s.queries + (n + q) * s.head_dim, s.head_dim, queries[q]);
    const int64_t bytes = 2 * static_cast<int64_t>(s.head_dim);
    for (int32_t at = s.begin; at < s.stop; at += 16) {
        if (n == 0) read_ahead(s, s.values, at);
        Floats dots[Q][2];
        for (int q = 0; q < Q; ++q) dots[q][0] = dots[q][1] = Floats::splat(0.0f);
        for (int32_t i = 0; i < s.head_dim; i += 32) {
            Words keys[16];
            for (int32_t k = 0; k < 16; ++k) {
                keys[k] = load_words(s.keys + (at + k) * bytes, i, s.head_dim, at + k < s.stop);
            }
            transpose_words(keys);
            if (s.head_dim - i >= 32) dot_block<Q, 16>(keys, queries, i / 2, dots);
            else dot_block<Q, 8>(keys, queries, i / 2, dots);
        }
        for (int q = 0; q < Q; ++q) {
            add(dots[q][0], dots[q][1]).store(s.weights + (n + q) * kKeyChunk + (at - s.begin));
        }
    }
}

// Columns i … i + 32 · `V` of the results of `Q` queries from query `n` on.
template <int Q, int V>
ALWAYS_INLINE void gather_bf16(const Stretch &s, int32_t n, const uint32_t (*weights)[kKeyChunk / 2], int32_t i) {
    const int64_t bytes = 2 * static_cast<int64_t>(s.head_dim);
    Floats low[Q][V], high[Q][V];
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) low[q][v] = high[q][v] = Floats::splat(0.0f);
    }
    const bool reads_ahead = n == 0 && i == 0 && s.stop < s.total;
    for (int32_t at = s.begin; at < s.stop; at += 2) {
        const uint8_t *row = s.values + at * bytes;
        if (reads_ahead) prefetch(s.keys + (at + kKeyChunk) * bytes, 2 * bytes);
        for (int v = 0; v < V; ++v) {
            const __m512i a = load_words(row, i + 32 * v, s.head_dim, true).v;
            const __m512i b = load_words(row + bytes, i + 32 * v, s.head_dim, at + 1 < s.stop).v;
            const Words first{_mm512_unpacklo_epi16(a, b)}, second{_mm512_unpackhi_epi16(a, b)};
            for (int q = 0; q < Q; ++q) {
                const Words pair = broadcast(weights[q] + (at - s.begin) / 2);
                low[q][v] = dot_pairs(low[q][v], first, pair);
                high[q][v] = dot_pairs(high[q][v], second, pair);
            }
        }
    }
    // Lane 4l + j of `low` is column 8l + j, of `high` column 8l + 4 + j.
    const __m512i left = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i right = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) {
            float *out = s.out[n + q] + i + 32 * v;
            _mm512_storeu_ps(out, _mm512_permutex2var_ps(low[q][v].v, left, high[q][v].v));
            if (s.head_dim - i - 32 * v >= 32) {
                _mm512_storeu_ps(out + 16, _mm512_permutex2var_ps(low[q][v].v, right, high[q][v].v));
            }
        }
    }
}

template <int Q>
void gather_rows_bf16(const Stretch &s, int32_t n) {
    alignas(64) uint32_t weights[Q][kKeyChunk / 2];
    for (int q = 0; q < Q; ++q) {
        Floats total = Floats::splat(0.0f);
        for (int32_t from = 0; from < s.stop - s.begin; from += 16) {
            const float *exact = s.weights + (n + q) * kKeyChunk + from;
            total = add(total, round_words(Floats::load(exact), weights[q] + from / 2));
        }
        s.out[n + q][s.head_dim + 1] = sum(total);
    }
    int32_t i = 0;
    for (; i + 64 <= s.head_dim; i += 64) gather_bf16<Q, 2>(s, n, weights, i);
    for (; i < s.head_dim; i += 32) gather_bf16<Q, 1>(s, n, weights, i);
}

// Calls `f<Q>(n)` for all queries in as large groups as there are, Q being `Most` or what is left.
template <int Most, template <int> class F>
void in_groups(const Stretch &s) {
    int32_t n = 0;
    for (; n + Most <= s.num; n += Most) F<Most>::run(s, n);
    if constexpr (Most > 4) {
        for (; n + 4 <= s.num; n += 4) F<4>::run(s, n);
    }
    if (s.num - n == 3) F<3>::run(s, n);
    if (s.num - n == 2) F<2>::run(s, n);
    if (s.num - n == 1) F<1>::run(s, n);
}

template <int Q>
struct Score {
    static void run(const Stretch &s, int32_t n) { score_bf16<Q>(s, n); }
};

template <int Q>
struct Gather {
    static void run(const Stretch &s, int32_t n) { gather_rows_bf16<Q>(s, n); }
};

void attend_bf16(const Stretch &s) {
    if (s.kv_format != DK_BF16) return attend(s);
    in_groups<8, Score>(s);
    for (int32_t n = 0; n < s.num; ++n) soften(s, n, s.out[n] + s.head_dim);
    in_groups<4, Gather>(s);
}
