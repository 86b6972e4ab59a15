// Forward passes over caches in 8 and 4 bits against float64. Pieces, pages, threads and drafts change no bit.
#include <algorithm>
#include <tuple>

#include "check.h"
#include "sequence.h"
#include "threads.h"

using namespace test;

namespace {

// Keys and values in 8 bits, in 4, and in both.
std::vector<Shape> packed_shapes(int32_t head_dim) {
    std::vector<Shape> shapes(3, Shape{DK_F32, DK_INT8, 6, 2, head_dim});
    shapes[1].kv_format = shapes[1].own_value_format = DK_INT4, shapes[1].ring_tokens = 160;
    shapes[2].own_value_format = DK_INT4, shapes[2].ring_tokens = 160;
    return shapes;
}

}  // namespace

KERNEL_TEST(packed_caches_are_computed_as_they_are_written_down) {
    const Threads threads;
    for (int32_t dim : {48, 64, 80, 256}) {
        for (const Shape &shape : packed_shapes(dim)) check_shape(shape, 60, 8, 61);
    }
    for (int32_t window : {0, 60, 140, 290}) {
        for (Shape shape : packed_shapes(32)) {
            shape.sliding_window = window, shape.layers = 1;
            check_shape(shape, 330, 16, 62);
        }
    }
}

KERNEL_TEST(packed_caches_give_the_same_bits_in_pieces_in_pages_and_with_any_number_of_threads) {
    const Threads threads;
    for (Shape shape : packed_shapes(80)) {
        shape.alternates = true, shape.sliding_window = 150, shape.planes = 2;
        const Situation situation("values %s, ring of %d", format_name(shape.value_format()), shape.ring_tokens);
        Random random(63);
        const Decoder decoder(shape, random);
        const Random same = random;
        std::vector<std::vector<float>> all;
        for (const auto &[most, num_threads, page] : {std::tuple(1, 1, 0), {16, 2, 32}, {7, 5, 48}}) {
            Random again = same;
            Sequence sequence(decoder, 330, again, page);
            all.push_back(run(decoder, sequence, most, num_threads, again));
            const Situation pieces("pieces of at most %d, %d threads, pages of %d", most, num_threads, page);
            CHECK_SAME(all.back().data(), all.front().data(), static_cast<int64_t>(all.front().size()));
        }
    }
}

KERNEL_TEST(packed_caches_go_on_behind_what_was_trimmed_as_if_it_had_never_been) {
    for (const Shape &shape : packed_shapes(64)) {
        const Situation situation("values %s, ring of %d", format_name(shape.value_format()), shape.ring_tokens);
        Random random(64);
        const Decoder decoder(shape, random);
        const Random same = random;
        std::vector<std::vector<float>> all;
        for (bool is_trimmed : {false, true}) {
            Random again = same;
            Sequence sequence(decoder, 300, again, 32);
            std::vector<float> logits;
            for (int32_t rows = 1; sequence.left(); rows = rows % 5 + 1) {
                std::vector<int32_t> ids;
                const int32_t done = 300 - sequence.left();
                if (is_trimmed && sequence.left() >= 16) {  // a draft that is not accepted
                    step(decoder, {sequence.next(16, 0, ids)}, std::vector<int32_t>(16, 7), 1);
                    sequence.trim(done);
                    ids.clear();
                }
                const int32_t now = std::min(rows, sequence.left());
                const Floats piece = step(decoder, {sequence.next(now, now, ids)}, ids, 1);
                logits.insert(logits.end(), piece.begin(), piece.end());
            }
            all.push_back(logits);
        }
        CHECK_SAME(all[1].data(), all[0].data(), static_cast<int64_t>(all[0].size()));
    }
}

KERNEL_TEST(a_text_goes_on_with_empty_rings) {
    const Threads threads;
    for (Shape shape : packed_shapes(64)) {
        for (int32_t length : {1, 50, 261}) {
            const Situation situation("values %s, resumed at %d", format_name(shape.value_format()), length);
            Random random(65);
            shape.resumed_at = length;
            const Decoder decoder(shape, random);
            Sequence sequence(decoder, 300, random, 32);
            std::vector<float> logits;
            while (sequence.left()) {
                std::vector<int32_t> ids;
                const int32_t done = 300 - sequence.left();
                if (done == length) sequence.forget_rings();
                const int32_t rows = std::min(done < length ? length - done : 300 - done, 11);
                const Floats piece = step(decoder, {sequence.next(rows, rows, ids)}, ids, 2);
                logits.insert(logits.end(), piece.begin(), piece.end());
            }
            check_forward(decoder, sequence, logits);
        }
    }
}
