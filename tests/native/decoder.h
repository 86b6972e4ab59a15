// A small Llama-like decoder with random held weights, and its forward pass in float64 without any cache.
#pragma once

#include <vector>

#include "held.h"

namespace test {

struct Shape {
    int32_t format;  // of all matrices
    int32_t kv_format = DK_F32;
    int32_t heads = 4, kv_heads = 2, head_dim = 32;
    int32_t sliding_window = 0;
    int32_t layers = 2, hidden = 96, intermediate = 160, vocab = 33, context = 400;
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
    std::vector<std::vector<double>> forward(const std::vector<int32_t> &ids, bool rounds_queries) const;

  private:
    using Rows = std::vector<std::vector<double>>;
    struct Block {
        Floats attention_norm, mlp_norm;
        Held q, k, v, o, gate, up, down;
    };

    Rows attend(const Block &block, const Rows &x, bool rounds_queries) const;
    std::vector<double> attend_head(const Rows &q, const Rows &k, const Rows &v, size_t at,
                                    int32_t head) const;
    void rotate(std::vector<double> &row, size_t position) const;

    Shape shape_;
    std::vector<Block> blocks_;
    Held embedding_, head_;
    Floats output_norm_, rotations_;
    Exact<dk_layer> layers_;
    dk_model model_;
};

}  // namespace test
