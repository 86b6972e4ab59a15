// The kernels, written once over the vectors of an instruction set (`Floats`, `Ints`, `Bytes` of the namespace
// this is included in). All sums have a fixed order that does not depend on how many rows are computed.

inline float dot_scale(float largest) { return largest / 127.0f; }

// ---- activations ----

void rms_norm(const float *x, const float *weight, float eps, int64_t cols, float *out) {
    Floats squares = Floats::splat(0.0f), more = squares;
    for (int64_t i = 0; i < cols; i += 32) {
        const Floats a = Floats::load(x + i), b = Floats::load(x + i + 16);
        squares = fma(a, a, squares);
        more = fma(b, b, more);
    }
    const float mean = sum(add(squares, more)) / static_cast<float>(cols);
    const Floats scale = Floats::splat(1.0f / std::sqrt(mean + eps));
    for (int64_t i = 0; i < cols; i += 16) {
        mul(mul(Floats::load(x + i), scale), Floats::load(weight + i)).store(out + i);
    }
}

// A group that has no number to be held by: its scale is NaN.
inline void hold_nothing(const Activations &a, int64_t at) {
    std::memset(a.q + at * kGroup, 0, kGroup);
    a.half[2 * at] = a.half[2 * at + 1] = a.offset[at] = 0;
    a.scale[at] = a.sum[at] = std::numeric_limits<float>::quiet_NaN();
}

void quantize(const Activations &a, int64_t row, int64_t first, int64_t count) {
    const int64_t groups = a.cols / kGroup;
    for (int64_t g = first / kGroup; g < (first + count) / kGroup; ++g) {
        const float *x = a.x + row * a.cols + g * kGroup;
        int8_t *q = a.q + row * a.cols + g * kGroup;
        const Floats left = Floats::load(x), right = Floats::load(x + 16);
        const float top = largest_magnitude(left, right);
        if (!(top <= std::numeric_limits<float>::max())) {  // an infinity or NaN: so are the products
            hold_nothing(a, row * groups + g);
            continue;
        }
        const float scale = dot_scale(top);
        // A scale so small that its inverse overflows stands for a group that is as good as zero.
        const float inverse = scale > 1e-37f ? 1.0f / scale : 0.0f;
        const int32_t a0 = store_rounded(mul(left, Floats::splat(inverse)), q);
        const int32_t a1 = store_rounded(mul(right, Floats::splat(inverse)), q + 16);
        a.half[(row * groups + g) * 2] = a0;
        a.half[(row * groups + g) * 2 + 1] = a1;
        a.offset[row * groups + g] = -8 * (a0 + a1);
        a.scale[row * groups + g] = scale;
        a.sum[row * groups + g] = scale * static_cast<float>(a0 + a1);
    }
}

void silu_mul(const float *gate, const float *up, int64_t count, float *out) {
    const Floats one = Floats::splat(1.0f), zero = Floats::splat(0.0f);
    for (int64_t i = 0; i < count; i += 16) {
        const Floats g = Floats::load(gate + i);
        mul(div(g, add(one, exponential(sub(zero, g)))), Floats::load(up + i)).store(out + i);
    }
}

// ---- products of 1 to 8 rows with a tile ----

// What a block of 8 groups shares.
struct Header {
    Floats d, e;
};

// One group of a tile: its values in words 0..7 (columns 4j..4j+3), and the scales of all 32 columns, or of the
// first 16 in `scale` and of the others in `second`; `second` is else what the minimum adds.
struct Panel {
    Bytes words[8];
    Floats scale, second;
};

template <int32_t F>
ALWAYS_INLINE Header load_header(const uint8_t *tile, int64_t group) {
    const uint8_t *header = tile + header_offset(F, group);
    Header h{load_half(header), Floats::splat(0.0f)};
    if (has_minimum(F)) h.e = load_half(header + 2 * kTile);
    return h;
}

template <int J>
ALWAYS_INLINE void add_fifth_bits(Panel &p, Bytes plane) {
    p.words[J] = merge<0x10>(p.words[J], shift_left<4 - J>(plane));
    if constexpr (J == 0) {
        p.words[4] = merge<0x10>(p.words[4], plane);
    } else {
        p.words[4 + J] = merge<0x10>(p.words[4 + J], shift_right<J>(plane));
    }
}

ALWAYS_INLINE void add_two_bits(Bytes *words, Bytes plane) {
    words[0] = merge<0x30>(words[0], shift_left<4>(plane));
    words[1] = merge<0x30>(words[1], shift_left<2>(plane));
    words[2] = merge<0x30>(words[2], plane);
    words[3] = merge<0x30>(words[3], shift_right<2>(plane));
}

template <int32_t F>
ALWAYS_INLINE void load_values(const uint8_t *values, Panel &p) {
    if constexpr (F == DK_INT8) {
        for (int j = 0; j < 8; ++j) p.words[j] = Bytes::load(values + 64 * j);
        return;
    }
    for (int j = 0; j < 4; ++j) {
        const Bytes both = Bytes::load(values + 64 * j);
        p.words[j] = low_halves(both);
        p.words[j + 4] = high_halves(both);
    }
    if constexpr (extra_bits(F) == 1) {
        const Bytes plane = Bytes::load(values + 256);
        add_fifth_bits<0>(p, plane);
        add_fifth_bits<1>(p, plane);
        add_fifth_bits<2>(p, plane);
        add_fifth_bits<3>(p, plane);
    } else if constexpr (extra_bits(F) == 2) {
        add_two_bits(p.words, Bytes::load(values + 256));
        add_two_bits(p.words + 4, Bytes::load(values + 320));
    }
}

template <int32_t F>
ALWAYS_INLINE void load_scales(const uint8_t *scales, const Header &h, Panel &p) {
    if constexpr (has_halves(F)) {
        p.scale = mul(h.d, load_signed(scales));
        p.second = mul(h.d, load_signed(scales + kTile));
    } else if constexpr (has_header(F)) {
        p.scale = mul(h.d, load_unsigned(scales));
        p.second = sub(Floats::splat(0.0f), mul(h.e, load_unsigned(scales + kTile)));
    } else {
        p.scale = load_half(scales);
        p.second = has_minimum(F) ? load_half(scales + 2 * kTile) : p.scale;
    }
}

template <int32_t F>
ALWAYS_INLINE Panel load_panel(const uint8_t *group, const Header &h) {
    Panel p;
    load_values<F>(group, p);
    load_scales<F>(group + value_bytes(F), h, p);
    return p;
}

// acc + the words first .. first + 3 times their activations.
template <int32_t F>
ALWAYS_INLINE Ints dot_words(Ints acc, const Panel &p, const int8_t *q, int first) {
    for (int j = first; j < first + 4; ++j) {
        acc = F == DK_INT8 ? dot_offset(acc, p.words[j], q + 4 * j) : dot_small(acc, p.words[j], q + 4 * j);
    }
    return acc;
}

// What the sum of a group starts from: its activations times what was added to the values.
template <int32_t F>
ALWAYS_INLINE Ints start_of(const int32_t *offset) {
    constexpr int32_t zero = F == DK_INT8 ? kOffset : zero_of(F);
    return zero ? Ints::splat(zero / 8 * *offset) : Ints::splat(0);  // zero is a multiple of 8 or none
}

template <int32_t F>
ALWAYS_INLINE Floats add_group(const Panel &p, const Activations &a, int64_t at, Floats total) {
    const int8_t *q = a.q + at * kGroup;
    const Floats by = Floats::splat(a.scale[at]);
    if constexpr (has_halves(F)) {
        const Ints first = dot_words<F>(Ints::splat(-zero_of(F) * a.half[2 * at]), p, q, 0);
        const Ints second = dot_words<F>(Ints::splat(-zero_of(F) * a.half[2 * at + 1]), p, q, 4);
        total = fma(floats(first), mul(p.scale, by), total);
        return fma(floats(second), mul(p.second, by), total);
    }
    const Ints dots = dot_words<F>(dot_words<F>(start_of<F>(a.offset + at), p, q, 0), p, q, 4);
    total = fma(floats(dots), mul(p.scale, by), total);
    return has_minimum(F) ? fma(p.second, Floats::splat(a.sum[at]), total) : total;
}

template <int32_t F, int R>
void tile_quantized(const uint8_t *tile, const Activations &a, int64_t row, float (*out)[kTile]) {
    const int64_t groups = a.cols / kGroup;
    Floats total[R];
    for (int r = 0; r < R; ++r) total[r] = Floats::splat(0.0f);
    Header header{Floats::splat(0.0f), Floats::splat(0.0f)};
    for (int64_t g = 0; g < groups; ++g) {
        const uint8_t *group = tile + group_offset(F, g);
        prefetch(group + kPrefetch, group_bytes(F));
        if (has_header(F) && g % kBlockGroups == 0) header = load_header<F>(tile, g);
        const Panel p = load_panel<F>(group, header);
        for (int r = 0; r < R; ++r) total[r] = add_group<F>(p, a, (row + r) * groups + g, total[r]);
    }
    for (int r = 0; r < R; ++r) total[r].store(out[r]);
}

template <int32_t F>
ALWAYS_INLINE Floats load_dense(const uint8_t *data) {
    return F == DK_F32 ? Floats::load(reinterpret_cast<const float *>(data)) : load_bf16(data);
}

// `L` rows of the matrix at once, so that the additions of one do not wait for each other.
template <int32_t F, int R, int L>
void dense_rows(const uint8_t *const *w, const Activations &a, int64_t row, float (*out)[kTile], int lane) {
    Floats total[R][L];
    for (int r = 0; r < R; ++r) {
        for (int l = 0; l < L; ++l) total[r][l] = Floats::splat(0.0f);
    }
    for (int64_t i = 0; i < a.cols; i += 16) {
        for (int l = 0; l < L; ++l) {
            const Floats weights = load_dense<F>(w[lane + l] + i * element_bytes(F));
            for (int r = 0; r < R; ++r) {
                total[r][l] = fma(weights, Floats::load(a.x + (row + r) * a.cols + i), total[r][l]);
            }
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int l = 0; l < L; ++l) out[r][lane + l] = sum(total[r][l]);
    }
}

template <int32_t F, int R>
void tile_dense(const dk_matrix &m, int64_t tile, const Activations &a, int64_t row, float (*out)[kTile]) {
    constexpr int kLanes = R <= 2 ? 8 : R <= 4 ? 4 : 2;
    const uint8_t *w[kTile];
    for (int64_t lane = 0; lane < kTile; ++lane) {
        const int64_t at = tile * kTile + lane;  // rows behind the last one repeat it; nobody reads them
        w[lane] = m.data + (at < m.rows ? at : m.rows - 1) * m.cols * element_bytes(F);
    }
    for (int lane = 0; lane < kTile; lane += kLanes) dense_rows<F, R, kLanes>(w, a, row, out, lane);
}

template <int32_t F, int R>
void tile_rows(const dk_matrix &m, int64_t tile, const Activations &a, int64_t row, float (*out)[kTile]) {
    const uint8_t *data = m.data + tile * tile_bytes(F, m.cols);
    if constexpr (is_dense(F)) {
        tile_dense<F, R>(m, tile, a, row, out);
    } else {
        tile_quantized<F, R>(data, a, row, out);
    }
}

template <int32_t F>
void tile(const dk_matrix &m, int64_t at, const Activations &a, int64_t row, int rows, float (*out)[kTile]) {
    switch (rows) {
        case 1: return tile_rows<F, 1>(m, at, a, row, out);
        case 2: return tile_rows<F, 2>(m, at, a, row, out);
        case 3: return tile_rows<F, 3>(m, at, a, row, out);
        case 4: return tile_rows<F, 4>(m, at, a, row, out);
        case 5: return tile_rows<F, 5>(m, at, a, row, out);
        case 6: return tile_rows<F, 6>(m, at, a, row, out);
        case 7: return tile_rows<F, 7>(m, at, a, row, out);
        default: return tile_rows<F, 8>(m, at, a, row, out);
    }
}

// ---- attention ----

void rotate(const float *x, const float *rotations, int64_t dim, float scale, float *out) {
    for (int64_t i = 0; i < dim; i += 2) {
        const float c = rotations[i], s = rotations[i + 1], left = x[i], right = x[i + 1];
        out[i] = (left * c - right * s) * scale;
        out[i + 1] = (left * s + right * c) * scale;
    }
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

// 16 positions from `position` on as floats; those from `stop` on are zero.
inline void convert(const uint8_t *cache, int32_t kv_format, int32_t position, int32_t stop, int32_t dim,
                    float *out) {
    const int32_t have = stop - position < 16 ? stop - position : 16;
    const int64_t count = static_cast<int64_t>(have) * dim, first = static_cast<int64_t>(position) * dim;
    for (int64_t i = 0; i < count; i += 16) {
        const Floats x = kv_format == DK_F32 ? load_dense<DK_F32>(cache + (first + i) * 4)
                                             : load_dense<DK_BF16>(cache + (first + i) * 2);
        x.store(out + i);
    }
    for (int64_t i = count; i < 16 * static_cast<int64_t>(dim); i += 16) Floats::splat(0.0f).store(out + i);
}

// 16 keys from `position` on, turned so that out[i] holds element i of all of them; those from `stop` on are zero.
inline void convert_turned(const uint8_t *cache, int32_t kv_format, int32_t position, int32_t stop, int32_t dim,
                           float *out) {
    const int64_t bytes = static_cast<int64_t>(dim) * element_bytes(kv_format);
    const int32_t have = stop - position < 16 ? stop - position : 16;
    const uint8_t *first = cache + position * bytes;
    for (int32_t i = 0; i < dim; i += 16) {
        Floats block[16];
        for (int32_t k = 0; k < 16; ++k) {
            const uint8_t *at = first + k * bytes + i * element_bytes(kv_format);
            if (k >= have) block[k] = Floats::splat(0.0f);
            else block[k] = kv_format == DK_F32 ? load_dense<DK_F32>(at) : load_dense<DK_BF16>(at);
        }
        transpose(block);
        for (int32_t k = 0; k < 16; ++k) block[k].store(out + (i + k) * 16);
    }
}

// Asks for 16 positions of a cache. Values are asked for while the keys of the same stretch are read, and the
// keys of the next one while its values are: each comes from memory behind the arithmetic on the other.
inline void read_ahead(const Stretch &s, const uint8_t *cache, int32_t position) {
    const int64_t bytes = static_cast<int64_t>(s.head_dim) * element_bytes(s.kv_format);
    if (position < s.total) prefetch(cache + position * bytes, 16 * bytes);
}

// Scores of `Q` queries with 16 turned keys: each key is read once for all of them.
template <int Q>
ALWAYS_INLINE void score_block(const float *queries, int32_t dim, const float *keys, float *weights) {
    Floats even[Q], odd[Q];  // two sums, so that one addition need not wait for the other
    for (int q = 0; q < Q; ++q) even[q] = odd[q] = Floats::splat(0.0f);
    for (int32_t i = 0; i < dim; i += 2) {
        const Floats a = Floats::load(keys + i * 16), b = Floats::load(keys + i * 16 + 16);
        for (int q = 0; q < Q; ++q) {
            even[q] = fma(a, Floats::splat(queries[q * dim + i]), even[q]);
            odd[q] = fma(b, Floats::splat(queries[q * dim + i + 1]), odd[q]);
        }
    }
    for (int q = 0; q < Q; ++q) add(even[q], odd[q]).store(weights + q * kKeyChunk);
}

inline void score(const Stretch &s) {
    for (int32_t at = s.begin; at < s.stop; at += 16) {
        read_ahead(s, s.values, at);
        convert_turned(s.keys, s.kv_format, at, s.stop, s.head_dim, s.converted);
        float *weights = s.weights + (at - s.begin);
        int32_t n = 0;
        for (; n + 4 <= s.num; n += 4) {
            score_block<4>(s.queries + n * s.head_dim, s.head_dim, s.converted, weights + n * kKeyChunk);
        }
        for (; n < s.num; ++n) {
            score_block<1>(s.queries + n * s.head_dim, s.head_dim, s.converted, weights + n * kKeyChunk);
        }
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

// Adds 16 weighted values to `V` vectors of the results of `Q` queries.
template <int Q, int V>
ALWAYS_INLINE void gather(const float *values, int32_t dim, const float *weights, float *const *out, int32_t i) {
    Floats total[Q][V];
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) total[q][v] = Floats::load(out[q] + i + 16 * v);
    }
    for (int k = 0; k < 16; ++k) {
        Floats value[V];
        for (int v = 0; v < V; ++v) value[v] = Floats::load(values + k * dim + i + 16 * v);
        for (int q = 0; q < Q; ++q) {
            const Floats p = Floats::splat(weights[q * kKeyChunk + k]);
            for (int v = 0; v < V; ++v) total[q][v] = fma(p, value[v], total[q][v]);
        }
    }
    for (int q = 0; q < Q; ++q) {
        for (int v = 0; v < V; ++v) total[q][v].store(out[q] + i + 16 * v);
    }
}

template <int Q>
ALWAYS_INLINE void gather_rows(const float *values, int32_t dim, const float *weights, float *const *out) {
    int32_t i = 0;
    for (; i + 64 <= dim; i += 64) gather<Q, 4>(values, dim, weights, out, i);
    for (; i < dim; i += 16) gather<Q, 1>(values, dim, weights, out, i);
}

void attend(const Stretch &s) {
    const int32_t dim = s.head_dim;
    score(s);
    for (int32_t n = 0; n < s.num; ++n) {
        for (int32_t i = 0; i < dim; ++i) s.out[n][i] = 0.0f;
        soften(s, n, s.out[n] + dim);
    }
    for (int32_t at = s.begin; at < s.stop; at += 16) {
        read_ahead(s, s.keys, at + kKeyChunk);
        convert(s.values, s.kv_format, at, s.stop, dim, s.converted);
        const float *weights = s.weights + (at - s.begin);
        int32_t n = 0;
        for (; n + 4 <= s.num; n += 4) gather_rows<4>(s.converted, dim, weights + n * kKeyChunk, s.out + n);
        for (; n < s.num; ++n) gather_rows<1>(s.converted, dim, weights + n * kKeyChunk, s.out + n);
    }
}

void join(const float *parts, int32_t num, int64_t stride, int32_t dim, float *out) {
    float top = -std::numeric_limits<float>::infinity(), total = 0.0f;
    for (int32_t p = 0; p < num; ++p) top = std::fmax(top, parts[p * stride + dim]);
    for (int32_t i = 0; i < dim; ++i) out[i] = 0.0f;
    for (int32_t p = 0; p < num; ++p) {
        const float *part = parts + p * stride;
        if (part[dim + 1] == 0.0f) continue;
        const float weight = std::exp(part[dim] - top);
        total += weight * part[dim + 1];
        for (int32_t i = 0; i < dim; ++i) out[i] += weight * part[i];
    }
    const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
    for (int32_t i = 0; i < dim; ++i) out[i] *= inverse;
}

uint64_t read(const uint8_t *data, int64_t bytes) {
    uint64_t sums[32] = {};  // as many as vectors can work on at once
    for (int64_t at = 0; at < bytes; at += 256) {
        prefetch(data + at + kPrefetch, 256);
        uint64_t words[32];
        std::memcpy(words, data + at, 256);
        for (int i = 0; i < 32; ++i) sums[i] += words[i];
    }
    uint64_t total = 0;
    for (uint64_t sum : sums) total += sum;
    return total;
}

// ---- one row of a held matrix ----

inline float half_at(const uint8_t *scales, int64_t lane) {
    uint8_t sixteen[2 * kTile] = {};
    std::memcpy(sixteen, scales + 2 * lane, 2);
    float out[kTile];
    load_half(sixteen).store(out);
    return out[0];
}

// The stored value of column `c` of a group in a lane.
inline int stored_at(int32_t f, const uint8_t *values, int64_t lane, int64_t c) {
    if (f == DK_INT8) return values[c / 4 * 64 + 4 * lane + c % 4];
    const int64_t word = c % 16 / 4, byte = 4 * lane + c % 4;
    const bool is_high = c >= 16;
    const int low = is_high ? values[word * 64 + byte] >> 4 : values[word * 64 + byte] & 15;
    if (extra_bits(f) == 1) return low | (values[256 + byte] >> (word + 4 * is_high) & 1) << 4;
    if (extra_bits(f) == 2) return low | (values[256 + 64 * is_high + byte] >> 2 * word & 3) << 4;
    return low;
}

// Scale of the first and of the second 16 columns of a group in a lane, and what is added to all of them.
struct GroupScales {
    float first, second, minimum;
};

inline GroupScales scales_at(int32_t f, const uint8_t *header, const uint8_t *scales, int64_t lane) {
    if (has_halves(f)) {
        const float d = half_at(header, lane);
        const auto signed_at = [&](int64_t i) { return static_cast<float>(static_cast<int8_t>(scales[i])); };
        return {d * signed_at(lane), d * signed_at(kTile + lane), 0.0f};
    }
    if (has_header(f)) {
        const float d = half_at(header, lane) * scales[lane];
        return {d, d, -half_at(header + 2 * kTile, lane) * scales[kTile + lane]};
    }
    const float d = half_at(scales, lane);
    return {d, d, has_minimum(f) ? half_at(scales + 2 * kTile, lane) : 0.0f};
}

inline void row_quantized(const dk_matrix &m, int64_t row, float *out) {
    const int32_t f = m.format;
    const uint8_t *tile = m.data + row / kTile * tile_bytes(f, m.cols);
    for (int64_t g = 0; g < m.cols / kGroup; ++g) {
        const uint8_t *values = tile + group_offset(f, g);
        const GroupScales s = scales_at(f, tile + header_offset(f, g), values + value_bytes(f), row % kTile);
        for (int64_t c = 0; c < kGroup; ++c) {
            const int q = stored_at(f, values, row % kTile, c) - zero_of(f);
            out[g * kGroup + c] = (c < 16 ? s.first : s.second) * static_cast<float>(q) + s.minimum;
        }
    }
}

void row(const dk_matrix &m, int64_t at, float *out) {
    if (!is_dense(m.format)) return row_quantized(m, at, out);
    const uint8_t *data = m.data + at * m.cols * element_bytes(m.format);
    for (int64_t i = 0; i < m.cols; i += 16) {
        const Floats x = m.format == DK_F32 ? load_dense<DK_F32>(data + 4 * i) : load_dense<DK_BF16>(data + 2 * i);
        x.store(out + i);
    }
}

#define DK_FOR_FORMATS(F)                                                                                     \
    {F<DK_F32>,  F<DK_BF16>,  F<DK_INT4>,  F<DK_INT4Z>, F<DK_INT4K>, F<DK_INT4H>,                             \
     F<DK_INT5>, F<DK_INT5Z>, F<DK_INT5K>, F<DK_INT6H>, F<DK_INT8>}

#define DK_KERNEL_TABLE(NAME)                                                                                 \
    {                                                                                                         \
        NAME, is_supported, rms_norm, quantize, DK_FOR_FORMATS(tile), DK_FOR_FORMATS(prepare),                \
            DK_FOR_FORMATS(gemm), silu_mul, rotate, store, attend, join, read, row                            \
    }
