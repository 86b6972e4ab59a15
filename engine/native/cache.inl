// Writing and reading a cache in 8 and 4 bits, and the rotation of what it holds: included in kernels.inl.

// −1 where a lane takes a difference, its partner being K lanes before it.
template <int K>
struct Signs {
    alignas(64) float v[16];
    constexpr Signs() : v() {
        for (int i = 0; i < 16; ++i) v[i] = i & K ? -1.0f : 1.0f;
    }
};

// Sums and differences of the lanes that lie K apart.
template <int K>
ALWAYS_INLINE Floats butterfly(Floats x) {
    static constexpr Signs<K> signs;
    return fma(x, Floats::load(signs.v), swap<K>(x));  // exact products
}

void hadamard(const float *x, int64_t dim, float *out) {
    const int64_t block = dim & -dim;
    for (int64_t i = 0; i < dim; i += 16) {
        butterfly<8>(butterfly<4>(butterfly<2>(butterfly<1>(Floats::load(x + i))))).store(out + i);
    }
    for (int64_t apart = 16; apart < block; apart *= 2) {
        for (int64_t i = 0; i < dim; i += 16) {
            if (i & apart) continue;
            const Floats a = Floats::load(out + i), b = Floats::load(out + i + apart);
            add(a, b).store(out + i);
            sub(a, b).store(out + i + apart);
        }
    }
    const Floats scale = Floats::splat(static_cast<float>(1.0 / std::sqrt(static_cast<double>(block))));
    for (int64_t i = 0; i < dim; i += 16) mul(Floats::load(out + i), scale).store(out + i);
}

// The numbers of which a group's scale is made: the largest magnitude, and the number that has it.
struct Extent {
    float magnitude, number;
};

inline Extent extent(const float *x, int64_t count) {
    const Floats nothing = Floats::splat(0.0f);
    Floats high = nothing, low = nothing;
    int32_t most = 0;  // of magnitudes as integers, with NaN above all numbers
    for (int64_t i = 0; i < count; i += 32) {
        const Floats a = Floats::load(x + i), b = i + 16 < count ? Floats::load(x + i + 16) : a;
        const int32_t bits = bits_as<int32_t>(largest_magnitude(a, b));
        most = bits > most ? bits : most;
        high = max(high, max(a, b));
        low = max(low, max(sub(nothing, a), sub(nothing, b)));
    }
    const float up = largest(high), down = largest(low);
    return {bits_as<float>(most), up >= down ? up : -down};
}

// Writes the scale of such a group and returns it as it is held: NaN where no half float can say it, never −0.
inline float hold_scale(int32_t format, const Extent &e, uint8_t *out) {
    const float wanted = format == DK_INT8 ? e.magnitude / 127.0f : e.number / -8.0f;
    const bool is_said = std::fabs(wanted) <= 65504.0f;
    const uint16_t half = to_half(is_said ? wanted + 0.0f : std::numeric_limits<float>::quiet_NaN());
    std::memcpy(out, &half, 2);
    return from_half(half);
}

// 16 numbers in steps of `scale`, as bytes of 8 bits with 128 added or 4 bits with 8 added.
inline void round_half(const float *x, int32_t format, float scale, uint8_t *out) {
    const int low = format == DK_INT8 ? -127 : -8, high = format == DK_INT8 ? 127 : 7;
    int8_t q[kGroup / 2] = {};
    if (std::fabs(scale) > 0.0f) store_rounded(div(Floats::load(x), Floats::splat(scale)), q);  // nor is it NaN
    for (int64_t i = 0; i < kGroup / 2; ++i) {
        const int bounded = q[i] < low ? low : q[i] > high ? high : q[i];
        out[i] = static_cast<uint8_t>(bounded + (format == DK_INT8 ? 128 : 8));
    }
}

// Calls `put(place, i)` for 32 columns of a token, in 8 bits, or for 16 of them that have another 16 in the high
// halves of their bytes.
template <class Put>
ALWAYS_INLINE void for_places(const CacheKind &c, int64_t token, int64_t column, Put put) {
    const int64_t count = c.format == DK_INT8 ? kGroup : 16;
    if (c.is_keys) {
        for (int64_t i = 0; i < count; ++i) put(key_place(c.format, token, column + i), i);
    } else {
        for (int64_t i = 0; i < count; ++i) put(value_place(c.format, token, column + i), i);
    }
}

void hold(const CacheKind &c, const float *x, int64_t token, uint8_t *block) {
    uint8_t *scales = block + cache_scales(c) + 2 * token, q[kGroup];
    const int64_t together = c.is_keys ? key_columns(c.format) : padded(c.dim);
    float scale = 0.0f;
    for (int64_t at = 0; at < padded(c.dim); at += 16) {
        if (at % together == 0) {
            scale = hold_scale(c.format, extent(x + at, together), scales + at / together * 2 * kBlockTokens);
        }
        round_half(x + at, c.format, scale, q + at % kGroup);
        if (at % kGroup == 0) continue;
        for_places(c, token, at - 16, [&](int64_t place, int64_t i) {
            block[place] = c.format == DK_INT8 ? q[i] : static_cast<uint8_t>(q[i] | q[16 + i] << 4);
        });
    }
}

// The scale of the columns from `column` on.
inline float scale_at(const CacheKind &c, const uint8_t *scales, int64_t column) {
    uint16_t half;
    std::memcpy(&half, scales + (c.is_keys ? column / key_columns(c.format) * 2 * kBlockTokens : 0), 2);
    return from_half(half);
}

// The bytes of 16 columns of a token, whose words begin at `words`.
inline void take_bytes(bool is_keys, const uint8_t *words, int64_t token, uint8_t *out) {
    if (is_keys) {
        for (int64_t j = 0; j < 4; ++j) std::memcpy(out + 4 * j, words + 64 * j + 4 * token, 4);
        return;
    }
    const uint8_t *bytes = words + token / 4 * 64 + token % 4;
    for (int64_t i = 0; i < 16; ++i) out[i] = bytes[4 * i];
}

void numbers(const CacheKind &c, const uint8_t *block, int64_t token, float *out) {
    const uint8_t *scales = block + cache_scales(c) + 2 * token;
    uint8_t bytes[16], low[16];
    for (int64_t at = 0; at < padded(c.dim); at += 16) {
        const bool is_high = c.format == DK_INT4 && at % kGroup;
        if (!is_high) take_bytes(c.is_keys, block + at / 16 * (cache_group(c.format) / 2), token, bytes);
        for (int64_t i = 0; i < 16 && c.format == DK_INT4; ++i) low[i] = is_high ? bytes[i] >> 4 : bytes[i] & 15;
        const Floats stored = load_unsigned(c.format == DK_INT8 ? bytes : low);
        const Floats q = sub(stored, Floats::splat(c.format == DK_INT8 ? 128.0f : 8.0f));
        mul(q, Floats::splat(scale_at(c, scales, at))).store(out + at);
    }
}
