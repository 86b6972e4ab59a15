#include "decoder.h"

#include <algorithm>

#include "cached.h"

namespace test {
namespace {

constexpr float kEps = 1e-5f;

using Row = std::vector<double>;

Held matrix(const Shape &shape, int64_t rows, int64_t cols, Random &random) {
    return hold(shape.format, rows, cols, Values::ordinary, random);
}

Floats around(double middle, int64_t count, Random &random) {
    Floats vector(count);
    for (float &value : vector) value = static_cast<float>(middle + 0.2 * random.normal());
    return vector;
}

int32_t rotary(const Shape &s) { return s.rotary_dim ? s.rotary_dim : s.head_dim; }

// [context][rotary_dim / 2][2]: cosine and sine of every position and pair, `size` times.
Floats rotations(const Shape &s, double base, double size) {
    const int32_t dim = rotary(s);
    Floats turns(static_cast<int64_t>(s.context) * dim);
    for (int32_t at = 0; at < s.context; ++at) {
        for (int32_t pair = 0; pair < dim / 2; ++pair) {
            const double angle = at * std::pow(base, -2.0 * pair / dim);
            turns[at * dim + 2 * pair] = static_cast<float>(size * std::cos(angle));
            turns[at * dim + 2 * pair + 1] = static_cast<float>(size * std::sin(angle));
        }
    }
    return turns;
}

// Groups of 32 in 127ths of their largest value.
Row rounded_to_int8(Row x) {
    for (size_t first = 0; first < x.size(); first += 32) {
        double top = 0;
        for (size_t i = first; i < first + 32; ++i) top = std::max(top, std::fabs(x[i]));
        const double step = top / 127;
        for (size_t i = first; i < first + 32 && step > 0; ++i) x[i] = std::nearbyint(x[i] / step) * step;
    }
    return x;
}

Row product(const Held &w, const Row &x) {
    const Row seen = is_quantized(w.format) ? rounded_to_int8(x) : x;
    Row out;
    for (int64_t r = 0; r < w.rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < w.cols; ++c) sum += w.row(r)[c].value * seen[static_cast<size_t>(c)];
        out.push_back(sum);
    }
    return out;
}

double activated(double x, int32_t activation) {
    if (activation == DK_SILU) return x / (1 + std::exp(-x));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x)));
}

double capped(double x, double cap) { return cap == 0 ? x : cap * std::tanh(x / cap); }

// Divides by the root of the mean square, and multiplies with `norm`.
void normalize(double *x, size_t count, const float *norm) {
    double squares = 0;
    for (size_t i = 0; i < count; ++i) squares += x[i] * x[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + kEps);
    for (size_t i = 0; i < count; ++i) x[i] *= scale * norm[i];
}

}  // namespace

Decoder::Decoder(const Shape &s, Random &random)
    : shape_(s),
      embedding_(matrix(s, s.vocab, s.hidden, random)),
      head_(matrix(s, s.vocab, s.hidden, random)),
      output_norm_(around(1, s.hidden, random)),
      layers_(s.layers) {
    rotations_.push_back(rotations(s, 10000, 1));
    rotations_.push_back(rotations(s, 500, 1.2));
    for (int32_t i = 0; i < s.layers; ++i) blocks_.push_back(block(random));
    for (int32_t i = 0; i < s.layers; ++i) layers_[i] = layer(i);
    model_ = {s.layers,
              s.hidden,
              s.heads,
              s.kv_heads,
              s.head_dim,
              s.intermediate,
              rotary(s),
              s.kv_format,
              s.value_format(),
              s.activation,
              s.head_norms == HeadNorms::joint,
              s.ring_tokens,
              kEps,
              static_cast<float>(1 / std::sqrt(s.head_dim)),
              s.attention_cap,
              s.embedding_scale,
              s.residual_scale,
              s.logit_divisor,
              s.logit_cap,
              0,
              layers_.data(),
              embedding_.matrix(),
              head_.matrix(),
              output_norm_.data()};
}

Decoder::Block Decoder::block(Random &random) const {
    const Shape &s = shape_;
    const int64_t query = s.heads * s.head_dim, key = s.kv_heads * s.head_dim;
    const bool is_joint = s.head_norms == HeadNorms::joint;
    return {around(1, s.hidden, random),
            around(1, s.hidden, random),
            around(1, s.hidden, random),
            around(1, s.hidden, random),
            around(1, is_joint ? query : s.head_dim, random),
            around(1, is_joint ? key : s.head_dim, random),
            around(0, query + 2 * key, random),
            around(0, s.hidden, random),
            around(0, 2 * s.intermediate, random),
            around(0, s.hidden, random),
            matrix(s, query, s.hidden, random),
            matrix(s, key, s.hidden, random),
            matrix(s, key, s.hidden, random),
            matrix(s, s.hidden, query, random),
            matrix(s, s.intermediate, s.hidden, random),
            matrix(s, s.intermediate, s.hidden, random),
            matrix(s, s.hidden, s.intermediate, random)};
}

dk_layer Decoder::layer(int32_t index) const {
    const Shape &s = shape_;
    const Block &b = blocks_[static_cast<size_t>(index)];
    dk_layer l{};
    if (s.has_pre_norms) l.attention_norm = b.attention_norm.data(), l.mlp_norm = b.mlp_norm.data();
    if (s.has_post_norms) {
        l.post_attention_norm = b.post_attention_norm.data();
        l.post_mlp_norm = b.post_mlp_norm.data();
    }
    if (s.head_norms != HeadNorms::none) l.q_norm = b.q_norm.data(), l.k_norm = b.k_norm.data();
    if (s.has_biases) {
        l.qkv_bias = b.qkv_bias.data(), l.output_bias = b.output_bias.data();
        l.gate_up_bias = b.gate_up_bias.data(), l.down_bias = b.down_bias.data();
    }
    const int32_t kind = s.alternates ? index % 3 : 0;
    if (kind < 2) l.rotations = rotations_[static_cast<size_t>(kind)].data();
    l.q = b.q.matrix(), l.k = b.k.matrix(), l.v = b.v.matrix(), l.o = b.o.matrix();
    l.gate = b.gate.matrix(), l.up = b.up.matrix(), l.down = b.down.matrix();
    l.sliding_window = s.alternates && index % 2 ? 0 : s.sliding_window;
    l.plane = index % s.planes;
    l.plane_layer = index / s.planes;
    return l;
}

Decoder::Rows Decoder::forward(const std::vector<int32_t> &ids) const {
    Rows x;
    for (int32_t id : ids) {
        x.emplace_back();
        for (int64_t c = 0; c < shape_.hidden; ++c) {
            x.back().push_back(embedding_.row(id)[c].value * shape_.embedding_scale);
        }
    }
    for (int32_t i = 0; i < shape_.layers; ++i) {
        const Block &block = blocks_[static_cast<size_t>(i)];
        const Rows attended = attend(block, layers_[i], x);
        for (size_t at = 0; at < x.size(); ++at) {
            add(x[at], biased(product(block.o, attended[at]), block.output_bias, 0), block.post_attention_norm);
            const Row h = gated(block, normalized(x[at], block.mlp_norm, shape_.has_pre_norms));
            add(x[at], biased(product(block.down, h), block.down_bias, 0), block.post_mlp_norm);
        }
    }
    Rows logits;
    for (const Row &row : x) {
        logits.push_back(product(head_, normalized(row, output_norm_, true)));
        for (double &value : logits.back()) value = capped(value / shape_.logit_divisor, shape_.logit_cap);
    }
    return logits;
}

Row Decoder::normalized(const Row &x, const Floats &norm, bool has_norm) const {
    Row out = x;
    if (has_norm) normalize(out.data(), out.size(), norm.data());
    return out;
}

Row Decoder::biased(Row x, const Floats &bias, int64_t first) const {
    for (size_t i = 0; shape_.has_biases && i < x.size(); ++i) x[i] += bias[first + static_cast<int64_t>(i)];
    return x;
}

void Decoder::add(Row &x, Row part, const Floats &post_norm) const {
    part = normalized(part, post_norm, shape_.has_post_norms);
    for (size_t i = 0; i < x.size(); ++i) x[i] += shape_.residual_scale * part[i];
}

Row Decoder::gated(const Block &block, const Row &h) const {
    Row gate = biased(product(block.gate, h), block.gate_up_bias, 0);
    const Row up = biased(product(block.up, h), block.gate_up_bias, shape_.intermediate);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = activated(gate[i], shape_.activation) * up[i];
    return gate;
}

Decoder::Rows Decoder::attend(const Block &block, const dk_layer &layer, const Rows &x) const {
    Rows q, k, v, out;
    for (size_t at = 0; at < x.size(); ++at) {
        const Row h = normalized(x[at], block.attention_norm, shape_.has_pre_norms);
        q.push_back(biased(product(block.q, h), block.qkv_bias, 0));
        k.push_back(biased(product(block.k, h), block.qkv_bias, block.q.rows));
        v.push_back(biased(product(block.v, h), block.qkv_bias, block.q.rows + block.k.rows));
        normalize_heads(q.back(), block.q_norm);
        normalize_heads(k.back(), block.k_norm);
        rotate(q.back(), layer.rotations, at);
        rotate(k.back(), layer.rotations, at);
        for (double &value : q.back()) value *= model_.attention_scale;
    }
    const Cached keys = cached(k, true), values = cached(v, false);
    for (size_t at = 0; at < x.size(); ++at) {
        out.emplace_back();
        for (int32_t head = 0; head < shape_.heads; ++head) {
            const Row one = attend_head(layer, q, keys, values, at, head);
            out.back().insert(out.back().end(), one.begin(), one.end());
        }
    }
    return out;
}

Decoder::Cached Decoder::cached(const Rows &x, bool is_keys) const {
    Cached out{x, x};
    for (size_t at = 0; at < x.size(); ++at) {
        round_cache(out.plane[at], is_keys ? shape_.kv_format : shape_.value_format(), shape_.head_dim, is_keys);
        round_cache(out.ring[at], DK_BF16, shape_.head_dim, is_keys);
    }
    return out;
}

Row Decoder::attend_head(const dk_layer &layer, const Rows &q, const Cached &k, const Cached &v, size_t at,
                         int32_t head) const {
    const size_t dim = static_cast<size_t>(shape_.head_dim), query = static_cast<size_t>(head) * dim;
    const size_t key = static_cast<size_t>(head / (shape_.heads / shape_.kv_heads)) * dim;
    const size_t window = static_cast<size_t>(layer.sliding_window);
    const size_t first = window && at + 1 > window ? at + 1 - window : 0;
    const size_t resumed = static_cast<size_t>(shape_.resumed_at);
    const auto is_recent = [&](size_t p) {
        return shape_.ring_tokens && at - p < 128 && (at < resumed || p >= resumed);
    };
    Row scores, out(dim);
    for (size_t p = first; p <= at; ++p) {
        const Row &seen = is_recent(p) ? k.ring[p] : k.plane[p];
        double score = 0;
        for (size_t i = 0; i < dim; ++i) score += q[at][query + i] * seen[key + i];
        scores.push_back(capped(score, shape_.attention_cap));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (size_t p = first; p <= at; ++p) {
        const Row &seen = is_recent(p) ? v.ring[p] : v.plane[p];
        const double weight = std::exp(scores[p - first] - top);
        sum += weight;
        for (size_t i = 0; i < dim; ++i) out[i] += weight * seen[key + i];
    }
    for (double &value : out) value /= sum;
    return out;
}

void Decoder::normalize_heads(Row &row, const Floats &norm) const {
    if (shape_.head_norms == HeadNorms::none) return;
    const size_t together = static_cast<size_t>(norm.size());
    for (size_t first = 0; first < row.size(); first += together) normalize(&row[first], together, norm.data());
}

void Decoder::rotate(Row &row, const float *rotations, size_t position) const {
    const size_t dim = static_cast<size_t>(shape_.head_dim), turned = static_cast<size_t>(rotary(shape_));
    if (!rotations) return;
    const float *turns = rotations + position * turned;
    for (size_t i = 0; i < row.size(); i += 2) {
        if (i % dim >= turned) continue;
        const double a = row[i], b = row[i + 1], c = turns[i % dim], s = turns[i % dim + 1];
        row[i] = a * c - b * s;
        row[i + 1] = a * s + b * c;
    }
}

}  // namespace test
