// Floats rounded to GGUF blocks: within half a step, never worse than the plain rule, nothing beside its memory.
#include <algorithm>
#include <cmath>

#include "blocks.h"
#include "check.h"
#include "threads.h"

using namespace test;

namespace {

const BlockType &block_type(int32_t ggml_type) {
    for (const BlockType &type : block_types()) {
        if (type.ggml_type == ggml_type) return type;
    }
    std::abort();
}

constexpr int32_t kQ4_1 = 3, kQ8_0 = 8;

// A source of one of GGUF's float types, and its values.
struct Source {
    int32_t type;
    Bytes bytes;
    std::vector<double> values;
};

Source random_source(int32_t type, int64_t count, Random &random) {
    const int bytes = type == 0 ? 4 : 2;
    Source source{type, Bytes(count * bytes), {}};
    const double scale = std::exp(random.uniform(-7, 7));
    for (int64_t i = 0; i < count; ++i) {
        float value = static_cast<float>(scale * random.normal() * (i % 37 ? 1 : 20));
        uint8_t *place = source.bytes.data() + i * bytes;
        if (type == 0) {
            std::memcpy(place, &value, sizeof value);
        } else {
            const uint16_t half = type == 1 ? to_half(value) : to_bf16(value);
            std::memcpy(place, &half, sizeof half);
            value = type == 1 ? static_cast<float>(from_half(half)) : from_bf16(half);
        }
        source.values.push_back(value);
    }
    return source;
}

Bytes quantize(const Source &source, const BlockType &block, int64_t rows, int64_t cols, int threads) {
    Bytes blocks(rows * cols / block.cols * block.bytes);
    const int32_t code = dk_quantize(source.type, source.bytes.data(), rows, cols, block.ggml_type,
                                     blocks.data(), threads);
    CHECK(code == 0, "%s gives %d", block.name, code);
    return blocks;
}

}  // namespace

TEST(every_float_is_rounded_to_a_value_that_its_block_has) {
    Random random(60);
    for (int32_t type : {0, 1, 30}) {
        for (int32_t kind : {kQ4_1, kQ8_0}) {
            const BlockType &block = block_type(kind);
            for (int64_t rows : {1, 7, 48}) {
                const int64_t cols = 96;
                const Situation situation("%d to %s [%d, 96]", type, block.name, static_cast<int>(rows));
                const Source source = random_source(type, rows * cols, random);
                const Bytes blocks = quantize(source, block, rows, cols, 1);
                for (int64_t group = 0; group < rows * cols / 32; ++group) {
                    const double *wanted = source.values.data() + group * 32;
                    const auto [least, most] = std::minmax_element(wanted, wanted + 32);
                    const double step = kind == kQ8_0 ? std::max(-*least, *most) / 127 : (*most - *least) / 15;
                    double error = 0, plain = 0;
                    for (int i = 0; i < 32; ++i) {
                        const double got = block.value(blocks.data() + group * block.bytes, i);
                        error += std::pow(got - wanted[i], 2);
                        plain += std::pow(step / 2, 2);
                    }
                    CHECK(error <= plain, "group %d errs by %g, not %g", static_cast<int>(group), error, plain);
                }
            }
        }
    }
}

TEST(threads_change_no_block) {
    Random random(61);
    const Threads threads;
    for (int32_t kind : {kQ4_1, kQ8_0}) {
        const BlockType &block = block_type(kind);
        const Source source = random_source(30, 500 * 96, random);
        const Bytes alone = quantize(source, block, 500, 96, 1), together = quantize(source, block, 500, 96, 3);
        CHECK(std::equal(alone.begin(), alone.end(), together.begin()), "%s differs", block.name);
    }
}

TEST(other_types_and_columns_are_refused) {
    const Bytes place(4096);
    const auto code = [&](int32_t source, int64_t cols, int32_t kind) {
        return dk_quantize(source, place.data(), 1, cols, kind, place.data() + 2048, 1);
    };
    CHECK(code(2, 32, kQ8_0) == -1, "Q4_0 is no float");
    CHECK(code(0, 40, kQ8_0) == -1, "40 columns fill no block");
    CHECK(code(0, 32, 2) == -1, "nothing rounds to Q4_0");
}
