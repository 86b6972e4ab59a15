// A small decoder with random held weights and every option, and its forward pass in float64 without any cache.
#pragma once

#include <vector>

#include "held.h"

namespace test {

enum class HeadNorms { none, alone, joint };

struct Shape {
    int32_t format;  // of all matrices
    int32_t kv_format = DK_F32;  // of keys, and of values where those have no own
    int32_t heads = 4, kv_heads = 2, head_dim = 32;
    int32_t sliding_window = 0;
    int32_t layers = 2, hidden = 96, intermediate = 160, vocab = 33, context = 400;
    int32_t planes = 1;      // layers are dealt out to them in turn
    int32_t rotary_dim = 0;  // 0: all of a head
    bool alternates = false;  // every second layer has no window; layers turn by one table, by another, not at all
    bool has_pre_norms = true, has_post_norms = false, has_biases = false;
    HeadNorms head_norms = HeadNorms::none;
    int32_t activation = DK_SILU;
    int32_t own_value_format = -1;
    int32_t ring_tokens = 0;
    int32_t resumed_at = 0;  // tokens from this one on find the rings empty of those before it
    float attention_cap = 0, embedding_scale = 1, residual_scale = 1, logit_divisor = 1, logit_cap = 0;

    int32_t value_format() const { return own_value_format < 0 ? kv_format : own_value_format; }
};

class Decoder {
  public:
    Decoder(const Shape &shape, Random &random);
    Decoder(const Decoder &) = delete;

    const Shape &shape() const { return shape_; }
    const dk_model &model() const { return model_; }

    // Logits [tokens][vocab] of a whole text. Products see their input as the kernels do (in int8 where the
    // matrix is quantized), attention sees keys and values as the cache holds them, and queries in bfloat16
    // too where the kernels want that.
    std::vector<std::vector<double>> forward(const std::vector<int32_t> &ids) const;

  private:
    using Row = std::vector<double>;
    using Rows = std::vector<Row>;
    struct Block {
        Floats attention_norm, mlp_norm, post_attention_norm, post_mlp_norm, q_norm, k_norm;
        Floats qkv_bias, output_bias, gate_up_bias, down_bias;
        Held q, k, v, o, gate, up, down;
    };

    Block block(Random &random) const;
    dk_layer layer(int32_t index) const;
    Row normalized(const Row &x, const Floats &norm, bool has_norm) const;
    Row biased(Row x, const Floats &bias, int64_t first) const;
    void add(Row &x, Row part, const Floats &post_norm) const;
    Row gated(const Block &block, const Row &h) const;
    Rows attend(const Block &block, const dk_layer &layer, const Rows &x) const;
    // Keys or values of all tokens, as the plane and as the ring hold them.
    struct Cached {
        Rows plane, ring;
    };
    Cached cached(const Rows &x, bool is_keys) const;
    Row attend_head(const dk_layer &layer, const Rows &q, const Cached &k, const Cached &v, size_t at,
                    int32_t head) const;
    void normalize_heads(Row &row, const Floats &norm) const;
    void rotate(Row &row, const float *rotations, size_t position) const;

    Shape shape_;
    std::vector<Block> blocks_;
    Held embedding_, head_;
    Floats output_norm_;
    std::vector<Floats> rotations_;
    Exact<dk_layer> layers_;
    dk_model model_;
};

}  // namespace test
