// GGUF blocks into held matrices: every value against ggml's formulas.
#include <algorithm>
#include <cmath>

#include "blocks.h"
#include "check.h"
#include "held.h"
#include "threads.h"

using namespace test;

namespace {

Bytes pack(const BlockType &type, const Bytes &blocks, int64_t rows, int64_t cols, int threads) {
    Bytes data(dk_matrix_bytes(type.format, rows, cols), kLine);
    const int32_t code =
        dk_pack(type.ggml_type, blocks.data(), rows, cols, type.format, data.data(), 0, threads);
    CHECK(code == 0, "%s gives %d", type.name, code);
    return data;
}

}  // namespace

TEST(bytes_of_a_matrix_are_those_of_the_description) {
    for (int32_t format : kFormats) {
        for (int64_t rows : {1, 15, 16, 17, 48}) {
            for (int64_t cols : {32, 64, 96, 576}) {
                const int64_t bytes = dk_matrix_bytes(format, rows, cols);
                CHECK(bytes == held_bytes(format, rows, cols), "%s [%d, %d]: %d", format_name(format),
                      static_cast<int>(rows), static_cast<int>(cols), static_cast<int>(bytes));
            }
        }
    }
}

TEST(every_value_of_every_block_type_is_held_as_its_formula_says) {
    Random random(40);
    const Threads threads;
    for (const BlockType &type : block_types()) {
        for (int64_t rows : {1, 15, 16, 17, 48}) {
            for (int64_t cols : {type.cols, 3 * type.cols, 6 * type.cols}) {
                const Situation situation("%s [%d, %d]", type.name, static_cast<int>(rows),
                                          static_cast<int>(cols));
                const Bytes blocks = random_blocks(type, rows, cols, random);
                const Bytes data = pack(type, blocks, rows, cols, 1);
                for (int64_t i = 0; i < rows * cols; ++i) {
                    const double wanted = type.value(blocks.data() + i / type.cols * type.bytes,
                                                     static_cast<int>(i % type.cols));
                    const double got = read_held(data.data(), type.format, cols, i / cols, i % cols).value;
                    CHECK(got == wanted, "[%d] %.9g, not %.9g", static_cast<int>(i), got, wanted);
                }
            }
        }
    }
}

TEST(a_matrix_may_come_in_pieces_and_by_any_number_of_threads) {
    Random random(41);
    const Threads threads;
    for (const BlockType &type : block_types()) {
        const Situation situation("%s", type.name);
        const int64_t rows = 150, cols = 768, row_bytes = cols / type.cols * type.bytes;
        const Bytes blocks = random_blocks(type, rows, cols, random);
        const Bytes whole = pack(type, blocks, rows, cols, 1);
        for (int num_threads : {1, 2, 5}) {
            const Bytes same = pack(type, blocks, rows, cols, num_threads), pieces(whole.size(), kLine);
            CHECK(std::equal(whole.begin(), whole.end(), same.begin()), "with %d threads", num_threads);
            for (int64_t first = 0; first < rows; first += 32) {
                const int64_t count = std::min<int64_t>(32, rows - first);
                Bytes piece(count * row_bytes);
                std::copy_n(blocks.data() + first * row_bytes, piece.size(), piece.data());
                dk_pack(type.ggml_type, piece.data(), count, cols, type.format, pieces.data(), first,
                        num_threads);
            }
            CHECK(std::equal(whole.begin(), whole.end(), pieces.begin()), "in pieces, %d threads",
                  num_threads);
        }
    }
}

TEST(a_packed_row_is_read_back_by_every_instruction_set) {
    Random random(42);
    for (int32_t set = 0; const char *name = dk_instruction_set(set); ++set) {
        dk_use(name);
        for (const BlockType &type : block_types()) {
            const Situation situation("%s on %s", type.name, name);
            const int64_t rows = 20, cols = 512;
            const Bytes blocks = random_blocks(type, rows, cols, random);
            const Bytes data = pack(type, blocks, rows, cols, 1);
            const dk_matrix matrix{data.data(), rows, cols, type.format, 0};
            const Floats out(cols);
            for (int64_t row = 0; row < rows; ++row) {
                std::vector<double> wanted, tolerance;
                for (int64_t col = 0; col < cols; ++col) {
                    const Element element = read_held(data.data(), type.format, cols, row, col);
                    wanted.push_back(element.value);
                    tolerance.push_back(element.size * 0x1p-23);
                }
                dk_row(&matrix, row, out.data());
                CHECK_NEAR(out.data(), wanted, tolerance);
            }
        }
    }
}

TEST(what_cannot_be_held_is_refused_and_nothing_is_written) {
    Random random(43);
    const Bytes data(dk_matrix_bytes(DK_F32, 16, 1024), kLine);
    for (const BlockType &type : block_types()) {
        const Bytes blocks = random_blocks(type, 16, 512, random);
        const auto code = [&](int32_t ggml_type, int64_t cols, int32_t format, int64_t target) {
            return dk_pack(ggml_type, blocks.data(), 16, cols, format, data.data(), target, 1);
        };
        for (int32_t format : kFormats) {
            if (format == type.format) continue;
            CHECK(code(type.ggml_type, 512, format, 0) == -1, "%s as %s", type.name, format_name(format));
        }
        CHECK(code(type.ggml_type, type.cols / 2, type.format, 0) == -1, "half a block of %s", type.name);
        CHECK(code(type.ggml_type, 512, type.format, 8) == -1, "%s into half a tile", type.name);
    }
    const Bytes blocks(16 * 4096);
    for (int32_t unknown : {-1, 4, 9, 15, 16, 30, 99}) {
        CHECK(dk_pack(unknown, blocks.data(), 16, 512, DK_INT4, data.data(), 0, 1) == -1, "type %d", unknown);
    }
    for (uint8_t byte : data) CHECK(byte == 0xFF, "written: %d", byte);
}
