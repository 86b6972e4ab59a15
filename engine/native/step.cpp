// One forward pass of a decoder over few rows: what each phase computes, and which tasks it is cut into.
// The phases of a layer: q, k, v · attention · output · gate and up · down. Between two of them all threads meet.
// What needs whole rows (a norm) is done by every thread for itself before its tasks of the next phase.
#include <algorithm>
#include <cstring>

#include "attention.h"
#include "kernels.h"
#include "scratch.h"
#include "team.h"

namespace dk {
namespace {

constexpr int64_t kTaskBytes = 16 << 10;  // a task reads at least this much, so that taking one costs nothing

// The residual stream as a thread sees it; it is the same for all of them.
struct Stream {
    float *x;                     // [rows][hidden]
    float *next;                  // where it goes on when what waits has been added
    const float *norm = nullptr;  // of what waits to be added, Shared::part; null: nothing waits
};

// A thread, its own memory, and the input of the product it is at.
struct Hand {
    Worker &worker;
    Private own;
    Activations a;
};

// Consecutive tiles of one product, about kTaskBytes of them.
int64_t tiles_per_task(const dk_matrix &w) {
    const int64_t bytes = is_dense(w.format) ? kTile * w.cols * element_bytes(w.format) : tile_bytes(w.format, w.cols);
    return std::max<int64_t>(1, kTaskBytes / bytes);
}

int64_t num_tasks(const dk_matrix &w) {
    const int64_t per_task = tiles_per_task(w);
    return (num_tiles(w.rows) + per_task - 1) / per_task;
}

class Step {
  public:
    Step(const dk_model &model, const dk_segment *segments, int32_t num, int threads, uint8_t *scratch)
        : m_(model), k_(kernels()), segments_(segments), num_(num), size_(StepSize::of(model, segments, num)),
          attention_(m_, k_, segments_, num_, size_, all_) {
        Arena counted(nullptr), arena(scratch);
        Private::place(counted, m_, size_);
        own_bytes_ = counted.used();
        all_ = Shared::place(arena, m_, size_);
        own_ = arena.take(team_size(threads) * own_bytes_);
        bytes_ = arena.used();
    }

    int64_t scratch_bytes() const { return bytes_; }

    void run(const int32_t *ids, float *logits, int threads) {
        int64_t row = 0;
        for (int32_t i = 0; i < num_; ++i) {
            for (int32_t r = 0; r < segments_[i].rows; ++r) all_.segment[row++] = i;
        }
        in_parallel(threads, [&](Worker &worker) { forward(worker, ids, logits); });
    }

  private:
    int64_t rows() const { return size_.rows; }

    void forward(Worker &worker, const int32_t *ids, float *logits) {
        Arena arena(own_ + worker.id() * own_bytes_);
        Hand hand{worker, Private::place(arena, m_, size_), {}};
        Stream stream{all_.residual[0], all_.residual[1]};
        worker.phase(rows(), [&](int64_t r) { embed(ids[r], stream.x + r * m_.hidden); });
        for (int32_t i = 0; i < m_.layers; ++i) {
            const dk_layer &layer = m_.layer[i];
            project(hand, layer, stream);
            attention(hand, layer);
            output(hand, layer, stream);
            gate_and_up(hand, layer, stream);
            down(hand, layer, stream);
        }
        head(hand, stream, logits);
    }

    void embed(int32_t id, float *x) {
        k_.row(m_.embedding, id, x);
        for (int64_t i = 0; i < m_.hidden; ++i) x[i] *= m_.embedding_scale;
    }

    // ---- products ----

    // Tiles of one task of a product with `rows` rows of `a`; store(row, column, lanes, products) takes them.
    template <class Store>
    void multiply(const dk_matrix &w, const float *bias, int64_t task, const Activations &a, int64_t rows,
                  Store &&store) {
        const int64_t per_task = tiles_per_task(w), last = std::min(num_tiles(w.rows), (task + 1) * per_task);
        for (int64_t tile = task * per_task; tile < last; ++tile) {
            const int64_t column = tile * kTile, lanes = std::min(kTile, w.rows - column);
            for (int64_t r = 0; r < rows; r += kMaxRows) {
                alignas(64) float out[kMaxRows][kTile];
                const int count = static_cast<int>(std::min<int64_t>(kMaxRows, rows - r));
                k_.tile[w.format](w, tile, a, r, count, out);
                for (int n = 0; n < count; ++n) {
                    if (bias) add(bias + column, 1.0f, lanes, out[n]);
                    store(r + n, column, lanes, out[n]);
                }
            }
        }
    }

    static void add(const float *__restrict x, float scale, int64_t count, float *__restrict out) {
        for (int64_t i = 0; i < count; ++i) out[i] += scale * x[i];
    }

    // A row of the stream, with what waits added; in `x` where it is not as it lies in memory.
    const float *settled(const Stream &stream, int64_t r, float *x) const {
        const float *held = stream.x + r * m_.hidden;
        if (!stream.norm) return held;
        const float *part = all_.part + r * m_.hidden;
        k_.normalize(part, k_.inverse_rms(part, m_.norm_eps, m_.hidden), stream.norm, m_.hidden, x);
        for (int64_t i = 0; i < m_.hidden; ++i) x[i] = held[i] + m_.residual_scale * x[i];
        return x;
    }

    // Row `r` of the stream as row `to` of a product's input.
    void enter(Hand &hand, const Stream &stream, int64_t r, int64_t to, const float *norm) {
        float *x = hand.a.x + to * m_.hidden;
        const float *row = settled(stream, r, x);
        if (stream.norm && hand.worker.id() == 0) std::memcpy(stream.next + r * m_.hidden, row, row_bytes());
        if (norm) {
            k_.normalize(row, k_.inverse_rms(row, m_.norm_eps, m_.hidden), norm, m_.hidden, x);
        } else if (row != x) {
            std::memcpy(x, row, row_bytes());
        }
        k_.quantize(hand.a, to, 0, m_.hidden);
    }

    size_t row_bytes() const { return static_cast<size_t>(m_.hidden) * sizeof(float); }

    // All rows of the stream as the input of a product. Nothing waits any more.
    void enter_all(Hand &hand, Stream &stream, const float *norm) {
        hand.a = Activations::at(hand.own.input, rows(), m_.hidden);
        for (int64_t r = 0; r < rows(); ++r) enter(hand, stream, r, r, norm);
        if (stream.norm) std::swap(stream.x, stream.next);
        stream.norm = nullptr;
    }

    // The product that a part ends with: added to the stream, or left to wait where it has a norm.
    template <class Prepare>
    void leave(Hand &hand, Stream &stream, const dk_matrix &w, const float *bias, const float *norm,
               const Activations &a, Prepare &&prepare) {
        float *to = norm ? all_.part : stream.x;
        hand.worker.phase(num_tasks(w), prepare, [&](int64_t task) {
            multiply(w, bias, task, a, rows(), [&](int64_t r, int64_t column, int64_t lanes, const float *out) {
                float *at = to + r * m_.hidden + column;
                if (!norm) return add(out, m_.residual_scale, lanes, at);
                std::copy(out, out + lanes, at);
            });
        });
        stream.norm = norm;
    }

    // ---- attention ----

    void project(Hand &hand, const dk_layer &layer, Stream &stream) {
        const int64_t q = num_tasks(layer.q), k = num_tasks(layer.k), v = num_tasks(layer.v);
        const auto product = [&](const dk_matrix &w, int64_t first, int64_t task, float *to) {
            const float *bias = layer.qkv_bias ? layer.qkv_bias + first : nullptr;
            multiply(w, bias, task, hand.a, rows(), [&](int64_t r, int64_t column, int64_t lanes, const float *out) {
                std::copy(out, out + lanes, to + r * w.rows + column);
            });
        };
        hand.worker.phase(
            q + k + v, [&] { enter_all(hand, stream, layer.attention_norm); },
            [&](int64_t task) {
                if (task < q) return product(layer.q, 0, task, all_.q);
                if (task < q + k) return product(layer.k, query_cols(m_), task - q, all_.k);
                product(layer.v, query_cols(m_) + key_cols(m_), task - q - k, all_.v);
            });
    }

    void attention(Hand &hand, const dk_layer &layer) {
        hand.worker.phase(attention_.num_tasks(layer), [&] { attention_.prepare(hand.own, layer); },
                          [&](int64_t task) { attention_.run(hand.own, layer, task); });
    }

    // Joins the pieces of every head, where that is much work by all threads, and multiplies.
    void output(Hand &hand, const dk_layer &layer, Stream &stream) {
        const bool is_much = rows() * size_.pieces > kMaxRows;
        if (is_much) {
            hand.worker.phase(rows() * m_.heads, [&](int64_t task) {
                attention_.join(layer, task / m_.heads, static_cast<int32_t>(task % m_.heads), all_.joined);
            });
        }
        auto prepare = [&] {
            Activations &a = hand.a = Activations::at(hand.own.input, rows(), query_cols(m_));
            const size_t bytes = static_cast<size_t>(rows() * query_cols(m_)) * sizeof(float);
            if (is_much) std::memcpy(a.x, all_.joined, bytes);
            for (int64_t r = 0; r < rows(); ++r) {
                for (int32_t h = 0; !is_much && h < m_.heads; ++h) attention_.join(layer, r, h, a.x);
                k_.quantize(a, r, 0, query_cols(m_));
            }
        };
        leave(hand, stream, layer.o, layer.output_bias, layer.post_attention_norm, hand.a, prepare);
    }

    // ---- feed-forward ----

    // A task is 32 columns of the gated activation, so that it can quantize its group itself.
    void gate_and_up(Hand &hand, const dk_layer &layer, Stream &stream) {
        const Activations h = Activations::at(all_.gated, rows(), m_.intermediate);
        hand.worker.phase(
            num_groups(m_.intermediate), [&] { enter_all(hand, stream, layer.mlp_norm); },
            [&](int64_t group) {
                for (int64_t r = 0; r < rows(); r += kMaxRows) {
                    const int count = static_cast<int>(std::min<int64_t>(kMaxRows, rows() - r));
                    for (int64_t tile = 2 * group; tile < 2 * group + 2; ++tile) {
                        gate(layer, hand.a, tile, r, count, h.x + r * h.cols + tile * kTile);
                    }
                    for (int n = 0; n < count; ++n) k_.quantize(h, r + n, group * kGroup, kGroup);
                }
            });
    }

    // One tile of the gated activation of some rows.
    void gate(const dk_layer &layer, const Activations &a, int64_t tile, int64_t r, int count, float *out) {
        alignas(64) float gate[kMaxRows][kTile], up[kMaxRows][kTile];
        k_.tile[layer.gate.format](layer.gate, tile, a, r, count, gate);
        k_.tile[layer.up.format](layer.up, tile, a, r, count, up);
        const float *bias = layer.gate_up_bias ? layer.gate_up_bias + tile * kTile : nullptr;
        for (int n = 0; n < count; ++n) {
            if (bias) add(bias, 1.0f, kTile, gate[n]), add(bias + m_.intermediate, 1.0f, kTile, up[n]);
            k_.gate[m_.activation](gate[n], up[n], kTile, out + n * m_.intermediate);
        }
    }

    void down(Hand &hand, const dk_layer &layer, Stream &stream) {
        const Activations h = Activations::at(all_.gated, rows(), m_.intermediate);
        leave(hand, stream, layer.down, layer.down_bias, layer.post_mlp_norm, h, [] {});
    }

    // ---- logits ----

    // Of the rows that are wanted, the last ones of each segment.
    void head(Hand &hand, const Stream &stream, float *logits) {
        const auto is_wanted = [](const dk_segment &segment) { return segment.wanted > 0; };
        if (std::none_of(segments_, segments_ + num_, is_wanted)) return;
        int64_t wanted = 0;
        auto prepare = [&] {
            hand.a = Activations::at(hand.own.input, rows(), m_.hidden);
            int64_t first = 0;
            for (int32_t i = 0; i < num_; first += segments_[i++].rows) {
                const int64_t end = first + segments_[i].rows;
                for (int64_t r = end - segments_[i].wanted; r < end; ++r) {
                    enter(hand, stream, r, wanted++, m_.output_norm);
                }
            }
        };
        hand.worker.phase(num_tasks(m_.head), prepare, [&](int64_t task) {
            multiply(m_.head, nullptr, task, hand.a, wanted, [&](int64_t r, int64_t column, int64_t lanes, float *out) {
                if (m_.logit_divisor != 1.0f) divide(out);
                if (m_.logit_cap != 0.0f) k_.soft_cap(out, kTile, m_.logit_cap);
                std::copy(out, out + lanes, logits + r * m_.head.rows + column);
            });
        });
    }

    void divide(float *out) const {
        for (int64_t i = 0; i < kTile; ++i) out[i] /= m_.logit_divisor;
    }

    const dk_model &m_;
    const Kernels &k_;
    const dk_segment *segments_;
    const int32_t num_;
    const StepSize size_;
    Attention attention_;
    int64_t own_bytes_, bytes_;
    Shared all_;
    uint8_t *own_;
};

}  // namespace
}  // namespace dk

int64_t dk_step_scratch(const dk_model *model, const dk_segment *segments, int32_t num_segments,
                        int32_t threads) {
    return dk::Step(*model, segments, num_segments, threads, nullptr).scratch_bytes();
}

void dk_step(const dk_model *model, const dk_segment *segments, int32_t num_segments, const int32_t *ids,
             float *logits, int32_t threads, uint8_t *scratch) {
    dk::Step(*model, segments, num_segments, threads, scratch).run(ids, logits, threads);
}
