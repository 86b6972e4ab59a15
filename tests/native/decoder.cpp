#include "decoder.h"

#include <algorithm>

namespace test {
namespace {

constexpr float kEps = 1e-5f;

using Row = std::vector<double>;

Held matrix(const Shape &shape, int64_t rows, int64_t cols, Random &random) {
    return hold(shape.format, rows, cols, Values::ordinary, random);
}

Floats norm(int64_t cols, Random &random) {
    Floats weight(cols);
    for (float &w : weight) w = static_cast<float>(1 + 0.2 * random.normal());
    return weight;
}

// [context][head_dim / 2][2]: cosine and sine of every position and pair.
Floats rotations(const Shape &s) {
    Floats turns(static_cast<int64_t>(s.context) * s.head_dim);
    for (int32_t at = 0; at < s.context; ++at) {
        for (int32_t pair = 0; pair < s.head_dim / 2; ++pair) {
            const double angle = at * std::pow(10000.0, -2.0 * pair / s.head_dim);
            turns[at * s.head_dim + 2 * pair] = static_cast<float>(std::cos(angle));
            turns[at * s.head_dim + 2 * pair + 1] = static_cast<float>(std::sin(angle));
        }
    }
    return turns;
}

Row normalized(const Row &x, const Floats &weight) {
    double squares = 0;
    for (double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + kEps);
    Row out;
    for (size_t i = 0; i < x.size(); ++i) out.push_back(x[i] * scale * weight[static_cast<int64_t>(i)]);
    return out;
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

void add(Row &x, const Row &more) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
}

}  // namespace

Decoder::Decoder(const Shape &s, Random &random)
    : shape_(s),
      embedding_(matrix(s, s.vocab, s.hidden, random)),
      head_(matrix(s, s.vocab, s.hidden, random)),
      output_norm_(norm(s.hidden, random)),
      rotations_(rotations(s)),
      layers_(s.layers) {
    const int64_t query = s.heads * s.head_dim, key = s.kv_heads * s.head_dim;
    for (int32_t i = 0; i < s.layers; ++i) {
        blocks_.push_back({norm(s.hidden, random), norm(s.hidden, random), matrix(s, query, s.hidden, random),
                           matrix(s, key, s.hidden, random), matrix(s, key, s.hidden, random),
                           matrix(s, s.hidden, query, random), matrix(s, s.intermediate, s.hidden, random),
                           matrix(s, s.intermediate, s.hidden, random),
                           matrix(s, s.hidden, s.intermediate, random)});
    }
    for (int32_t i = 0; i < s.layers; ++i) {
        const Block &b = blocks_[static_cast<size_t>(i)];
        layers_[i] = {b.attention_norm.data(),
                      b.mlp_norm.data(),
                      b.q.matrix(),
                      b.k.matrix(),
                      b.v.matrix(),
                      b.o.matrix(),
                      b.gate.matrix(),
                      b.up.matrix(),
                      b.down.matrix()};
    }
    model_ = {s.layers,
              s.hidden,
              s.heads,
              s.kv_heads,
              s.head_dim,
              s.intermediate,
              s.sliding_window,
              s.kv_format,
              kEps,
              static_cast<float>(1 / std::sqrt(s.head_dim)),
              layers_.data(),
              embedding_.matrix(),
              head_.matrix(),
              output_norm_.data(),
              rotations_.data()};
}

Decoder::Rows Decoder::forward(const std::vector<int32_t> &ids, bool rounds_queries) const {
    Rows x;
    for (int32_t id : ids) {
        x.emplace_back();
        for (int64_t c = 0; c < shape_.hidden; ++c) x.back().push_back(embedding_.row(id)[c].value);
    }
    for (const Block &block : blocks_) {
        const Rows attended = attend(block, x, rounds_queries);
        for (size_t at = 0; at < x.size(); ++at) {
            add(x[at], product(block.o, attended[at]));
            const Row h = normalized(x[at], block.mlp_norm);
            Row gate = product(block.gate, h);
            const Row up = product(block.up, h);
            for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
            add(x[at], product(block.down, gate));
        }
    }
    Rows logits;
    for (const Row &row : x) logits.push_back(product(head_, normalized(row, output_norm_)));
    return logits;
}

Decoder::Rows Decoder::attend(const Block &block, const Rows &x, bool rounds_queries) const {
    Rows q, k, v, out;
    const auto round_all = [](Row &row, bool to_16_bits) {
        for (double &value : row) {
            const float held = static_cast<float>(value);
            value = to_16_bits ? from_bf16(to_bf16(held)) : held;
        }
    };
    const bool rounds_cache = shape_.kv_format == DK_BF16;
    for (size_t at = 0; at < x.size(); ++at) {
        const Row h = normalized(x[at], block.attention_norm);
        q.push_back(product(block.q, h)), k.push_back(product(block.k, h)), v.push_back(product(block.v, h));
        rotate(q.back(), at);
        rotate(k.back(), at);
        for (double &value : q.back()) value *= model_.attention_scale;
        round_all(q.back(), rounds_queries);
        round_all(k.back(), rounds_cache);
        round_all(v.back(), rounds_cache);
    }
    for (size_t at = 0; at < x.size(); ++at) {
        out.emplace_back();
        for (int32_t head = 0; head < shape_.heads; ++head) {
            const Row one = attend_head(q, k, v, at, head);
            out.back().insert(out.back().end(), one.begin(), one.end());
        }
    }
    return out;
}

Row Decoder::attend_head(const Rows &q, const Rows &k, const Rows &v, size_t at, int32_t head) const {
    const size_t dim = static_cast<size_t>(shape_.head_dim), query = static_cast<size_t>(head) * dim;
    const size_t key = static_cast<size_t>(head / (shape_.heads / shape_.kv_heads)) * dim;
    const size_t window = static_cast<size_t>(shape_.sliding_window);
    const size_t first = window && at + 1 > window ? at + 1 - window : 0;
    Row scores, out(dim);
    for (size_t p = first; p <= at; ++p) {
        double score = 0;
        for (size_t i = 0; i < dim; ++i) score += q[at][query + i] * k[p][key + i];
        scores.push_back(score);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (size_t p = first; p <= at; ++p) {
        const double weight = std::exp(scores[p - first] - top);
        sum += weight;
        for (size_t i = 0; i < dim; ++i) out[i] += weight * v[p][key + i];
    }
    for (double &value : out) value /= sum;
    return out;
}

void Decoder::rotate(Row &row, size_t position) const {
    const size_t dim = static_cast<size_t>(shape_.head_dim);
    const float *turns = rotations_.data() + position * dim;
    for (size_t i = 0; i < row.size(); i += 2) {
        const double a = row[i], b = row[i + 1], c = turns[i % dim], s = turns[i % dim + 1];
        row[i] = a * c - b * s;
        row[i + 1] = a * s + b * c;
    }
}

}  // namespace test
