// Attention over a stretch of the cache, and the joining of stretches, against float64.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cached.h"
#include "check.h"
#include "memory.h"
#include "numbers.h"
#include "rows.h"

using namespace test;

namespace {

// Queries of one key head, and a cache that ends with the last position anybody may read.
struct Scene {
    Scene(int32_t num, int32_t dim, int32_t begin, int32_t stop, int32_t kv_format, double size,
          Random &random)
        : num(num),
          dim(dim),
          begin(begin),
          stop(stop),
          kv_format(kv_format),
          queries(num * dim),
          first(num),
          end(num),
          keys(cache(random, size)),
          values(cache(random, 1)),
          tokens(2 * dk::kKeyChunk / dk::kKeyBlock) {
        for (float &q : queries) q = static_cast<float>(random.normal() * size / std::sqrt(dim));
    }

    Bytes cache(Random &random, double size) const {
        const int64_t count = static_cast<int64_t>(stop) * dim, bytes = kv_format == DK_F32 ? 4 : 2;
        Bytes out(count * bytes, kLine);
        for (int64_t i = 0; i < count; ++i) {
            const float value = static_cast<float>(random.normal() * size);
            const uint16_t half = to_bf16(value);
            if (kv_format == DK_F32) std::memcpy(out.data() + 4 * i, &value, 4);
            if (kv_format == DK_BF16) std::memcpy(out.data() + 2 * i, &half, 2);
        }
        return out;
    }

    double at(const Bytes &cache, int64_t position, int64_t i) const {
        float value;
        uint16_t half;
        std::memcpy(&value, cache.data() + 4 * (kv_format == DK_F32 ? position * dim + i : 0), 4);
        std::memcpy(&half, cache.data() + 2 * (kv_format == DK_BF16 ? position * dim + i : 0), 2);
        return kv_format == DK_F32 ? value : from_bf16(half);
    }

    // Query n sees positions [low, high).
    void show(int32_t n, int32_t low, int32_t high) { first[n] = low, end[n] = high; }

    int32_t num, dim, begin, stop, kv_format;
    Floats queries;
    Exact<int32_t> first, end;
    Bytes keys, values;
    Exact<int32_t> tokens;
    float cap = 0;
};

// [num][dim + 2] of the kernel, from positions [begin, stop).
Floats attend(const dk::Kernels &k, const Scene &s, int32_t begin, int32_t stop) {
    Floats out(s.num * (s.dim + 2));
    const Exact<float *> places(s.num);
    for (int32_t n = 0; n < s.num; ++n) places[n] = out.data() + n * (s.dim + 2);
    const Floats weights(s.num * dk::kKeyChunk, kLine), converted(16 * s.dim, kLine);
    for (int32_t i = 0; i < s.tokens.size(); ++i) s.tokens[i] = begin + i * dk::kKeyBlock;
    const int64_t bytes = cached_bytes(s.kv_format, s.dim, true);
    const dk::Stretch stretch{s.queries.data(),
                              s.first.data(),
                              s.end.data(),
                              s.num,
                              s.dim,
                              {s.keys.data(), s.kv_format, bytes},
                              {s.values.data(), s.kv_format, bytes},
                              s.tokens.data(),
                              begin,
                              stop,
                              s.stop,
                              s.cap,
                              places.data(),
                              weights.data(),
                              converted.data(),
                              {},
                              {}};
    k.attend(stretch);
    return out;
}

// What query n finds in the positions [begin, stop) that it may see.
struct Found {
    std::vector<double> values;  // Σ p v / Σ p
    double largest = -INFINITY, sum = 0;
    double size = 0;   // the largest |value| of the cache
    double error = 0;  // of a score in float32
};

Found find(const Scene &s, int32_t n, int32_t begin, int32_t stop) {
    Found found{std::vector<double>(static_cast<size_t>(s.dim))};
    const int32_t low = std::max(begin, s.first[n]), high = std::min(stop, s.end[n]);
    std::vector<double> scores;
    for (int32_t at = low; at < high; ++at) {
        double score = 0, size = 0;
        for (int32_t i = 0; i < s.dim; ++i) {
            const double product = s.queries[n * s.dim + i] * s.at(s.keys, at, i);
            score += product, size += std::fabs(product);
            found.size = std::max(found.size, std::fabs(s.at(s.values, at, i)));
        }
        found.error = std::max(found.error, size * kRounding * (s.dim + 4));
        if (s.cap != 0) {
            score = s.cap * std::tanh(score / s.cap);
            found.error = std::max(found.error, s.cap * kRounding * 8);
        }
        scores.push_back(score);
        found.largest = std::max(found.largest, score);
    }
    for (int32_t at = low; at < high; ++at) {
        const double p = std::exp(scores[static_cast<size_t>(at - low)] - found.largest);
        found.sum += p;
        for (int32_t i = 0; i < s.dim; ++i) found.values[static_cast<size_t>(i)] += p * s.at(s.values, at, i);
    }
    for (double &value : found.values) value /= found.sum;
    return found;
}

// An error e of the scores changes every weight by a factor of 1 ± e, above and below the division.
double tolerance(const Found &found) {
    return found.size * (4 * found.error + 64 * kRounding);
}

// Joins the stretches between `cuts` and compares every query with all its positions at once.
void check_joined(const dk::Kernels &k, const Scene &s, const std::vector<int32_t> &cuts) {
    std::vector<Floats> stretches;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) stretches.push_back(attend(k, s, cuts[i], cuts[i + 1]));
    const int32_t num = static_cast<int32_t>(stretches.size()), part = s.dim + 2;
    for (int32_t n = 0; n < s.num; ++n) {
        const Situation situation("query %d of %d, dim %d, from %d to %d sees %d to %d", n, s.num, s.dim,
                                  cuts.front(), cuts.back(), s.first[n], s.end[n]);
        const Floats parts(num * (part + 3)), out(s.dim);  // some floats apart
        for (int32_t i = 0; i < num; ++i) {
            std::copy_n(stretches[static_cast<size_t>(i)].data() + n * part, part,
                        parts.data() + i * (part + 3));
        }
        // The last one has nothing behind it.
        k.join(parts.data(), num, part + 3, s.dim, out.data());
        const Found found = find(s, n, cuts.front(), cuts.back());
        if (found.sum == 0) {
            CHECK_NEAR(out.data(), std::vector<double>(static_cast<size_t>(s.dim)),
                       std::vector<double>(static_cast<size_t>(s.dim)));
        } else {
            CHECK_NEAR(out.data(), found.values, std::vector<double>(found.values.size(), tolerance(found)));
        }
    }
}

}  // namespace

KERNEL_TEST(attention_is_the_softmax_of_what_a_query_may_see) {
    Random random(20);
    for (int32_t dim = 16; dim <= 256; dim += 16) {
        for (int32_t num : {1, 2, 3, 8, 40}) {
            for (int32_t kv_format : {DK_F32, DK_BF16}) {
                const int32_t begin = static_cast<int32_t>(random.integer(0, 2)) * dk::kKeyChunk;
                const int32_t stop = begin + static_cast<int32_t>(random.integer(1, dk::kKeyChunk));
                Scene scene(num, dim, begin, stop, kv_format, 1, random);
                for (int32_t n = 0; n < num; ++n) scene.show(n, 0, std::max(1, stop - num + n + 1));
                check_joined(k, scene, {begin, stop});
            }
        }
    }
}

// Whatever groups the kernels form of queries.
KERNEL_TEST(a_query_finds_the_bits_beside_others_that_it_finds_alone) {
    for (int32_t dim : {16, 48, 64, 96}) {
        for (int32_t kv_format : {DK_F32, DK_BF16}) {
            Random random(28), again(28);
            Scene all(30, dim, 0, 77, kv_format, 1, random), one(30, dim, 0, 77, kv_format, 1, again);
            for (int32_t n = 0; n < all.num; ++n) all.show(n, n % 5, 77 - n);
            one.num = 1;
            for (all.num = 1; all.num <= 30; ++all.num) {
                const int32_t last = all.num - 1, part = dim + 2;
                one.show(0, all.first[last], all.end[last]);
                std::copy_n(all.queries.data() + last * dim, dim, one.queries.data());
                const Floats together = attend(k, all, 0, 77), alone = attend(k, one, 0, 77);
                CHECK(!std::memcmp(together.data() + last * part, alone.data(), static_cast<size_t>(part) * 4),
                      "%d queries, dim %d", all.num, dim);
            }
        }
    }
}

KERNEL_TEST(attention_of_every_length_of_a_stretch) {
    Random random(21);
    for (int32_t length = 1; length <= dk::kKeyChunk; length += length < 40 ? 1 : 31) {
        for (int32_t kv_format : {DK_F32, DK_BF16}) {
            Scene scene(3, 64, 0, length, kv_format, 3, random);
            for (int32_t n = 0; n < 3; ++n) scene.show(n, 0, length);
            check_joined(k, scene, {0, length});
        }
    }
}

KERNEL_TEST(a_query_outside_of_its_window_finds_nothing_and_inside_only_the_window) {
    Random random(22);
    Scene scene(6, 64, 256, 300, DK_F32, 1, random);
    scene.show(0, 0, 256);    // before the stretch
    scene.show(1, 300, 301);  // behind it
    scene.show(2, 270, 271);  // one position
    scene.show(3, 265, 290);
    scene.show(4, 0, 1000);
    scene.show(5, 299, 300);
    const Floats out = attend(k, scene, 256, 300);
    for (int32_t n : {0, 1}) {
        CHECK(std::isinf(out[n * 66 + 64]) && out[n * 66 + 65] == 0, "%g %g",
              static_cast<double>(out[n * 66 + 64]), static_cast<double>(out[n * 66 + 65]));
    }
    check_joined(k, scene, {256, 300});
}

KERNEL_TEST(stretches_join_to_the_whole_cache) {
    Random random(23);
    for (int32_t kv_format : {DK_F32, DK_BF16}) {
        Scene scene(4, 96, 0, 700, kv_format, 2, random);
        scene.show(0, 0, 700);
        scene.show(1, 500, 699);  // nothing in the first stretch
        scene.show(2, 0, 100);    // nothing in the last ones
        scene.show(3, 700, 700);  // nothing at all
        check_joined(k, scene, {0, 256, 512, 700});
    }
}

KERNEL_TEST(capped_scores_are_what_the_softmax_is_of) {
    Random random(27);
    for (int32_t kv_format : {DK_F32, DK_BF16}) {
        for (float cap : {0.5f, 4.0f, 50.0f}) {
            for (double size : {0.1, 3.0, 40.0}) {
                Scene scene(3, 64, 0, 200, kv_format, size, random);
                scene.cap = cap;
                for (int32_t n = 0; n < 3; ++n) scene.show(n, 20 * n, 150 + n);
                check_joined(k, scene, {0, 96, 200});
            }
        }
    }
}

KERNEL_TEST(scores_of_a_thousand_neither_overflow_nor_lose_the_largest) {
    Random random(24);
    Scene scene(2, 128, 0, 200, DK_F32, 40, random);
    for (int32_t n = 0; n < 2; ++n) scene.show(n, 0, 200);
    check_joined(k, scene, {0, 200});
    check_joined(k, scene, {0, 16, 200});
}

KERNEL_TEST(a_query_has_the_same_bits_whatever_is_behind_what_it_sees) {
    Random random(25);
    Scene scene(8, 64, 0, 256, DK_BF16, 1, random);
    for (int32_t n = 0; n < 8; ++n) scene.show(n, 3, 100 + n);
    const Floats all = attend(k, scene, 0, 256), few = attend(k, scene, 0, 107);
    CHECK_SAME(all.data(), few.data(), all.size());
}

KERNEL_TEST(attention_to_something_that_is_no_number_is_no_number) {
    Random random(26);
    for (int32_t broken = 0; broken < 5; ++broken) {
        for (int32_t element : {0, 15, 16, 37, 63}) {
            const Situation situation("broken %d, element %d", broken, element);
            Scene scene(2, 64, 0, 40, DK_F32, 1, random);
            if (broken > 2) scene.cap = 5;
            for (int32_t n = 0; n < 2; ++n) scene.show(n, 0, 40);
            const float nan = NAN;
            if (broken % 3 == 0) scene.queries[64 + element] = nan;
            if (broken % 3 == 1) std::memcpy(scene.keys.data() + 4 * (64 * 20 + element), &nan, 4);
            if (broken == 2) std::memcpy(scene.values.data() + 4 * (64 * 20 + element), &nan, 4);
            const Floats part = attend(k, scene, 0, 40), out(64);
            k.join(part.data() + 66, 1, 66, 64, out.data());  // of the second query
            CHECK(std::isnan(out[element]), "%g", static_cast<double>(out[element]));
        }
    }
}
