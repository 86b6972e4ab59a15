// Attention over a dense cache in float32, whatever the cache holds, and what every attention needs: included in
// kernels.inl.

void rotate(const float *x, const float *rotations, int64_t rotary, int64_t dim, float scale, float *out) {
    const Floats by = Floats::splat(scale);
    int64_t i = 0;
    for (; i + 16 <= rotary; i += 16) {
        const Floats pairs = Floats::load(x + i), turn = Floats::load(rotations + i);
        const Floats cosines = mul(pairs, turn), sines = mul(swap<1>(pairs), turn);  // left c, right s; right c, left s
        mul(in_turn(sub(cosines, swap<1>(cosines)), add(sines, swap<1>(sines))), by).store(out + i);
    }
    for (; i < rotary; i += 2) {
        const float c = rotations[i], s = rotations[i + 1], left = x[i], right = x[i + 1];
        out[i] = (left * c - right * s) * scale;
        out[i + 1] = (left * s + right * c) * scale;
    }
    for (; i < dim; ++i) out[i] = x[i] * scale;
}

void store(const float *x, int64_t count, int32_t kv_format, uint8_t *out) {
    if (kv_format == DK_F32) {
        std::memcpy(out, x, static_cast<size_t>(count) * 4);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {  // to the nearest bfloat16, ties to even; a NaN stays one
        uint32_t bits;
        std::memcpy(&bits, x + i, 4);
        const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
        const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
        const uint16_t half = static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40 : rounded);
        std::memcpy(out + 2 * i, &half, 2);
    }
}

// Where the block of 16 positions that begins with `at` lies in a cache.
ALWAYS_INLINE const uint8_t *block_of(const Stretch &s, const HeadCache &cache, int32_t at) {
    return cache.data + s.tokens[(at - s.begin) / kKeyBlock] * cache.token_bytes;
}

// Positions of the stretch in the block that begins with `at`.
ALWAYS_INLINE int32_t have(const Stretch &s, int32_t at) {
    return s.stop - at < kKeyBlock ? s.stop - at : kKeyBlock;
}

// 16 columns of 16 keys, from column `i` on.
template <int32_t F, bool kIsWhole>
ALWAYS_INLINE void turn_columns(const uint8_t *block, int32_t have, int32_t dim, int32_t i, float *out) {
    const int64_t bytes = static_cast<int64_t>(dim) * element_bytes(F);
    Floats keys[16];
    for (int32_t k = 0; k < 16; ++k) {
        const uint8_t *at = block + k * bytes + i * element_bytes(F);
        keys[k] = kIsWhole || k < have ? load_dense<F>(at) : Floats::splat(0.0f);
    }
    transpose(keys);
    for (int32_t k = 0; k < 16; ++k) keys[k].store(out + (i + k) * 16);
}

// 32 columns of bfloat16 at once: two in each lane.
template <bool kIsWhole>
ALWAYS_INLINE void turn_pairs(const uint8_t *block, int32_t have, int32_t dim, int32_t i, float *out) {
    Floats pairs[16];
    for (int32_t k = 0; k < 16; ++k) {
        const auto *at = reinterpret_cast<const float *>(block + 2 * (static_cast<int64_t>(k) * dim + i));
        pairs[k] = kIsWhole || k < have ? Floats::load(at) : Floats::splat(0.0f);
    }
    transpose(pairs);
    for (int32_t k = 0; k < 16; ++k) {
        first_of_pairs(pairs[k]).store(out + (i + 2 * k) * 16);
        second_of_pairs(pairs[k]).store(out + (i + 2 * k + 1) * 16);
    }
}

template <int32_t F, bool kIsWhole>
void turn_block(const uint8_t *block, int32_t have, int32_t dim, float *out) {
    int32_t i = 0;
    for (; F == DK_BF16 && i + 32 <= dim; i += 32) turn_pairs<kIsWhole>(block, have, dim, i, out);
    for (; i < dim; i += 16) turn_columns<F, kIsWhole>(block, have, dim, i, out);
}

// A block of `have` keys, turned so that out[i] holds element i of all of them; those behind them are zero.
inline void convert_turned(const uint8_t *block, int32_t kv_format, int32_t have, int32_t dim, float *out) {
    const bool is_whole = have == kKeyBlock;  // as all but the last are: no choices among its loads
    if (kv_format == DK_F32) {
        (is_whole ? turn_block<DK_F32, true> : turn_block<DK_F32, false>)(block, have, dim, out);
    } else {
        (is_whole ? turn_block<DK_BF16, true> : turn_block<DK_BF16, false>)(block, have, dim, out);
    }
}

// Asks for the block that is read kAhead positions after the one that begins with `at`: of `now`, or behind the end
// of the stretch of `then`, which is read next, from position `begin` on.
// Always inline: GCC takes a function that only prefetches for one that does nothing, and leaves its calls out.
ALWAYS_INLINE void read_ahead(const Stretch &s, const HeadCache &now, const HeadCache &then, int32_t begin,
                              int32_t at) {
    constexpr int32_t kAhead = 2 * kKeyBlock;
    const int32_t padded = s.begin + (s.stop - s.begin + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
    const bool is_now = at + kAhead < padded;
    const int32_t next = is_now ? at + kAhead : begin + at + kAhead - padded;
    const HeadCache &cache = is_now ? now : then;
    if (next < s.total) prefetch(block_of(s, cache, next), kKeyBlock * cache.token_bytes);
}
// Of a stretch the keys are read, then the values; then the keys of the next one.
ALWAYS_INLINE void read_ahead_of_keys(const Stretch &s, int32_t at) { read_ahead(s, s.keys, s.values, s.begin, at); }
ALWAYS_INLINE void read_ahead_of_values(const Stretch &s, int32_t at) { read_ahead(s, s.values, s.keys, s.stop, at); }

// Calls F<Q>::run(…, n) for what is left of `num` queries from query `n` on, fewer than `Q` of them.
template <template <int> class F, int Q, class... Rest>
ALWAYS_INLINE void in_rest(int32_t num, int32_t n, Rest &&...rest) {
    if constexpr (Q > 1) {
        if (num - n == Q - 1) return F<Q - 1>::run(n, rest...);
        in_rest<F, Q - 1>(num, n, rest...);
    }
}

// Calls it for all queries in groups of `Most`, and for those that are left.
template <template <int> class F, int Most, class... Rest>
ALWAYS_INLINE void in_groups(int32_t num, Rest &&...rest) {
    int32_t n = 0;
    for (; n + Most <= num; n += Most) F<Most>::run(n, rest...);
    in_rest<F, Most>(num, n, rest...);
}

// Scores of `Q` queries with 16 turned keys, from place `from` of the stretch on: each key is read once for all.
template <int Q>
struct ScoreBlock {
    static void run(int32_t n, const Stretch &s, int32_t from) {
        const int32_t dim = s.head_dim;
        const float *queries = s.queries + n * dim, *keys = s.converted;
        Floats even[Q], odd[Q];  // two sums, so that one addition need not wait for the other
        for (int q = 0; q < Q; ++q) even[q] = odd[q] = Floats::splat(0.0f);
        for (int32_t i = 0; i < dim; i += 2) {
            const Floats a = Floats::load(keys + i * 16), b = Floats::load(keys + i * 16 + 16);
            for (int q = 0; q < Q; ++q) {
                even[q] = fma(a, Floats::splat(queries[q * dim + i]), even[q]);
                odd[q] = fma(b, Floats::splat(queries[q * dim + i + 1]), odd[q]);
            }
        }
        for (int q = 0; q < Q; ++q) add(even[q], odd[q]).store(s.weights + (n + q) * kKeyChunk + from);
    }
};

inline void score_dense(const Stretch &s) {
    for (int32_t at = s.begin; at < s.stop; at += 16) {
        read_ahead_of_keys(s, at);
        convert_turned(block_of(s, s.keys, at), s.keys.format, have(s, at), s.head_dim, s.converted);
        in_groups<ScoreBlock, kSums / 2>(s.num, s, at - s.begin);
    }
}

// Scores → exp(score − largest), zero where a query may not look; returns through `tail` (largest, sum).
inline void soften(const Stretch &s, int32_t n, float *tail) {
    float *w = s.weights + n * kKeyChunk;
    const int32_t padded = (s.stop - s.begin + 15) / 16 * 16;
    const int32_t low = s.first[n] > s.begin ? s.first[n] - s.begin : 0;
    const int32_t high = (s.end[n] < s.stop ? s.end[n] : s.stop) - s.begin;
    if (low >= high) {
        for (int32_t i = 0; i < padded; ++i) w[i] = 0.0f;
        tail[0] = -std::numeric_limits<float>::infinity();
        tail[1] = 0.0f;
        return;
    }
    if (s.cap != 0.0f) soft_cap(w, padded, s.cap);
    for (int32_t i = 0; i < low; ++i) w[i] = -std::numeric_limits<float>::infinity();
    for (int32_t i = high; i < padded; ++i) w[i] = -std::numeric_limits<float>::infinity();
    Floats top = Floats::load(w);
    for (int32_t i = 16; i < padded; i += 16) top = max(top, Floats::load(w + i));
    const float m = largest(top);
    Floats total = Floats::splat(0.0f);
    for (int32_t i = 0; i < padded; i += 16) {
        const Floats p = exponential(sub(Floats::load(w + i), Floats::splat(m)));
        p.store(w + i);
        total = add(total, p);
    }
    tail[0] = m;
    tail[1] = sum(total);
}

// Columns of values that lie side by side, as they are added up: two vectors of 16, in bfloat16 of every other one.
struct TwoVectors {
    Floats a, b;
};

template <int32_t F>
ALWAYS_INLINE TwoVectors load_two(const uint8_t *at) {
    if (F == DK_F32) return {load_dense<F>(at), load_dense<F>(at + 64)};
    const Floats pairs = Floats::load(reinterpret_cast<const float *>(at));
    return {first_of_pairs(pairs), second_of_pairs(pairs)};
}

template <int32_t F>
ALWAYS_INLINE void store_two(const TwoVectors &two, float *out) {
    if (F == DK_BF16) return store_pairs(two.a, two.b, out);
    two.a.store(out);
    two.b.store(out + 16);
}

// Columns i … i + 32 · `V` of the results of `Q` queries from query `n` on.
template <int32_t F, int Q, int V>
ALWAYS_INLINE void gather(int32_t n, const Stretch &s, int32_t i) {
    const int64_t bytes = static_cast<int64_t>(s.head_dim) * element_bytes(F);
    TwoVectors total[Q][V];
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) total[q][v] = {Floats::splat(0.0f), Floats::splat(0.0f)};
    }
    for (int32_t at = s.begin; at < s.stop; at += kKeyBlock) {
        if (n == 0 && i == 0) read_ahead_of_values(s, at);
        const float *weights = s.weights + n * kKeyChunk + (at - s.begin);
        const uint8_t *row = block_of(s, s.values, at) + i * element_bytes(F);
        for (int32_t k = 0, num = have(s, at); k < num; ++k, row += bytes) {
            TwoVectors value[V];
            for (int v = 0; v < V; ++v) value[v] = load_two<F>(row + 32 * v * element_bytes(F));
            for (int q = 0; q < Q; ++q) {
                const Floats p = Floats::splat(weights[q * kKeyChunk + k]);
                for (int v = 0; v < V; ++v) {
                    total[q][v].a = fma(p, value[v].a, total[q][v].a);
                    total[q][v].b = fma(p, value[v].b, total[q][v].b);
                }
            }
        }
    }
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) store_two<F>(total[q][v], s.out[n + q] + i + 32 * v);
    }
}

// The last 16 columns of heads that have an odd number of them.
template <int32_t F>
ALWAYS_INLINE void gather_last(int32_t n, const Stretch &s, int32_t i) {
    Floats total = Floats::splat(0.0f);
    for (int32_t at = s.begin; at < s.stop; at += kKeyBlock) {
        const float *weights = s.weights + n * kKeyChunk + (at - s.begin);
        const uint8_t *block = block_of(s, s.values, at);
        for (int32_t k = 0, num = have(s, at); k < num; ++k) {
            const int64_t place = (static_cast<int64_t>(k) * s.head_dim + i) * element_bytes(F);
            total = fma(Floats::splat(weights[k]), load_dense<F>(block + place), total);
        }
    }
    total.store(s.out[n] + i);
}

constexpr int kPairs = kSums < 24 ? 1 : 2;  // of vectors of a result at once

template <int32_t F, int Q>
ALWAYS_INLINE void gather_columns(int32_t n, const Stretch &s) {
    int32_t i = 0;
    for (; i + 32 * kPairs <= s.head_dim; i += 32 * kPairs) gather<F, Q, kPairs>(n, s, i);
    for (; i + 32 <= s.head_dim; i += 32) gather<F, Q, 1>(n, s, i);
    for (int q = 0; q < Q && i < s.head_dim; ++q) gather_last<F>(n + q, s, i);
}

template <int Q>
struct GatherDense {
    static void run(int32_t n, const Stretch &s) {
        if (s.values.format == DK_F32) gather_columns<DK_F32, Q>(n, s);
        else gather_columns<DK_BF16, Q>(n, s);
    }
};

inline void gather_dense(const Stretch &s) { in_groups<GatherDense, kSums / (2 * kPairs)>(s.num, s); }

void join(const float *parts, int32_t num, int64_t stride, int32_t dim, float *out) {
    float top = -std::numeric_limits<float>::infinity(), total = 0.0f;
    for (int32_t p = 0; p < num; ++p) top = std::fmax(top, parts[p * stride + dim]);
    for (int32_t i = 0; i < dim; i += 16) Floats::splat(0.0f).store(out + i);
    for (int32_t p = 0; p < num; ++p) {
        const float *part = parts + p * stride;
        if (part[dim + 1] == 0.0f) continue;
        const float weight = part[dim] == top ? 1.0f : std::exp(part[dim] - top);
        total += weight * part[dim + 1];
        for (int32_t i = 0; i < dim; i += 16) {
            fma(Floats::splat(weight), Floats::load(part + i), Floats::load(out + i)).store(out + i);
        }
    }
    const Floats inverse = Floats::splat(total > 0.0f ? 1.0f / total : 0.0f);
    for (int32_t i = 0; i < dim; i += 16) mul(Floats::load(out + i), inverse).store(out + i);
}
