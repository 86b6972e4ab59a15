// A text that runs through a decoder's steps, and the caches that it has for that.
#pragma once

#include <vector>

#include "decoder.h"
#include "kernels.h"

namespace test {

// Where a text has its keys and values: [layers][kv_heads][tokens][head_dim], with room for the text alone or,
// in pages of some tokens, for a little more; the pages are in no order.
struct Plane {
    Plane(int64_t key_bytes, int64_t value_bytes, int64_t ring_bytes, int32_t tokens);

    Bytes keys, values, ring_keys, ring_values;
    int32_t tokens;
    std::vector<dk_span> spans;
};

class Sequence {
  public:
    // `page` of 0: the tokens lie one behind the other.
    Sequence(const Decoder &decoder, int32_t tokens, Random &random, int32_t page = 0);

    const std::vector<int32_t> &ids() const { return ids_; }
    int32_t left() const { return static_cast<int32_t>(ids_.size()) - length_; }

    // The next `rows` tokens as a segment, which counts as done.
    dk_segment next(int32_t rows, int32_t wanted, std::vector<int32_t> &ids);

    // Forgets the tokens from `length` on; rings keep those that nothing was written over.
    void trim(int32_t length);

    // Goes on with empty rings.
    void forget_rings() { ring_first_ = length_; }

    // Whether the cache is still untouched but for the tokens that are done.
    bool is_clean_behind() const;

  private:
    void add_plane(int32_t page, Random &random);
    bool is_clean(const Plane &plane, const Bytes &cache, const std::vector<bool> &is_done, bool is_keys) const;
    bool is_dense(bool is_keys) const;
    int64_t token_bytes(bool is_keys) const;

    const Decoder &decoder_;
    std::vector<int32_t> ids_;
    std::vector<Plane> planes_;
    Exact<dk_plane> places_;
    int32_t length_ = 0, written_ = 0, ring_first_ = 0;
};

// Logits of one step.
Floats step(const Decoder &decoder, const std::vector<dk_segment> &list, const std::vector<int32_t> &ids,
            int threads);

// All logits of the rest of a text, in pieces of at most `most` tokens.
std::vector<float> run(const Decoder &decoder, Sequence &sequence, int32_t most, int threads, Random &random);

// The logits of a text are those of the decoder in float64.
void check_forward(const Decoder &decoder, const Sequence &sequence, const std::vector<float> &logits);

// So they are for a text in pieces through a decoder of such a shape.
void check_shape(const Shape &shape, int32_t tokens, int32_t most, uint64_t seed);

}  // namespace test
