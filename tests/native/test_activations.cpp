// Norm, quantization, gate, rotation and the cache's formats against their formulas in float64.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "rows.h"

using namespace test;

namespace {

constexpr int64_t kWidths[] = {32, 64, 96, 576, 1536};

// The gate of a feed-forward part: its ends, then ordinary values. Below `end` it is as good as closed.
void check_gate(void (*gate)(const float *, const float *, int64_t, float *), double (*formula)(double), double end,
                Random &random) {
    for (int64_t count : {16, 32, 96, 1536}) {
        const Floats in(count), up(count), out(count);
        std::vector<double> wanted, tolerance;
        for (int64_t i = 0; i < count; ++i) {
            constexpr float kEnds[] = {0.0f,    -0.0f,  1e-40f, -88.0f, 88.0f, -200.0f,
                                       200.0f, -87.3f, 1e30f,  -1e30f, 5.0f,  -6.5f};
            in[i] = i < 12 ? kEnds[i] : static_cast<float>(random.normal() * 4);
            up[i] = static_cast<float>(random.normal());
            const double x = in[i], open = x == 0 ? 0.5 : formula(x) / x;  // 1 / (1 + e^y)
            wanted.push_back(x * open * up[i]);
            if (x < end) {  // e^y ends at the largest float
                tolerance.push_back(std::fabs(x * up[i]) * 1e-37);
            } else {  // an error of y is one of e^y, times y
                const double roundings = 8 + 4 * std::fabs(std::log(open));
                tolerance.push_back(std::fabs(wanted.back()) * roundings * kRounding + 4 * kSmallest);
            }
        }
        gate(in.data(), up.data(), count, out.data());
        CHECK_NEAR(out.data(), wanted, tolerance);
    }
}

// Of `cols` additions in any order and a few operations around them, relative to the sum of magnitudes.
double of_a_sum(int64_t cols) { return kRounding * (static_cast<double>(cols) / 8 + 16); }

}  // namespace

KERNEL_TEST(norm_divides_by_the_root_of_the_mean_square) {
    Random random(1);
    for (int64_t cols : {16, 32, 48, 64, 96, 576, 1536}) {
        const Floats x = mixed_rows(kRowKinds, cols, random), weight(cols), out(cols);
        for (float &w : weight) w = static_cast<float>(random.normal());
        for (int kind = 0; kind < kRowKinds; ++kind) {
            const Situation situation("cols %d, kind %d", static_cast<int>(cols), kind);
            const float *row = x.data() + kind * cols;
            constexpr float kEps = 1e-5f;
            double squares = 0;
            for (int64_t i = 0; i < cols; ++i) squares += static_cast<double>(row[i]) * row[i];
            const double scale = 1 / std::sqrt(squares / static_cast<double>(cols) + kEps);
            std::vector<double> wanted, tolerance;
            for (int64_t i = 0; i < cols; ++i) {
                wanted.push_back(row[i] * scale * weight[i]);
                tolerance.push_back(std::fabs(wanted.back()) * of_a_sum(cols) + 2 * kSmallest);
            }
            k.normalize(row, k.inverse_rms(row, kEps, cols), weight.data(), cols, out.data());
            CHECK_NEAR(out.data(), wanted, tolerance);
            Floats again(cols);
            std::copy(row, row + cols, again.begin());
            k.normalize(again.data(), k.inverse_rms(again.data(), kEps, cols), weight.data(), cols, again.data());
            CHECK_SAME(again.data(), out.data(), cols);
        }
    }
}

KERNEL_TEST(quantized_groups_are_the_nearest_127ths_of_their_largest_value) {
    Random random(2);
    for (int64_t cols : kWidths) {
        const Floats x = mixed_rows(2 * kRowKinds, cols, random);
        const QuantizedRows held = quantized(k, x.data(), 2 * kRowKinds, cols);
        for (int64_t group = 0; group < x.size() / 32; ++group) {
            const float *values = x.data() + 32 * group;
            const int8_t *q = held.q.data() + 32 * group;
            double top = 0;
            for (int i = 0; i < 32; ++i) top = std::max(top, std::fabs(static_cast<double>(values[i])));
            const double scale = held.scale[group];
            CHECK(std::fabs(scale - top / 127) <= top / 127 * 2 * kRounding + kSmallest, "%g of %g", scale,
                  top);
            int sums[2] = {0, 0};
            for (int i = 0; i < 32; ++i) {
                // Groups below 1e-34 may be held as zero.
                const double error = std::fabs(q[i] * scale - values[i]);
                CHECK(error <= scale * 0.5001 || (top < 1e-34 && q[i] == 0), "%g as %d of %g",
                      static_cast<double>(values[i]), q[i], scale);
                CHECK(q[i] != -128, "%d", q[i]);
                sums[i / 16] += q[i];
            }
            CHECK(held.half[2 * group] == sums[0] && held.half[2 * group + 1] == sums[1], "%d %d, not %d %d",
                  held.half[2 * group], held.half[2 * group + 1], sums[0], sums[1]);
            CHECK(held.offset[group] == -8 * (sums[0] + sums[1]), "%d", held.offset[group]);
            const double sum = scale * (sums[0] + sums[1]);
            CHECK(std::fabs(held.sum[group] - sum) <= std::fabs(sum) * 2 * kRounding + kSmallest,
                  "%g, not %g", static_cast<double>(held.sum[group]), sum);
        }
    }
}

KERNEL_TEST(quantizing_some_columns_leaves_the_others_alone) {
    Random random(3);
    const Floats x = mixed_rows(3, 96, random);
    const QuantizedRows all = quantized(k, x.data(), 3, 96), some(3, 96);
    std::copy(x.begin(), x.end(), some.x.begin());
    k.quantize(some.view(), 1, 32, 32);
    for (int64_t i = 0; i < x.size(); ++i) {
        const bool is_inside = i >= 128 && i < 160;
        CHECK(some.q[i] == (is_inside ? all.q[i] : -1), "[%d] is %d", static_cast<int>(i), some.q[i]);
    }
    for (int64_t group = 0; group < 9; ++group) {
        const bool is_inside = group == 4;
        CHECK(std::isnan(some.scale[group]) != is_inside, "scale %d", static_cast<int>(group));
        CHECK(std::isnan(some.sum[group]) != is_inside, "sum %d", static_cast<int>(group));
        for (int64_t half : {2 * group, 2 * group + 1}) {
            CHECK(some.half[half] == (is_inside ? all.half[half] : -1), "half %d", static_cast<int>(half));
        }
    }
}

KERNEL_TEST(the_gate_is_silu_times_up) {
    Random random(4);
    check_gate(k.gate[DK_SILU], [](double x) { return x / (1 + std::exp(-x)); }, -80, random);
}

KERNEL_TEST(the_gate_is_gelu_by_its_tanh_times_up) {
    Random random(7);
    const auto gelu = [](double x) {  // x/2 · (1 + tanh y) is x / (1 + e^−2y): exact far below zero too
        return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
    };
    check_gate(k.gate[DK_GELU_TANH], gelu, -10, random);
}

KERNEL_TEST(a_capped_number_is_the_caps_tanh_within_some_roundings_of_the_cap) {
    Random random(8);
    for (float cap : {0.5f, 5.0f, 30.0f, 50.0f}) {
        Floats x(96);
        std::vector<double> wanted;
        for (int64_t i = 0; i < x.size(); ++i) {
            constexpr float kEnds[] = {0.0f, -0.0f, 1e-30f, 1e5f, -1e5f, 3e38f, -3e38f, INFINITY, -INFINITY};
            x[i] = i < 9 ? kEnds[i] : static_cast<float>(random.normal() * cap * random.uniform(0, 3));
            wanted.push_back(cap * std::tanh(static_cast<double>(x[i]) / cap));
        }
        k.soft_cap(x.data(), x.size(), cap);
        CHECK_NEAR(x.data(), wanted, std::vector<double>(wanted.size(), 6 * kRounding * cap));
        x[20] = NAN;
        k.soft_cap(x.data(), x.size(), cap);
        CHECK(std::isnan(x[20]) && !std::isnan(x[19]), "%g", static_cast<double>(x[20]));
    }
}

KERNEL_TEST(rotation_turns_the_first_pairs_scales_all_and_may_be_in_place) {
    Random random(5);
    for (int64_t dim = 32; dim <= 256; dim += 32) {
        for (int64_t rotary : {dim, dim / 2 + 2, int64_t{0}}) {
            const Floats x(dim), turns(rotary), out(dim);
            std::vector<double> wanted, tolerance;
            for (int64_t i = 0; i < dim; i += 2) {
                const double angle = random.uniform(-4, 4), scale = 0.125;
                for (int64_t j : {i, i + 1}) x[j] = static_cast<float>(random.normal());
                double c = 1, s = 0;
                if (i < rotary) {
                    c = turns[i] = static_cast<float>(1.2 * std::cos(angle));
                    s = turns[i + 1] = static_cast<float>(1.2 * std::sin(angle));
                }
                const double a = x[i], b = x[i + 1];
                wanted.insert(wanted.end(), {(a * c - b * s) * scale, (a * s + b * c) * scale});
                const double size = (std::fabs(a) + std::fabs(b)) * scale * 5 * kRounding;
                tolerance.insert(tolerance.end(), {size, size});
            }
            k.rotate(x.data(), turns.data(), rotary, dim, 0.125f, out.data());
            CHECK_NEAR(out.data(), wanted, tolerance);
            k.rotate(x.data(), turns.data(), rotary, dim, 0.125f, x.data());
            CHECK_SAME(x.data(), out.data(), dim);
        }
    }
}

KERNEL_TEST(the_cache_holds_floats_as_they_are_or_as_the_nearest_bfloat16) {
    Random random(6);
    for (int64_t count = 32; count <= 256; count += 32) {
        const Floats x(count), copy(count);
        for (int64_t i = 0; i < count; ++i) {
            constexpr float kEnds[] = {0.0f,     -0.0f,     1e-40f,      3.4e38f,
                                       INFINITY, -INFINITY, 1.00390625f, 1.01171875f};
            x[i] = i < 8 ? kEnds[i] : static_cast<float>(random.normal());
        }
        k.store(x.data(), count, DK_F32, reinterpret_cast<uint8_t *>(copy.data()));
        CHECK_SAME(copy.data(), x.data(), count);
        const Exact<uint16_t> halves(count);
        k.store(x.data(), count, DK_BF16, reinterpret_cast<uint8_t *>(halves.data()));
        for (int64_t i = 0; i < count; ++i) {
            CHECK(halves[i] == to_bf16(x[i]), "%g as %04x", static_cast<double>(x[i]), halves[i]);
        }
        x[0] = NAN;
        k.store(x.data(), 32, DK_BF16, reinterpret_cast<uint8_t *>(halves.data()));
        CHECK(std::isnan(from_bf16(halves[0])), "%04x", halves[0]);
    }
}
