// Whole forward passes against the decoder in float64. Pieces, company and threads change no bit.
#include <algorithm>
#include <cmath>

#include "check.h"
#include "decoder.h"
#include "threads.h"

using namespace test;

namespace {

// A text and its keys and values, [layers][kv_heads][capacity][head_dim] with room for the text alone.
class Sequence {
  public:
    Sequence(const Decoder &decoder, int32_t tokens, Random &random)
        : decoder_(decoder), keys_(cache_bytes(tokens), kLine), values_(cache_bytes(tokens), kLine) {
        for (int32_t i = 0; i < tokens; ++i) {
            ids_.push_back(static_cast<int32_t>(random.integer(0, decoder.shape().vocab - 1)));
        }
    }

    const std::vector<int32_t> &ids() const { return ids_; }
    int32_t left() const { return static_cast<int32_t>(ids_.size()) - length_; }

    // The next `rows` tokens as a segment, which counts as done.
    dk_segment next(int32_t rows, bool wants_all, std::vector<int32_t> &ids) {
        const int64_t head = static_cast<int64_t>(ids_.size()) * position_bytes();
        const dk_segment segment{keys_.data(),
                                 values_.data(),
                                 head * decoder_.shape().kv_heads,
                                 head,
                                 length_,
                                 rows,
                                 wants_all,
                                 0};
        ids.insert(ids.end(), ids_.begin() + length_, ids_.begin() + length_ + rows);
        length_ += rows;
        return segment;
    }

    // Whether the cache is still untouched behind the tokens that are done.
    bool is_clean_behind() const {
        const int64_t heads = static_cast<int64_t>(decoder_.shape().layers) * decoder_.shape().kv_heads;
        const int64_t head = static_cast<int64_t>(ids_.size()) * position_bytes();
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t i = h * head + length_ * position_bytes(); i < (h + 1) * head; ++i) {
                if (keys_[i] != 0xFF || values_[i] != 0xFF) return false;
            }
        }
        return true;
    }

  private:
    int64_t position_bytes() const {
        return static_cast<int64_t>(decoder_.shape().head_dim) *
               (decoder_.shape().kv_format == DK_F32 ? 4 : 2);
    }
    int64_t cache_bytes(int32_t tokens) const {
        return position_bytes() * tokens * decoder_.shape().layers * decoder_.shape().kv_heads;
    }

    const Decoder &decoder_;
    std::vector<int32_t> ids_;
    Bytes keys_, values_;
    int32_t length_ = 0;
};

Floats step(const Decoder &decoder, const std::vector<dk_segment> &list, const std::vector<int32_t> &ids,
            int threads) {
    const Exact<dk_segment> segments(static_cast<int64_t>(list.size()));
    std::copy(list.begin(), list.end(), segments.begin());
    const Exact<int32_t> exact_ids(static_cast<int64_t>(ids.size()));
    std::copy(ids.begin(), ids.end(), exact_ids.begin());
    int64_t wanted = 0;
    for (const dk_segment &segment : list) wanted += segment.wants_all ? segment.rows : 1;
    Floats logits(wanted * decoder.shape().vocab);
    const auto num = static_cast<int32_t>(list.size());
    const Bytes scratch(dk_step_scratch(&decoder.model(), segments.data(), num, threads), kLine);
    dk_step(&decoder.model(), segments.data(), num, exact_ids.data(), logits.data(), threads, scratch.data());
    return logits;
}

// All logits of the rest of a text, in pieces of at most `most` tokens.
std::vector<float> run(const Decoder &decoder, Sequence &sequence, int32_t most, int threads,
                       Random &random) {
    std::vector<float> logits;
    while (sequence.left()) {
        const auto rows = static_cast<int32_t>(random.integer(1, std::min(most, sequence.left())));
        std::vector<int32_t> ids;
        const dk_segment segment = sequence.next(rows, true, ids);
        const Floats piece = step(decoder, {segment}, ids, threads);
        logits.insert(logits.end(), piece.begin(), piece.end());
        CHECK(sequence.is_clean_behind(), "after %d tokens", segment.length + rows);
    }
    return logits;
}

// Where nothing is rounded to 8 or 16 bits on the way, only float32 sums differ. Else a value near the middle
// between two steps may fall to either side, and what comes after follows it.
double tolerance(const Shape &shape, bool rounds_attention) {
    const bool is_exact = !is_quantized(shape.format) && shape.kv_format == DK_F32;
    return is_exact ? 2e-5 : rounds_attention ? 0.25 : 0.1;
}

void check_forward(const dk::Kernels &k, const Decoder &decoder, const Sequence &sequence,
                   const std::vector<float> &logits) {
    const bool rounds_queries = rounds_attention(k, decoder.shape().kv_format);
    double squares = 0;
    std::vector<double> wanted;
    for (const auto &row : decoder.forward(sequence.ids(), rounds_queries))
        wanted.insert(wanted.end(), row.begin(), row.end());
    for (double value : wanted) squares += value * value;
    const double size = std::sqrt(squares / static_cast<double>(wanted.size()));
    CHECK(logits.size() == wanted.size(), "%zu logits, not %zu", logits.size(), wanted.size());
    CHECK_NEAR(logits.data(), wanted,
               std::vector<double>(wanted.size(), size * tolerance(decoder.shape(), rounds_queries)));
}

// A small decoder, or one as wide as the format wants it.
Shape shape_of(int32_t format, int32_t kv_format) {
    Shape shape{format, kv_format};
    if (column_multiple(format) > 32) shape.head_dim = 64, shape.hidden = 256, shape.intermediate = 512;
    return shape;
}

void check_shape(const dk::Kernels &k, const Shape &shape, int32_t tokens, int32_t most, uint64_t seed) {
    const Situation situation("%s, cache %s, %d / %d heads of %d, window %d", format_name(shape.format),
                              format_name(shape.kv_format), shape.heads, shape.kv_heads, shape.head_dim,
                              shape.sliding_window);
    Random random(seed);
    const Decoder decoder(shape, random);
    Sequence sequence(decoder, tokens, random);
    check_forward(k, decoder, sequence, run(decoder, sequence, most, 2, random));
}

}  // namespace

KERNEL_TEST(a_text_in_pieces_gives_the_logits_of_the_whole_text) {
    const Threads threads;
    for (int32_t format : kFormats) {
        for (int32_t kv_format : {DK_F32, DK_BF16}) check_shape(k, shape_of(format, kv_format), 24, 8, 50);
    }
    for (int32_t groups = 1; groups <= 8; ++groups)
        check_shape(k, {DK_F32, DK_F32, 2 * groups, 2}, 20, 5, 51);
    for (int32_t dim = 32; dim <= 256; dim += 32) check_shape(k, {DK_F32, DK_BF16, 2, 1, dim}, 20, 5, 52);
    for (int32_t window : {1, 2, 7, 16, 17}) check_shape(k, {DK_F32, DK_F32, 4, 2, 32, window}, 40, 9, 53);
}

KERNEL_TEST(a_text_longer_than_a_stretch_of_keys) {
    const Threads threads;
    for (int32_t window : {0, 20, 200, 256, 300}) {
        Shape shape{DK_F32, DK_F32, 2, 1, 32, window};
        shape.layers = 1;
        check_shape(k, shape, 330, 64, 54);
    }
}

KERNEL_TEST(a_token_has_the_same_logits_alone_or_in_a_piece_with_any_number_of_threads) {
    const Threads threads;
    for (int32_t format : {DK_BF16, DK_INT4Z}) {
        const Situation situation("%s", format_name(format));
        Random random(55);
        const Decoder decoder({format, DK_BF16, 6, 2, 64, 262}, random);
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
                    step(decoder, {sequence.next(sequence.left() - 5, false, ids)}, ids, 1);
            }
            std::vector<int32_t> ids;
            std::vector<dk_segment> segments;
            for (size_t i = 0; i < sequences.size(); ++i) {
                if (!together) ids.clear(), segments.clear();
                segments.push_back(sequences[i].next(sequences[i].left(), i % 2 == 0, ids));
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

KERNEL_TEST(a_step_that_wants_the_last_token_gives_it_alone) {
    Random random(57);
    const Decoder decoder({DK_INT8}, random);
    const Random same = random;
    Random first = same, second = same;
    Sequence all(decoder, 11, first), last(decoder, 11, second);
    std::vector<int32_t> ids, again;
    const Floats every = step(decoder, {all.next(11, true, ids)}, ids, 1);
    const Floats one = step(decoder, {last.next(11, false, again)}, again, 1);
    CHECK(one.size() == decoder.shape().vocab, "%d logits", static_cast<int>(one.size()));
    CHECK_SAME(one.data(), every.data() + 10 * decoder.shape().vocab, one.size());
}
