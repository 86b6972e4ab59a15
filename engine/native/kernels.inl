// The kernels, written once over the vectors of an instruction set (`Floats`, `Ints`, `Bytes` of the namespace
// this is included in). All sums have a fixed order that does not depend on how many rows are computed.

inline float dot_scale(float largest) { return largest / 127.0f; }

// ---- activations ----

float inverse_rms(const float *x, float eps, int64_t cols) {
    Floats squares = Floats::splat(0.0f), more = squares;
    int64_t i = 0;
    for (; i + 32 <= cols; i += 32) {
        const Floats a = Floats::load(x + i), b = Floats::load(x + i + 16);
        squares = fma(a, a, squares);
        more = fma(b, b, more);
    }
    if (i < cols) {
        const Floats a = Floats::load(x + i);
        squares = fma(a, a, squares);
    }
    const float mean = sum(add(squares, more)) / static_cast<float>(cols);
    return 1.0f / std::sqrt(mean + eps);
}

void normalize(const float *x, float inverse, const float *weight, int64_t cols, float *out) {
    for (int64_t i = 0; i < cols; i += 16) {
        mul(mul(Floats::load(x + i), Floats::splat(inverse)), Floats::load(weight + i)).store(out + i);
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

// x · σ(y)
ALWAYS_INLINE Floats times_sigmoid(Floats x, Floats y) {
    return div(x, add(Floats::splat(1.0f), exponential(sub(Floats::splat(0.0f), y))));
}

void silu_mul(const float *gate, const float *up, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i += 16) {
        const Floats g = Floats::load(gate + i);
        mul(times_sigmoid(g, g), Floats::load(up + i)).store(out + i);
    }
}

// x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), arXiv 1606.08415, is x · σ of twice what the tanh is of.
void gelu_tanh_mul(const float *gate, const float *up, int64_t count, float *out) {
    const Floats one = Floats::splat(1.59576912f), three = Floats::splat(0.0713548163f);
    for (int64_t i = 0; i < count; i += 16) {
        const Floats g = Floats::load(gate + i);
        mul(times_sigmoid(g, mul(g, fma(three, mul(g, g), one))), Floats::load(up + i)).store(out + i);
    }
}

// c · tanh(x / c). Its error is a few roundings of c, whatever x is: what a score or logit can bear.
ALWAYS_INLINE Floats capped(Floats x, float c) {
    const Floats power = exponential(mul(x, Floats::splat(2.0f / c))), one = Floats::splat(1.0f);
    return mul(Floats::splat(c), sub(one, div(Floats::splat(2.0f), add(power, one))));
}

void soft_cap(float *x, int64_t count, float cap) {
    for (int64_t i = 0; i < count; i += 16) capped(Floats::load(x + i), cap).store(x + i);
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

// What the sum of a group starts from: its activations times what was added to the values.
template <int32_t F>
ALWAYS_INLINE Ints start_of(const int32_t *offset) {
    constexpr int32_t zero = F == DK_INT8 ? kOffset : zero_of(F);
    return zero ? Ints::splat(zero / 8 * *offset) : Ints::splat(0);  // zero is a multiple of 8 or none
}

// total[r] += the products of one group with `R` rows from row group `at` on, `next` from one to the next. Word by word
// for all of them: the additions of one row wait for each other, those of several do not; build.py keeps the order.
// `kHalves`: as has_halves.
template <int32_t F, int R, bool kHalves>
ALWAYS_INLINE void add_rows(const Panel &p, const Activations &a, int64_t at, int64_t next, Floats *total) {
    Ints first[R], second[R];
    for (int r = 0; r < R; ++r) {
        const int32_t *half = a.half + 2 * (at + r * next);
        first[r] = kHalves ? Ints::splat(-zero_of(F) * half[0]) : start_of<F>(a.offset + at + r * next);
        if (kHalves) second[r] = Ints::splat(-zero_of(F) * half[1]);
    }
    for (int j = 0; j < 8; ++j) {
        for (int r = 0; r < R; ++r) {
            Ints &sum = kHalves && j >= 4 ? second[r] : first[r];
            const int8_t *q = a.q + (at + r * next) * kGroup + 4 * j;
            sum = F == DK_INT8 ? dot_offset(sum, p.words[j], q) : dot_small(sum, p.words[j], q);
        }
    }
    for (int r = 0; r < R; ++r) {
        const Floats by = Floats::splat(a.scale[at + r * next]);
        total[r] = fma(floats(first[r]), mul(p.scale, by), total[r]);
        if (kHalves) total[r] = fma(floats(second[r]), mul(p.second, by), total[r]);
        if (has_minimum(F)) total[r] = fma(p.second, Floats::splat(a.sum[at + r * next]), total[r]);
    }
}

// The same for any number of rows, as many at once as registers have room for.
template <int32_t F, int R, bool kHalves = has_halves(F)>
ALWAYS_INLINE void add_group(const Panel &p, const Activations &a, int64_t at, int64_t next, Floats *total) {
    constexpr int kNow = R < kRowsAtOnce ? R : kRowsAtOnce;
    add_rows<F, kNow, kHalves>(p, a, at, next, total);
    if constexpr (R > kNow) add_group<F, R - kNow, kHalves>(p, a, at + kNow * next, next, total + kNow);
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
        add_group<F, R>(p, a, row * groups + g, groups, total);
    }
    for (int r = 0; r < R; ++r) total[r].store(out[r]);
}

template <int32_t F>
ALWAYS_INLINE Floats load_dense(const uint8_t *data) {
    return F == DK_F32 ? Floats::load(reinterpret_cast<const float *>(data)) : load_bf16(data);
}

constexpr int kDenseSums = kSums < 24 ? 2 : 4;  // of one row, over every so many 16 columns
constexpr int kDenseRows = kSums / kDenseSums;  // at once
constexpr int64_t kDenseColumns = 1024;
constexpr int64_t kCachedInputs = 8 * kDenseColumns;  // that the first-level cache holds

// A part of one row of the matrix by `R` rows, in several sums, so that the additions of one do not wait for
// each other; `ahead` are bytes. Every row has the same sums in the same order, whatever `R` is.
template <int32_t F, int R>
ALWAYS_INLINE void dense_part(const uint8_t *w, const float *x, int64_t next, int64_t columns, int64_t ahead,
                              Floats *out) {
    Floats total[R][kDenseSums];
    for (int r = 0; r < R; ++r) {
        for (int s = 0; s < kDenseSums; ++s) total[r][s] = Floats::splat(0.0f);
    }
    const auto add_columns = [&](int64_t at, int s) {
        const Floats weights = load_dense<F>(w + at * element_bytes(F));
        for (int r = 0; r < R; ++r) total[r][s] = fma(weights, Floats::load(x + r * next + at), total[r][s]);
    };
    constexpr int64_t kColumns = 16 * kDenseSums;
    int64_t at = 0;
    for (; at + kColumns <= columns; at += kColumns) {
        prefetch(w + at * element_bytes(F) + ahead, kColumns * element_bytes(F));
        for (int s = 0; s < kDenseSums; ++s) add_columns(at + 16 * s, s);
    }
    for (; at < columns; at += 16) add_columns(at, 0);
    for (int r = 0; r < R; ++r) {
        for (int s = 0; s < kDenseSums; ++s) out[r] = add(out[r], total[r][s]);
    }
}

// The same for any number of rows, as many at once as registers have room for: the others find it in the cache.
template <int32_t F, int R>
ALWAYS_INLINE void dense_rows(const uint8_t *w, const float *x, int64_t next, int64_t columns, int64_t ahead,
                              Floats *out) {
    constexpr int kNow = R < kDenseRows ? R : kDenseRows;
    dense_part<F, kNow>(w, x, next, columns, ahead, out);
    if constexpr (R > kNow) dense_rows<F, R - kNow>(w, x + kNow * next, next, columns, ahead, out + kNow);
}

// One row of the matrix after the other reads memory from end to end, which processors read ahead best: several
// at once, each of a few kilobytes, come a quarter slower. Where the first-level cache does not hold the rows of
// the input, the part that it does is used for all rows of the tile.
template <int32_t F, int R>
void tile_dense(const dk_matrix &m, int64_t tile, const Activations &a, int64_t row, float (*out)[kTile]) {
    const int64_t row_bytes = m.cols * element_bytes(F), part_bytes = kDenseColumns * element_bytes(F);
    const float *x = a.x + row * a.cols;
    Floats total[kTile][R];
    for (int64_t lane = 0; lane < kTile; ++lane) {
        for (int r = 0; r < R; ++r) total[lane][r] = Floats::splat(0.0f);
    }
    const auto add_part = [&](int64_t lane, int64_t from, int64_t ahead) {
        const int64_t at = tile * kTile + lane;  // rows behind the last one repeat it; nobody reads them
        const uint8_t *w = m.data + (at < m.rows ? at : m.rows - 1) * row_bytes + from * element_bytes(F);
        const int64_t columns = a.cols - from < kDenseColumns ? a.cols - from : kDenseColumns;
        dense_rows<F, R>(w, x + from, a.cols, columns, ahead, total[lane]);
    };
    if (R == 1 || R * a.cols <= kCachedInputs) {
        for (int64_t lane = 0; lane < kTile; ++lane) {
            for (int64_t from = 0; from < a.cols; from += kDenseColumns) add_part(lane, from, kPrefetch);
        }
    } else {
        const int64_t ahead = kPrefetch / part_bytes * row_bytes;
        for (int64_t from = 0; from < a.cols; from += kDenseColumns) {
            for (int64_t lane = 0; lane < kTile; ++lane) add_part(lane, from, ahead);
        }
    }
    for (int64_t lane = 0; lane < kTile; ++lane) {
        for (int r = 0; r < R; ++r) out[r][lane] = sum(total[lane][r]);
    }
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

#include "cache.inl"
#include "attend.inl"
#include "attend_packed.inl"

// ---- memory ----

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
        NAME, is_supported, inverse_rms, normalize, quantize, DK_FOR_FORMATS(tile), DK_FOR_FORMATS(prepare),  \
            DK_FOR_FORMATS(gemm), {silu_mul, gelu_tanh_mul}, soft_cap, rotate, store, hadamard, hold,         \
            numbers, attend, join, read, row                                                              \
    }
