// Products of activations with held matrices against float64, and that a row's result is its own affair.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "held.h"
#include "rows.h"
#include "threads.h"

using namespace test;

namespace {

constexpr int64_t kRowCounts[] = {1, 15, 16, 17, 48};
constexpr int64_t kWidths[] = {32, 64, 96, 256, 576, 768, 1536};

// Called with matrices of every format: all shapes with ordinary values, one shape with each of the others.
template <class Body>
void for_each_matrix(uint64_t seed, Body &&body) {
    Random random(seed);
    auto visit = [&](int32_t format, int64_t rows, int64_t cols, Values values) {
        const Situation situation("%s %s [%d, %d]", format_name(format), values_name(values),
                                  static_cast<int>(rows), static_cast<int>(cols));
        body(hold(format, rows, cols, values, random), random);
    };
    for (int32_t format : kFormats) {
        const int64_t multiple = column_multiple(format);
        for (int64_t rows : kRowCounts) {
            for (int64_t cols : kWidths) {
                if (cols % multiple == 0) visit(format, rows, cols, Values::ordinary);
            }
        }
        for (Values values : kValues) visit(format, 33, multiple == 32 ? 160 : 512, values);
    }
}

// What is wanted of n rows, [n][w.rows], and how far it may be missed.
struct Bounded {
    std::vector<double> wanted, tolerance;
};

double roundings(const Held &w) { return static_cast<double>(w.cols) / 8 + 16; }

// Products of rows as the kernels hold them: only float32 sums are between them and the result.
Bounded products(const Held &w, const QuantizedRows &a) {
    Bounded out;
    for (int64_t n = 0; n < a.n; ++n) {
        for (int64_t r = 0; r < w.rows; ++r) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < w.cols; ++c) {
                const int64_t at = n * w.cols + c;
                const double x =
                    is_quantized(w.format) ? a.q[at] * static_cast<double>(a.scale[at / 32]) : a.x[at];
                sum += w.row(r)[c].value * x;
                size += w.row(r)[c].size * std::fabs(x);
            }
            out.wanted.push_back(sum);
            out.tolerance.push_back(size * kRounding * roundings(w) +
                                    128 * static_cast<double>(w.cols) * kSmallest);
        }
    }
    return out;
}

// Products of float rows, [n][cols]: quantizing them adds half a step of their group to every value.
Bounded products(const Held &w, const Floats &x) {
    Bounded out;
    for (int64_t n = 0; n < x.size() / w.cols; ++n) {
        const float *row = x.data() + n * w.cols;
        for (int64_t r = 0; r < w.rows; ++r) {
            double sum = 0, tolerance = 128 * static_cast<double>(w.cols) * kSmallest;
            for (int64_t first = 0; first < w.cols; first += 32) {
                double top = 0;
                for (int64_t c = first; c < first + 32; ++c) top = std::max(top, std::fabs(1.0 * row[c]));
                const double step =
                    is_quantized(w.format) ? std::max(top / 127 * 0.5001, std::min(top, 1e-34)) : 0;
                for (int64_t c = first; c < first + 32; ++c) {
                    const Element &weight = w.row(r)[c];
                    sum += weight.value * row[c];
                    tolerance += weight.size * (std::fabs(row[c]) + step) * kRounding * roundings(w);
                    tolerance += std::fabs(weight.value) * step;
                }
            }
            out.wanted.push_back(sum);
            out.tolerance.push_back(tolerance);
        }
    }
    return out;
}

Floats linear(const Held &w, const Floats &x, int64_t n, int threads) {
    const dk_matrix matrix = w.matrix();
    Floats out(n * w.rows);
    const Bytes scratch(dk_linear_scratch(n, w.cols, threads), kLine);
    dk_linear(&matrix, 1, x.data(), out.data(), n, threads, scratch.data());
    return out;
}

}  // namespace

KERNEL_TEST(a_tile_times_one_to_eight_rows_is_right_and_each_row_is_its_own_affair) {
    for_each_matrix(10, [&](const Held &w, Random &random) {
        const int n = dk::kMaxRows;
        const QuantizedRows a = quantized(k, mixed_rows(n, w.cols, random).data(), n, w.cols);
        const Bounded all = products(w, a);
        const dk_matrix matrix = w.matrix();
        for (int64_t tile = 0; tile < (w.rows + 15) / 16; ++tile) {
            const int lanes = static_cast<int>(std::min<int64_t>(16, w.rows - tile * 16));
            float alone[dk::kMaxRows][dk::kTile];
            for (int row = 0; row < n; ++row) k.tile[w.format](matrix, tile, a.view(), row, 1, alone + row);
            for (int row = 0; row < n; ++row) {
                const auto at = row * w.rows + tile * 16;
                CHECK_NEAR(alone[row], {all.wanted.begin() + at, all.wanted.begin() + at + lanes},
                           {all.tolerance.begin() + at, all.tolerance.begin() + at + lanes});
            }
            for (int rows = 2; rows <= n; ++rows) {
                const Situation situation("%d rows, tile %d", rows, static_cast<int>(tile));
                const Floats together(rows * 16);
                auto *out = reinterpret_cast<float (*)[16]>(together.data());
                k.tile[w.format](matrix, tile, a.view(), n - rows, rows, out);
                for (int row = 0; row < rows; ++row) CHECK_SAME(out[row], alone[n - rows + row], lanes);
            }
        }
    });
}

KERNEL_TEST(a_row_of_a_matrix_is_what_its_bytes_stand_for) {
    for_each_matrix(11, [&](const Held &w, Random &) {
        const dk_matrix matrix = w.matrix();
        const Floats out(w.cols);
        for (int64_t r = 0; r < w.rows; ++r) {
            std::vector<double> wanted, tolerance;
            for (int64_t c = 0; c < w.cols; ++c) {
                const Element &element = w.row(r)[c];
                const bool is_exact = !is_quantized(w.format) || w.format == DK_INT4 || w.format == DK_INT5 ||
                                      w.format == DK_INT8;  // a half float times few bits
                wanted.push_back(element.value);
                tolerance.push_back(is_exact ? 0 : 2 * kRounding * element.size);
            }
            k.row(matrix, r, out.data());
            CHECK_NEAR(out.data(), wanted, tolerance);
        }
    });
}

KERNEL_TEST(a_product_of_any_number_of_rows_is_right_with_any_number_of_threads) {
    const Threads threads;
    for_each_matrix(12, [&](const Held &w, Random &random) {
        if (w.rows * w.cols > 20000 && w.rows != 17) return;  // the largest shapes take too long
        const Floats x = mixed_rows(40, w.cols, random);
        const Bounded all = products(w, x);
        for (int64_t n : {1, 2, 8, 9, 17, 40}) {
            const Situation situation("%d rows", static_cast<int>(n));
            const Floats out = linear(w, x, n, 1);
            CHECK_NEAR(out.data(), {all.wanted.begin(), all.wanted.begin() + n * w.rows},
                       {all.tolerance.begin(), all.tolerance.begin() + n * w.rows});
            for (int num_threads : {2, 5}) {
                CHECK_SAME(linear(w, x, n, num_threads).data(), out.data(), out.size());
            }
        }
    });
}

KERNEL_TEST(a_row_has_the_same_bits_whatever_rows_are_computed_with_it) {
    for_each_matrix(13, [&](const Held &w, Random &random) {
        if (w.rows * w.cols > 20000 && w.rows != 17) return;
        const Floats x = mixed_rows(200, w.cols, random);
        const Floats many = linear(w, x, 200, 1);
        for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 40, 129}) {
            const Situation situation("%d rows", static_cast<int>(n));
            CHECK_SAME(linear(w, x, n, 1).data(), many.data(), n * w.rows);
        }
    });
}

KERNEL_TEST(matrices_of_one_input_have_the_bits_they_have_alone) {
    const Threads threads;
    Random random(16);
    std::vector<Held> held;
    for (int32_t format : {DK_INT4, DK_INT4, DK_INT6H, DK_F32, DK_INT8, DK_INT8}) {
        held.push_back(hold(format, random.integer(1, 70), 256, Values::ordinary, random));
    }
    Exact<dk_matrix> matrices(static_cast<int64_t>(held.size()));
    for (size_t i = 0; i < held.size(); ++i) matrices[static_cast<int64_t>(i)] = held[i].matrix();
    const Floats x = mixed_rows(150, 256, random);
    for (int64_t n : {1, 8, 9, 150}) {
        int64_t rows = 0;
        for (const Held &w : held) rows += w.rows;
        const Floats out(n * rows);
        const Bytes scratch(dk_linear_scratch(n, 256, 2), kLine);
        dk_linear(matrices.data(), static_cast<int32_t>(held.size()), x.data(), out.data(), n, 2, scratch.data());
        const float *at = out.data();
        for (const Held &w : held) {
            const Situation situation("%d rows of %s", static_cast<int>(n), format_name(w.format));
            CHECK_SAME(at, linear(w, x, n, 1).data(), n * w.rows);
            at += n * w.rows;
        }
    }
}

KERNEL_TEST(a_row_with_something_that_is_no_finite_number_gives_none) {
    Random random(15);
    for (int32_t format : kFormats) {
        constexpr int64_t kCols = 256;
        const Held w = hold(format, 16, kCols, Values::ordinary, random);
        for (int64_t n : {1, 3, 20}) {
            for (int64_t column : {0, 7, 15, 16, 31, 32, 50, 255}) {
                for (float broken : {NAN, INFINITY, -INFINITY}) {
                    Floats x(n * kCols);
                    for (float &value : x) value = static_cast<float>(random.normal());
                    x[(n - 1) * kCols + column] = broken;
                    const Floats out = linear(w, x, n, 1);
                    for (int64_t i = 0; i < out.size(); ++i) {
                        CHECK(std::isfinite(out[i]) == (i < (n - 1) * 16),
                              "%s, %d rows, column %d: [%d] %g of %g", format_name(format),
                              static_cast<int>(n), static_cast<int>(column), static_cast<int>(i),
                              static_cast<double>(out[i]), static_cast<double>(broken));
                    }
                }
            }
        }
    }
}

TEST(an_empty_product_touches_nothing) {
    Random random(14);
    const Held w = hold(DK_INT4, 16, 32, Values::ordinary, random);
    CHECK(linear(w, Floats(0), 0, 1).size() == 0, "%s", "an empty result");
}
