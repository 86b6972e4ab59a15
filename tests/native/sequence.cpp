#include "sequence.h"

#include <algorithm>
#include <cmath>

#include "cached.h"
#include "check.h"

namespace test {
namespace {

bool is_dense_format(int32_t format) { return format == DK_F32 || format == DK_BF16; }

int32_t token_of(const Plane &plane, int32_t position) {
    size_t i = 0;
    while (i + 1 < plane.spans.size() && plane.spans[i + 1].position <= position) ++i;
    return plane.spans[i].token + position - plane.spans[i].position;
}

// Where nothing is rounded to 8 or 16 bits on the way, only float32 sums differ. Else a value near the middle
// between two steps may fall to either side, and what comes after follows it.
double tolerance(const Shape &shape) {
    const bool is_exact = !is_quantized(shape.format) && shape.kv_format == DK_F32;
    return is_exact ? 2e-5 : 0.1;
}

}  // namespace

Plane::Plane(int64_t key_bytes, int64_t value_bytes, int64_t ring_bytes, int32_t tokens)
    : keys(key_bytes, kLine),
      values(value_bytes, kLine),
      ring_keys(ring_bytes, kLine),
      ring_values(ring_bytes, kLine),
      tokens(tokens) {
    std::fill(ring_keys.begin(), ring_keys.end(), uint8_t{0});
    std::fill(ring_values.begin(), ring_values.end(), uint8_t{0});
}

Sequence::Sequence(const Decoder &decoder, int32_t tokens, Random &random, int32_t page)
    : decoder_(decoder), places_(decoder.shape().planes) {
    for (int32_t i = 0; i < tokens; ++i) {
        ids_.push_back(static_cast<int32_t>(random.integer(0, decoder.shape().vocab - 1)));
    }
    for (int32_t i = 0; i < decoder.shape().planes; ++i) add_plane(page, random);
    for (int32_t i = 0; i < decoder.shape().planes; ++i) {
        const Plane &plane = planes_[static_cast<size_t>(i)];
        places_[i] = {plane.keys.data(),
                      plane.values.data(),
                      plane.ring_keys.data(),
                      plane.ring_values.data(),
                      static_cast<int64_t>(plane.tokens) * decoder.shape().kv_heads,
                      plane.tokens,
                      plane.spans.data(),
                      static_cast<int64_t>(plane.spans.size())};
    }
}

dk_segment Sequence::next(int32_t rows, int32_t wanted, std::vector<int32_t> &ids) {
    const dk_segment segment{places_.data(), length_, rows, wanted, ring_first_};
    ids.insert(ids.end(), ids_.begin() + length_, ids_.begin() + length_ + rows);
    length_ += rows;
    written_ = std::max(written_, length_);
    return segment;
}

void Sequence::trim(int32_t length) {
    ring_first_ = std::min(length, std::max(ring_first_, written_ - decoder_.shape().ring_tokens));
    length_ = length;
}

bool Sequence::is_clean_behind() const {
    for (const Plane &plane : planes_) {
        std::vector<bool> is_done(static_cast<size_t>(plane.tokens));
        for (int32_t p = 0; p < length_; ++p) is_done[static_cast<size_t>(token_of(plane, p))] = true;
        if (!is_clean(plane, plane.keys, is_done, true) || !is_clean(plane, plane.values, is_done, false)) return false;
    }
    return true;
}

void Sequence::add_plane(int32_t page, Random &random) {
    const Shape &s = decoder_.shape();
    const auto tokens = static_cast<int32_t>(ids_.size());
    const int32_t pages = page ? (tokens + page - 1) / page + 2 : 1;
    const int32_t room = page ? pages * page : is_dense(true) && is_dense(false) ? tokens : (tokens + 15) / 16 * 16;
    const int64_t layers = (s.layers + s.planes - 1) / s.planes;
    const int64_t held = room * layers * s.kv_heads;
    planes_.emplace_back(held * token_bytes(true), held * token_bytes(false),
                         layers * s.kv_heads * s.ring_tokens * s.head_dim * 2, room);
    std::vector<int32_t> order;
    for (int32_t i = 0; i < pages; ++i) {
        order.insert(order.begin() + random.integer(0, i), i);
    }
    for (int32_t p = 0, i = 0; p < tokens; p += page ? page : tokens) {
        planes_.back().spans.push_back({p, order[static_cast<size_t>(i++)] * page});
    }
}

// Bytes of 16 tokens in 8 or 4 bits are mixed: a block is clean where none of its tokens is done.
bool Sequence::is_clean(const Plane &plane, const Bytes &cache, const std::vector<bool> &is_done, bool is_keys) const {
    const int64_t together = is_dense(is_keys) ? 1 : 16, bytes = token_bytes(is_keys) * together;
    for (int64_t at = 0; at < cache.size(); at += bytes) {
        const int64_t first = at / bytes * together % plane.tokens;
        const auto begin = is_done.begin() + first;
        if (std::find(begin, begin + together, true) != begin + together) continue;
        const uint8_t *block = cache.data() + at;
        if (std::any_of(block, block + bytes, [](uint8_t byte) { return byte != 0xFF; })) return false;
    }
    return true;
}

bool Sequence::is_dense(bool is_keys) const {
    return is_dense_format(is_keys ? decoder_.shape().kv_format : decoder_.shape().value_format());
}

int64_t Sequence::token_bytes(bool is_keys) const {
    const Shape &s = decoder_.shape();
    return cached_bytes(is_keys ? s.kv_format : s.value_format(), s.head_dim, is_keys);
}

Floats step(const Decoder &decoder, const std::vector<dk_segment> &list, const std::vector<int32_t> &ids,
            int threads) {
    const Exact<dk_segment> segments(static_cast<int64_t>(list.size()));
    std::copy(list.begin(), list.end(), segments.begin());
    const Exact<int32_t> exact_ids(static_cast<int64_t>(ids.size()));
    std::copy(ids.begin(), ids.end(), exact_ids.begin());
    int64_t wanted = 0;
    for (const dk_segment &segment : list) wanted += segment.wanted;
    Floats logits(wanted * decoder.shape().vocab);
    const auto num = static_cast<int32_t>(list.size());
    const Bytes scratch(dk_step_scratch(&decoder.model(), segments.data(), num, threads), kLine);
    dk_step(&decoder.model(), segments.data(), num, exact_ids.data(), logits.data(), threads, scratch.data());
    return logits;
}

std::vector<float> run(const Decoder &decoder, Sequence &sequence, int32_t most, int threads,
                       Random &random) {
    std::vector<float> logits;
    while (sequence.left()) {
        const auto rows = static_cast<int32_t>(random.integer(1, std::min(most, sequence.left())));
        std::vector<int32_t> ids;
        const dk_segment segment = sequence.next(rows, rows, ids);
        const Floats piece = step(decoder, {segment}, ids, threads);
        logits.insert(logits.end(), piece.begin(), piece.end());
        CHECK(sequence.is_clean_behind(), "after %d tokens", segment.length + rows);
    }
    return logits;
}

void check_forward(const Decoder &decoder, const Sequence &sequence, const std::vector<float> &logits) {
    double squares = 0;
    std::vector<double> wanted;
    for (const auto &row : decoder.forward(sequence.ids())) wanted.insert(wanted.end(), row.begin(), row.end());
    for (double value : wanted) squares += value * value;
    const double size = std::sqrt(squares / static_cast<double>(wanted.size()));
    CHECK(logits.size() == wanted.size(), "%zu logits, not %zu", logits.size(), wanted.size());
    CHECK_NEAR(logits.data(), wanted, std::vector<double>(wanted.size(), size * tolerance(decoder.shape())));
}

void check_shape(const Shape &shape, int32_t tokens, int32_t most, uint64_t seed) {
    const Situation situation("%s, cache %s, %d / %d heads of %d, window %d, seed %d", format_name(shape.format),
                              format_name(shape.kv_format), shape.heads, shape.kv_heads, shape.head_dim,
                              shape.sliding_window, static_cast<int>(seed));
    Random random(seed);
    const Decoder decoder(shape, random);
    Sequence sequence(decoder, tokens, random);
    check_forward(decoder, sequence, run(decoder, sequence, most, 2, random));
}

}  // namespace test
