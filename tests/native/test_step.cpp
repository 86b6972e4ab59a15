// Whole forward passes against the decoder in float64. Pieces, company and threads change no bit.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "sequence.h"
#include "threads.h"

using namespace test;

namespace {

// A small decoder, or one as wide as the format wants it.
Shape shape_of(int32_t format, int32_t kv_format) {
    Shape shape{format, kv_format};
    if (column_multiple(format) > 32) shape.head_dim = 64, shape.hidden = 256, shape.intermediate = 512;
    return shape;
}

// Every option that a decoder may have, each alone, and then together.
std::vector<Shape> shapes_of_options(int32_t format) {
    const Shape plain = shape_of(format, DK_F32);
    std::vector<Shape> shapes(14, plain);
    shapes[0].has_pre_norms = false, shapes[0].has_post_norms = true;
    shapes[1].has_post_norms = true;
    shapes[2].has_biases = true;
    shapes[3].head_norms = HeadNorms::alone;
    shapes[4].head_norms = HeadNorms::joint;
    shapes[5].activation = DK_GELU_TANH;
    shapes[6].attention_cap = 1.5f;
    shapes[7].logit_cap = 2;
    shapes[8].logit_divisor = 3;
    shapes[9].embedding_scale = 5;
    shapes[10].residual_scale = 0.3f;
    shapes[11].rotary_dim = 24;
    shapes[12].alternates = true, shapes[12].layers = 5, shapes[12].sliding_window = 7;
    Shape &all = shapes[13];
    all.has_post_norms = all.has_biases = all.alternates = true;
    all.head_norms = HeadNorms::joint, all.activation = DK_GELU_TANH;
    all.attention_cap = 2, all.logit_cap = 3, all.logit_divisor = 0.5f, all.embedding_scale = 2;
    all.residual_scale = 0.5f, all.rotary_dim = 16, all.layers = 4, all.sliding_window = 5, all.planes = 2;
    return shapes;
}

}  // namespace

KERNEL_TEST(every_option_is_computed_as_it_is_written_down) {
    const Threads threads;
    for (int32_t format : {DK_F32, DK_INT4Z}) {
        uint64_t seed = 100;
        for (const Shape &shape : shapes_of_options(format)) check_shape(shape, 24, 8, ++seed);
    }
    for (int32_t dim : {16, 48}) {  // an odd number of 16s
        Shape shape{DK_F32, DK_BF16, 2, 1, dim};
        shape.head_norms = dim == 16 ? HeadNorms::alone : HeadNorms::joint;
        shape.attention_cap = 1;
        check_shape(shape, 24, 8, 130);
    }
}

KERNEL_TEST(a_cache_in_pages_has_the_bits_of_one_in_a_row) {
    const Threads threads;
    for (int32_t kv_format : {DK_F32, DK_BF16}) {
        for (int32_t window : {0, 265}) {
            const Situation situation("cache %s, window %d", format_name(kv_format), window);
            Random random(60);
            Shape shape{DK_INT8, kv_format, 4, 2, 64, window};
            shape.planes = 2, shape.alternates = true;
            const Decoder decoder(shape, random);
            const Random same = random;
            std::vector<std::vector<float>> all;
            for (int32_t page : {0, 16, 48}) {
                Random again = same, pieces = same;
                Sequence sequence(decoder, 290, again, page);
                all.push_back(run(decoder, sequence, 70, 2, pieces));
                const Situation pages("pages of %d", page);
                CHECK_SAME(all.back().data(), all.front().data(), static_cast<int64_t>(all.front().size()));
            }
        }
    }
}

KERNEL_TEST(a_text_in_pieces_gives_the_logits_of_the_whole_text) {
    const Threads threads;
    for (int32_t format : kFormats) {
        for (int32_t kv_format : {DK_F32, DK_BF16}) check_shape(shape_of(format, kv_format), 24, 8, 50);
    }
    for (int32_t groups = 1; groups <= 8; ++groups)
        check_shape({DK_F32, DK_F32, 2 * groups, 2}, 20, 5, 51);
    for (int32_t dim = 32; dim <= 256; dim += 32) check_shape({DK_F32, DK_BF16, 2, 1, dim}, 20, 5, 52);
    for (int32_t window : {1, 2, 7, 16, 17}) check_shape({DK_F32, DK_F32, 4, 2, 32, window}, 40, 9, 53);
}

KERNEL_TEST(a_text_longer_than_a_stretch_of_keys) {
    const Threads threads;
    for (int32_t window : {0, 20, 200, 256, 300}) {
        Shape shape{DK_F32, DK_F32, 2, 1, 32, window};
        shape.layers = 1;
        check_shape(shape, 330, 64, 54);
    }
}

KERNEL_TEST(a_token_has_the_same_logits_alone_or_in_a_piece_with_any_number_of_threads) {
    const Threads threads;
    for (bool has_all : {false, true}) {
        const int32_t format = has_all ? DK_INT4Z : DK_BF16;
        const Situation situation("%s", format_name(format));
        Random random(55);
        const Shape plain{format, DK_BF16, 6, 2, 64, 262};
        const Decoder decoder(has_all ? shapes_of_options(format).back() : plain, random);
        const Random same = random;
        std::vector<std::vector<float>> all;
        for (const auto &[most, num_threads] : {std::pair(1, 1), {9, 2}, {30, 5}, {300, 2}}) {
            Random again = same;
            Sequence sequence(decoder, 270, again);
            all.push_back(run(decoder, sequence, most, num_threads, again));
            const Situation pieces("pieces of at most %d, %d threads", most, num_threads);
            CHECK_SAME(all.back().data(), all.front().data(), static_cast<int64_t>(all.front().size()));
        }
    }
}

KERNEL_TEST(texts_that_run_together_have_the_same_bits_as_alone) {
    const Threads threads;
    for (int32_t format : {DK_F32, DK_INT4K, DK_INT8}) {
        const Situation situation("%s", format_name(format));
        Random random(56);
        const Decoder decoder(shape_of(format, DK_F32), random);
        const Random same = random;
        std::vector<std::vector<float>> alone;
        const std::vector<int32_t> lengths = {280, 9, 31, 1};
        for (int together = 0; together < 2; ++together) {
            Random again = same;
            std::vector<Sequence> sequences;
            for (int32_t length : lengths) sequences.emplace_back(decoder, length, again);
            for (Sequence &sequence : sequences) {  // all but the last tokens, so that lengths differ
                std::vector<int32_t> ids;
                if (sequence.left() > 5)
                    step(decoder, {sequence.next(sequence.left() - 5, 0, ids)}, ids, 1);
            }
            std::vector<int32_t> ids;
            std::vector<dk_segment> segments;
            for (size_t i = 0; i < sequences.size(); ++i) {
                if (!together) ids.clear(), segments.clear();
                const int32_t rows = sequences[i].left();
                segments.push_back(sequences[i].next(rows, i % 2 == 0 ? rows : 1, ids));
                if (together) continue;
                const Floats logits = step(decoder, segments, ids, 1);
                alone.emplace_back(logits.begin(), logits.end());
            }
            if (!together) continue;
            const Floats logits = step(decoder, segments, ids, 2);
            const float *at = logits.data();
            for (const std::vector<float> &each : alone) {
                CHECK_SAME(at, each.data(), static_cast<int64_t>(each.size()));
                at += each.size();
            }
            CHECK(at == logits.end(), "%d logits", static_cast<int>(logits.size()));
        }
    }
}

KERNEL_TEST(a_step_gives_the_logits_of_the_last_tokens_that_are_wanted) {
    Random random(57);
    const Decoder decoder({DK_INT8}, random);
    const Random same = random;
    std::vector<float> every;
    for (int32_t wanted : {11, 4, 1, 0}) {
        Random again = same;
        Sequence sequence(decoder, 11, again);
        std::vector<int32_t> ids;
        const Floats some = step(decoder, {sequence.next(11, wanted, ids)}, ids, 1);
        if (wanted == 11) every.assign(some.begin(), some.end());
        const int64_t vocab = decoder.shape().vocab;
        CHECK(some.size() == wanted * vocab, "%d logits", static_cast<int>(some.size()));
        CHECK_SAME(some.data(), every.data() + (11 - wanted) * vocab, some.size());
    }
}
