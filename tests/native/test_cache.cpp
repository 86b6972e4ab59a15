// Caches in 8 and 4 bits: what they hold, attention over them, and storing and loading by threads.
#include <algorithm>
#include <cmath>

#include "cached.h"
#include "check.h"
#include "memory.h"
#include "rows.h"
#include "threads.h"

using namespace test;

namespace {

constexpr int32_t kDims[] = {16, 32, 48, 64, 80, 96, 128, 256};

// A cache [tokens][dim] of one head.
struct Cache {
    Cache(int32_t format, int32_t dim, bool is_keys, int32_t tokens)
        : kind{format, dim, is_keys},
          tokens(tokens),
          bytes((tokens + 15) / 16 * 16 * cached_bytes(format, dim, is_keys), kLine) {}

    // Puts `x` [dim] as `token`.
    void hold(const dk::Kernels &k, const std::vector<double> &x, int64_t token) {
        Floats row(dk::padded(kind.dim));
        std::fill(row.begin(), row.end(), 0.0f);
        for (size_t i = 0; i < x.size(); ++i) row[static_cast<int64_t>(i)] = static_cast<float>(x[i]);
        uint8_t *block = bytes.data() + token / 16 * 16 * cached_bytes(kind.format, kind.dim, kind.is_keys);
        k.hold(kind, row.data(), token % 16, block);
    }

    void fill(const dk::Kernels &k, double size, Random &random) {
        for (int32_t token = 0; token < tokens; ++token) {
            std::vector<double> x;
            for (int32_t i = 0; i < kind.dim; ++i) x.push_back(random.normal() * size);
            hold(k, x, token);
        }
    }

    double at(int64_t token, int32_t column) const {
        return cached_number(bytes.data(), kind.format, kind.dim, kind.is_keys, token, column);
    }

    dk::HeadCache view() const { return {bytes.data(), kind.format, cached_bytes(kind.format, kind.dim, kind.is_keys)}; }

    dk::CacheKind kind;
    int32_t tokens;
    Bytes bytes;
};

// Queries of one head, all of which see [low, high) of positions from `begin` on that lie at the same tokens.
struct Asked {
    int32_t num, low, high, begin, stop;
};

std::vector<double> rounded_query(const float *x, int32_t dim) {
    std::vector<double> out;
    for (int32_t first = 0; first < dim; first += 32) {
        const int32_t end = std::min(dim, first + 32);
        float top = 0;
        for (int32_t i = first; i < end; ++i) top = std::max(top, std::fabs(x[i]));
        const float scale = top / 127.0f, inverse = 1.0f / scale;
        for (int32_t i = first; i < end; ++i) out.push_back(static_cast<double>(scale) * std::nearbyint(x[i] * inverse));
    }
    return out;
}

// What one query must find: numbers [dim], and how far off they may be.
struct Found {
    std::vector<double> values, tolerance;
};

// All numbers of a cache, [tokens][dim].
std::vector<double> numbers(const Cache &cache) {
    std::vector<double> out;
    for (int32_t i = 0; i < cache.tokens * cache.kind.dim; ++i) {
        out.push_back(cache.at(i / cache.kind.dim, i % cache.kind.dim));
    }
    return out;
}

// Rounding a weight times the scale of its value moves it by half of a 127th of the largest one of its block.
Found find(const std::vector<double> &q, const std::vector<double> &keys, const std::vector<double> &values,
           int32_t value_format, const Asked &a) {
    const size_t dim = q.size();
    const int32_t from = std::max(a.low, a.begin), to = std::min(a.high, a.stop);
    std::vector<double> p, largest(static_cast<size_t>(a.stop / 16 + 1));
    double top = -INFINITY, sum = 0, error = 0, size = 0, moved = 0;
    for (int32_t at = from; at < to; ++at) {
        const double *key = keys.data() + static_cast<size_t>(at) * dim;
        double score = 0, magnitude = 0;
        for (size_t i = 0; i < dim; ++i) score += q[i] * key[i], magnitude += std::fabs(q[i] * key[i]);
        p.push_back(score), top = std::max(top, score);
        error = std::max(error, magnitude * kRounding * (static_cast<double>(dim) + 4));
    }
    for (double &weight : p) sum += weight = std::exp(weight - top);
    Found found{std::vector<double>(dim), {}};
    const double most_steps = value_format == DK_INT8 ? 127 : 8;
    for (int32_t at = from; at < to; ++at) {
        const double *value = values.data() + static_cast<size_t>(at) * dim, weight = p[static_cast<size_t>(at - from)];
        double most = 0;
        for (size_t i = 0; i < dim; ++i) {
            found.values[i] += weight * value[i] / sum;
            most = std::max(most, std::fabs(value[i]));
        }
        size = std::max(size, most);
        double &block = largest[static_cast<size_t>(at / 16)];
        block = std::max(block, weight * most / (most_steps - 1));
    }
    for (int32_t at = from; at < to; ++at) moved += largest[static_cast<size_t>(at / 16)] / 254 * most_steps;
    found.tolerance.assign(dim, size * (4 * error + 256 * kRounding) + moved / sum);
    return found;
}

// [num][dim + 2]
Floats attend(const dk::Kernels &k, const Floats &queries, const Cache &keys, const Cache &values, const Asked &a) {
    const int32_t dim = keys.kind.dim, num = a.num;
    Floats out(num * (dim + 2));
    const Exact<float *> places(num);
    const Exact<int32_t> first(num), end(num), tokens(2 * dk::kKeyChunk / dk::kKeyBlock);
    for (int32_t n = 0; n < num; ++n) places[n] = out.data() + n * (dim + 2), first[n] = a.low, end[n] = a.high;
    for (int32_t i = 0; i < tokens.size(); ++i) tokens[i] = a.begin + i * 16;
    const Floats weights(num * dk::kKeyChunk, kLine), converted(16 * dim, kLine);
    const QuantizedRows asked(num, dk::padded(dim));
    const Exact<int8_t> q(num * dk::kKeyChunk, kLine);
    const Floats scale(num * dk::Weighed::kBlocks, kLine);
    const Exact<int32_t> offset(num * dk::Weighed::kBlocks, kLine);
    k.attend({queries.data(), first.data(), end.data(), num, dim, keys.view(), values.view(), tokens.data(), a.begin,
              a.stop, a.stop, 0, places.data(), weights.data(), converted.data(), asked.view(),
              {q.data(), scale.data(), offset.data()}});
    return out;
}

void check_attention(const dk::Kernels &k, int32_t key_format, int32_t value_format, int32_t dim, const Asked &a,
                     Random &random) {
    const Situation situation("keys %d, values %d, dim %d, %d queries see %d to %d of %d to %d", key_format,
                              value_format, dim, a.num, a.low, a.high, a.begin, a.stop);
    Cache keys(key_format, dim, true, a.stop), values(value_format, dim, false, a.stop);
    keys.fill(k, 1, random), values.fill(k, 1, random);
    Floats queries(a.num * dim);
    for (float &q : queries) q = static_cast<float>(random.normal() * 2 / std::sqrt(dim));
    const Floats parts = attend(k, queries, keys, values, a), out(dim);
    const std::vector<double> key_numbers = numbers(keys), value_numbers = numbers(values);
    for (int32_t n = 0; n < a.num; ++n) {
        k.join(parts.data() + n * (dim + 2), 1, dim + 2, dim, out.data());
        const std::vector<double> query_numbers = rounded_query(queries.data() + n * dim, dim);
        const Found found = find(query_numbers, key_numbers, value_numbers, value_format, a);
        CHECK_NEAR(out.data(), found.values, found.tolerance);
        const Asked alone{1, a.low, a.high, a.begin, a.stop};
        Floats query(dim);
        std::copy_n(queries.data() + n * dim, dim, query.data());
        const Floats one = attend(k, query, keys, values, alone);
        CHECK_SAME(one.data(), parts.data() + n * (dim + 2), dim + 2);
    }
}

constexpr int32_t kPairs[][2] = {{DK_INT8, DK_INT8}, {DK_INT4, DK_INT4}, {DK_INT8, DK_INT4}, {DK_INT4, DK_INT8}};

}  // namespace

KERNEL_TEST(a_head_is_rotated_by_the_matrix_and_back) {
    Random random(70);
    for (int32_t dim : kDims) {
        const Situation situation("dim %d", dim);
        Floats x(dim), out(dim);
        for (float &value : x) value = static_cast<float>(random.normal());
        const std::vector<double> wanted = rotated(std::vector<double>(x.begin(), x.end()));
        k.hadamard(x.data(), dim, out.data());
        CHECK_NEAR(out.data(), wanted, std::vector<double>(wanted.size(), 1e-5));
        k.hadamard(out.data(), dim, out.data());
        CHECK_NEAR(out.data(), std::vector<double>(x.begin(), x.end()), std::vector<double>(wanted.size(), 1e-5));
    }
}

KERNEL_TEST(a_held_number_is_the_nearest_one_and_all_processors_hold_the_same) {
    Random random(71);
    for (int32_t dim : kDims) {
        for (int32_t format : {DK_INT8, DK_INT4}) {
            for (bool is_keys : {true, false}) {
                Cache cache(format, dim, is_keys, 32), same(format, dim, is_keys, 32);
                CHECK(cached_bytes(format, dim, is_keys) == dk::token_bytes(cache.kind), "dim %d", dim);
                for (int32_t token = 0; token < 32; ++token) {
                    const Situation situation("dim %d, format %d, keys %d, token %d", dim, format, is_keys, token);
                    Floats x(dim), got(dk::padded(dim));
                    fill_row(token % kRowKinds == 5 ? 0 : token % kRowKinds, x.data(), dim, random);
                    const std::vector<double> row(x.begin(), x.end());
                    cache.hold(k, row, token), same.hold(dk::kScalar, row, token);
                    const int64_t block = token / 16 * 16 * cached_bytes(format, dim, is_keys);
                    k.numbers(cache.kind, cache.bytes.data() + block, token % 16, got.data());
                    for (int32_t i = 0; i < dim; ++i) {
                        const int32_t group = !is_keys ? dim : format == DK_INT8 ? 32 : 16;
                        const int32_t first = i / group * group, end = std::min(dim, first + group);
                        double top = 0;
                        for (int32_t c = first; c < end; ++c) {
                            top = std::max(top, std::fabs(row[static_cast<size_t>(c)]));
                        }
                        // Half a step, a whole one where the largest number's sign is not that of −8; and what
                        // the scale was rounded by.
                        const double step = format == DK_INT8 ? top / 127 / 2 : top / 8, held = cache.at(token, i);
                        const double most = step * (1 + 0x1p-10) + 127 * 0x1p-25 + top * 0x1p-11;
                        CHECK(std::fabs(held - row[static_cast<size_t>(i)]) <= most, "[%d] %g, not %g", i, held,
                              row[static_cast<size_t>(i)]);
                        CHECK(got[i] == static_cast<float>(held), "[%d] not %g", i, held);
                    }
                }
                const bool is_same = std::equal(cache.bytes.begin(), cache.bytes.end(), same.bytes.begin());
                CHECK(is_same, "dim %d, format %d, keys %d", dim, format, is_keys);
            }
        }
    }
}

KERNEL_TEST(a_token_leaves_the_others_of_its_block_as_they_are) {
    Random random(72);
    for (int32_t format : {DK_INT8, DK_INT4}) {
        for (bool is_keys : {true, false}) {
            Cache cache(format, 80, is_keys, 16);
            cache.fill(k, 1, random);
            std::vector<double> before;
            for (int32_t i = 0; i < 16 * 80; ++i) before.push_back(cache.at(i / 80, i % 80));
            cache.hold(k, std::vector<double>(80, 3.0), 5);
            for (int32_t i = 0; i < 16 * 80; ++i) {
                if (i / 80 != 5) CHECK(cache.at(i / 80, i % 80) == before[static_cast<size_t>(i)], "token %d", i / 80);
            }
        }
    }
}

KERNEL_TEST(attention_over_packed_caches_is_that_over_their_numbers) {
    Random random(73);
    for (const auto &[key_format, value_format] : kPairs) {
        for (int32_t dim : kDims) {
            for (int32_t num : {1, 2, 3, 4, 9}) {
                const int32_t begin = static_cast<int32_t>(random.integer(0, 1)) * dk::kKeyChunk;
                const int32_t stop = begin + static_cast<int32_t>(random.integer(1, dk::kKeyChunk));
                check_attention(k, key_format, value_format, dim, {num, 0, stop, begin, stop}, random);
            }
        }
        for (int32_t length = 1; length <= dk::kKeyChunk; length += length < 36 ? 1 : 31) {
            check_attention(k, key_format, value_format, 64, {3, 0, length, 0, length}, random);
            const int32_t low = length / 3, high = length - length / 5;  // hidden in front and behind
            check_attention(k, key_format, value_format, 96, {2, low, std::max(low + 1, high), 0, length}, random);
        }
    }
}

KERNEL_TEST(packed_attention_to_something_that_is_no_number_is_no_number) {
    for (const auto &[key_format, value_format] : kPairs) {
        for (int broken = 0; broken < 3; ++broken) {
            const Situation situation("keys %d, values %d, broken %d", key_format, value_format, broken);
            Random random(74);
            const Asked a{2, 0, 40, 0, 40};
            Cache keys(key_format, 64, true, 40), values(value_format, 64, false, 40);
            keys.fill(k, 1, random), values.fill(k, 1, random);
            Floats queries(2 * 64), out(64);
            for (float &q : queries) q = static_cast<float>(random.normal());
            std::vector<double> nothing(64, 1.0);
            nothing[37] = broken ? INFINITY : NAN;
            if (broken == 0) queries[64 + 3] = NAN;
            if (broken == 1) keys.hold(k, nothing, 20);
            if (broken == 2) values.hold(k, nothing, 20);
            const Floats parts = attend(k, queries, keys, values, a);
            k.join(parts.data() + 66, 1, 66, 64, out.data());
            CHECK(std::isnan(out[37]), "%g", static_cast<double>(out[37]));
        }
    }
}

KERNEL_TEST(rows_are_stored_and_loaded_through_spans_and_rings) {
    const Threads threads;
    constexpr int32_t kHeads = 3, kTokens = 480, kRing = 160;
    for (int32_t dim : {48, 64, 80}) {
        for (const auto &[key_format, value_format] : kPairs) {
            const Situation situation("keys %d, values %d, dim %d", key_format, value_format, dim);
            Random random(75);
            dk_model model{};
            model.kv_heads = kHeads, model.head_dim = dim, model.ring_tokens = kRing;
            model.key_format = key_format, model.value_format = value_format;
            const Bytes keys(2 * kHeads * kTokens * dk_key_bytes(key_format, dim), kLine);
            const Bytes values(2 * kHeads * kTokens * dk_value_bytes(value_format, dim), kLine);
            const Bytes ring_keys(2 * kHeads * kRing * dim * 2, kLine), ring_values(2 * kHeads * kRing * dim * 2, kLine);
            const dk_span spans[] = {{0, 96}, {160, 320}, {208, 0}};
            const dk_plane plane{keys.data(), values.data(), ring_keys.data(), ring_values.data(), kHeads * kTokens,
                                 kTokens, spans, 3};
            constexpr int32_t kRows = 250;
            Floats x(2 * kRows * kHeads * dim);
            for (float &value : x) value = static_cast<float>(random.normal());
            const auto *k_rows = reinterpret_cast<const uint8_t *>(x.data());
            const auto *v_rows = k_rows + 4 * kRows * kHeads * dim;
            dk_store(&model, &plane, 1, DK_F32, k_rows, v_rows, 0, 100, 2);
            const int64_t skipped = 4 * 100 * kHeads * dim;
            dk_store(&model, &plane, 1, DK_F32, k_rows + skipped, v_rows + skipped, 100, 150, 2);
            for (int32_t ring_first : {kRows, kRows - kRing}) {
                const int32_t begin = ring_first == kRows ? 7 : kRows - kRing - 5, count = kRows - begin;
                Floats out(2 * kHeads * count * dim);
                auto *k_out = reinterpret_cast<uint8_t *>(out.data());
                dk_load(&model, &plane, 1, begin, kRows, ring_first, DK_F32, k_out, k_out + 4 * kHeads * count * dim, 2);
                for (int32_t i = 0; i < 2 * kHeads * count; ++i) {
                    const bool is_keys = i < kHeads * count;
                    const int32_t head = i / count % kHeads, position = begin + i % count;
                    const float *row = x.data() + ((is_keys ? 0 : kRows) + position) * kHeads * dim + head * dim;
                    const std::vector<double> wanted = rotated(std::vector<double>(row, row + dim));
                    double top = 0;
                    for (double value : wanted) top = std::max(top, std::fabs(value));
                    const int32_t format = is_keys ? key_format : value_format;
                    const double most = position >= ring_first ? 0x1p-8 : format == DK_INT8 ? 0x1p-7 : 0x1.1p-3;
                    const Situation place("head %d, position %d, ring from %d", head, position, ring_first);
                    CHECK_NEAR(out.data() + static_cast<int64_t>(i) * dim, wanted,
                               std::vector<double>(wanted.size(), top * most));
                }
            }
        }
    }
}
