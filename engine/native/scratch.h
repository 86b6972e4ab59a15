// Where the working memory of a step lies. engine/fit/scratch.py repeats this arithmetic for the plan.
#pragma once

#include "kernels.h"

namespace dk {

// Hands out 64-byte aligned pieces of a scratch buffer; with no buffer it only counts.
class Arena {
  public:
    explicit Arena(uint8_t *memory) : memory_(memory) {}
    uint8_t *take(int64_t bytes) {
        uint8_t *here = memory_ ? memory_ + used_ : nullptr;
        used_ += (bytes + 63) / 64 * 64;
        return here;
    }
    float *floats(int64_t count) { return reinterpret_cast<float *>(take(count * 4)); }
    int32_t *ints(int64_t count) { return reinterpret_cast<int32_t *>(take(count * 4)); }
    int64_t used() const { return used_; }

  private:
    uint8_t *memory_;
    int64_t used_ = 0;
};

inline int64_t query_cols(const dk_model &m) { return static_cast<int64_t>(m.heads) * m.head_dim; }
inline int64_t key_cols(const dk_model &m) { return static_cast<int64_t>(m.kv_heads) * m.head_dim; }
inline int64_t part_floats(const dk_model &m) { return m.head_dim + 2; }  // of a head over a piece of positions

// What the memory of a step depends on, beside the model.
struct StepSize {
    int64_t rows = 0;    // new tokens of all segments
    int64_t widest = 0;  // those of the segment with most of them
    int32_t pieces = 0;  // of attention, of the longest segment

    static StepSize of(const dk_model &model, const dk_segment *segments, int32_t num);
};

// What all threads see.
struct Shared {
    float *residual[2];  // [rows][hidden]: the stream, and where it goes on once a part was normalized
    float *part;         // [rows][hidden]: what a part adds, until its norm has seen whole rows
    float *q;            // [rows][heads · dim]
    float *k, *v;        // [rows][kv_heads · dim]
    float *joined;       // [rows][heads · dim]
    float *parts;        // [pieces][rows][heads][dim + 2]
    uint8_t *gated;      // of Activations, [rows][intermediate]
    int32_t *segment;    // [rows]: which one a row belongs to

    static Shared place(Arena &arena, const dk_model &model, const StepSize &size);
};

// What one thread writes to and nobody else reads.
struct Private {
    uint8_t *input;       // of Activations: of a product, [rows][hidden or heads · dim]
    float *queries;       // [rows · groups][dim], of one key head, as the four below
    int32_t *first, *end; // [rows · groups]
    float **out;          // [rows · groups]
    float *weights;       // [rows · groups][kKeyChunk]
    float *converted;     // [kKeyBlock][dim]
    float *head;          // [padded dim]
    uint8_t *asked;       // of Activations, [rows · groups][padded dim]
    Weighed weighed;      // [rows · groups]
    float *q_rms, *k_rms; // [rows]: inverse, of all heads of a row
    int32_t *tokens;      // of two chunks of positions, every kKeyBlock

    static Private place(Arena &arena, const dk_model &model, const StepSize &size);
};

}  // namespace dk
