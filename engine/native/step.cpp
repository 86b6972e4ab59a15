// One forward pass of a decoder over few rows: what each phase computes, and which tasks it is cut into.
// The phases of a layer: q, k, v · attention · output · gate and up · down. Between two of them all threads meet.
#include <algorithm>
#include <cstring>

#include "kernels.h"
#include "team.h"

namespace dk {

int64_t Activations::bytes(int64_t rows, int64_t cols) {
    const int64_t groups = cols / kGroup;
    return rows * (cols * 5 + groups * 20) + 6 * 64;
}

Activations Activations::at(uint8_t *memory, int64_t rows, int64_t cols) {
    const int64_t groups = cols / kGroup;
    auto place = [&memory](int64_t bytes) {
        uint8_t *here = memory;
        memory += (bytes + 63) / 64 * 64;
        return here;
    };
    Activations a;
    a.cols = cols;
    a.x = reinterpret_cast<float *>(place(rows * cols * 4));
    a.q = reinterpret_cast<int8_t *>(place(rows * cols));
    a.scale = reinterpret_cast<float *>(place(rows * groups * 4));
    a.sum = reinterpret_cast<float *>(place(rows * groups * 4));
    a.half = reinterpret_cast<int32_t *>(place(rows * groups * 8));
    a.offset = reinterpret_cast<int32_t *>(place(rows * groups * 4));
    return a;
}

namespace {

constexpr int64_t kTaskBytes = 16 << 10;  // a task reads at least this much, so that taking one costs nothing

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
    bool is_real() const { return memory_; }
    int64_t used() const { return used_; }

  private:
    uint8_t *memory_;
    int64_t used_ = 0;
};

// What one thread writes to and nobody else reads.
struct Private {
    uint8_t *memory;      // of `a`
    Activations a;        // input of a product: hidden or heads · dim wide
    float *wanted;        // [rows][hidden]
    float *queries;       // [rows · groups][dim]
    int32_t *first, *end; // [rows · groups]
    float **out;          // [rows · groups]
    float *weights;       // [rows · groups][kKeyChunk]
    float *converted;     // [16][dim]
    float *key;           // [dim]
};

struct Product {
    const dk_matrix *matrix;
    float *out;
    int64_t stride;
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
        : m_(model), k_(kernels()), segments_(segments), num_(num), arena_(scratch) {
        for (int32_t i = 0; i < num; ++i) {
            rows_ += segments[i].rows;
            wanted_ += segments[i].wants_all ? segments[i].rows : 1;
            widest_ = std::max<int64_t>(widest_, segments[i].rows);
            chunks_ = std::max(chunks_, chunks(segments[i]));
        }
        place(threads);
    }

    int64_t scratch_bytes() const { return arena_.used(); }

    void run(const int32_t *ids, float *logits, int threads) {
        in_parallel(threads, [&](Worker &worker) { forward(worker, ids, logits); });
    }

  private:
    int64_t dim() const { return m_.head_dim; }
    int64_t query_cols() const { return static_cast<int64_t>(m_.heads) * m_.head_dim; }
    int64_t key_cols() const { return static_cast<int64_t>(m_.kv_heads) * m_.head_dim; }
    int32_t groups() const { return m_.heads / m_.kv_heads; }
    int64_t part_stride() const { return dim() + 2; }
    static int32_t chunks(const dk_segment &s) { return (s.length + s.rows + kKeyChunk - 1) / kKeyChunk; }

    void place(int threads) {
        x_ = arena_.floats(rows_ * m_.hidden);
        q_ = arena_.floats(rows_ * query_cols());
        k_rows_ = arena_.floats(rows_ * key_cols());
        v_rows_ = arena_.floats(rows_ * key_cols());
        joined_ = arena_.floats(rows_ * query_cols());
        parts_ = arena_.floats(rows_ * m_.heads * chunks_ * part_stride());
        h_memory_ = arena_.take(Activations::bytes(rows_, m_.intermediate));
        const int64_t queries = widest_ * groups(), widest = std::max<int64_t>(m_.hidden, query_cols());
        const int team = team_size(threads);
        private_ = reinterpret_cast<Private *>(arena_.take(team * static_cast<int64_t>(sizeof(Private))));
        chunks_of_ = reinterpret_cast<int32_t *>(arena_.take(rows_ * 4));
        for (int i = 0; i < team; ++i) {
            Private own;
            own.memory = arena_.take(Activations::bytes(rows_, widest));
            own.wanted = arena_.floats(wanted_ * m_.hidden);
            own.queries = arena_.floats(queries * dim());
            own.first = reinterpret_cast<int32_t *>(arena_.take(queries * 4));
            own.end = reinterpret_cast<int32_t *>(arena_.take(queries * 4));
            own.out = reinterpret_cast<float **>(arena_.take(queries * static_cast<int64_t>(sizeof(float *))));
            own.weights = arena_.floats(queries * kKeyChunk);
            own.converted = arena_.floats(16 * dim());
            own.key = arena_.floats(dim());
            if (arena_.is_real()) private_[i] = own;
        }
        if (arena_.is_real()) count_chunks();
    }

    void count_chunks() {
        int64_t row = 0;
        for (int32_t i = 0; i < num_; ++i) {
            for (int32_t r = 0; r < segments_[i].rows; ++r) chunks_of_[row++] = chunks(segments_[i]);
        }
    }

    void forward(Worker &worker, const int32_t *ids, float *logits) {
        worker.phase(rows_, [&](int64_t r) { k_.row(m_.embedding, ids[r], x_ + r * m_.hidden); });
        for (int32_t i = 0; i < m_.layers; ++i) {
            const dk_layer &layer = m_.layer[i];
            project(worker, layer);
            attention(worker, i);
            output(worker, layer);
            gate_and_up(worker, layer);
            down(worker, layer);
        }
        head(worker, logits);
    }

    void normalize(Worker &worker, const float *x, int64_t rows, const float *weight) {
        Activations &a = private_[worker.id()].a;
        a = Activations::at(private_[worker.id()].memory, rows, m_.hidden);
        for (int64_t r = 0; r < rows; ++r) {
            k_.rms_norm(x + r * m_.hidden, weight, m_.norm_eps, m_.hidden, a.x + r * m_.hidden);
            k_.quantize(a, r, 0, m_.hidden);
        }
    }

    // Tiles of one task of a product; `add` adds to what is there.
    void multiply(const Product &p, int64_t task, const Activations &a, int64_t rows, bool add) {
        const dk_matrix &w = *p.matrix;
        const int64_t per_task = tiles_per_task(w), last = std::min(num_tiles(w.rows), (task + 1) * per_task);
        for (int64_t tile = task * per_task; tile < last; ++tile) {
            const int64_t lanes = std::min(kTile, w.rows - tile * kTile);
            for (int64_t r = 0; r < rows; r += kMaxRows) {
                alignas(64) float out[kMaxRows][kTile];
                const int count = static_cast<int>(std::min<int64_t>(kMaxRows, rows - r));
                k_.tile[w.format](w, tile, a, r, count, out);
                for (int n = 0; n < count; ++n) {
                    float *to = p.out + (r + n) * p.stride + tile * kTile;
                    for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = add ? to[lane] + out[n][lane] : out[n][lane];
                }
            }
        }
    }

    void project(Worker &worker, const dk_layer &layer) {
        const Product products[] = {
            {&layer.q, q_, query_cols()}, {&layer.k, k_rows_, key_cols()}, {&layer.v, v_rows_, key_cols()}};
        const int64_t q = num_tasks(layer.q), k = num_tasks(layer.k), v = num_tasks(layer.v);
        worker.phase(
            q + k + v, [&] { normalize(worker, x_, rows_, layer.attention_norm); },
            [&](int64_t task) {
                const Activations &a = private_[worker.id()].a;
                if (task < q) return multiply(products[0], task, a, rows_, false);
                if (task < q + k) return multiply(products[1], task - q, a, rows_, false);
                multiply(products[2], task - q - k, a, rows_, false);
            });
    }

    void attention(Worker &worker, int32_t layer) {
        int64_t tasks = 0;
        for (int32_t i = 0; i < num_; ++i) tasks += static_cast<int64_t>(chunks(segments_[i])) * m_.kv_heads;
        worker.phase(tasks, [&](int64_t task) {
            int64_t row = 0;
            for (int32_t i = 0; i < num_; ++i) {
                const int64_t here = static_cast<int64_t>(chunks(segments_[i])) * m_.kv_heads;
                if (task < here) {  // chunks of one head follow each other: attend reads ahead
                    const int32_t head = static_cast<int32_t>(task / chunks(segments_[i]));
                    const int32_t chunk = static_cast<int32_t>(task % chunks(segments_[i]));
                    return attend(private_[worker.id()], segments_[i], row, layer, head, chunk);
                }
                task -= here;
                row += segments_[i].rows;
            }
        });
    }

    // One key head of one segment over one chunk of its positions; appends the new ones that lie in it.
    void attend(Private &own, const dk_segment &s, int64_t row, int32_t layer, int32_t head, int32_t chunk) {
        const int32_t begin = chunk * kKeyChunk, stop = std::min(begin + kKeyChunk, s.length + s.rows);
        uint8_t *keys = s.keys + layer * s.layer_stride + head * s.head_stride;
        uint8_t *values = s.values + layer * s.layer_stride + head * s.head_stride;
        for (int32_t at = std::max(begin, s.length); at < stop; ++at) {
            const int64_t r = row + at - s.length, entry = dim() * element_bytes(m_.kv_format);
            k_.rotate(k_rows_ + r * key_cols() + head * dim(), m_.rotations + at * dim(), dim(), 1.0f, own.key);
            k_.store(own.key, dim(), m_.kv_format, keys + at * entry);
            k_.store(v_rows_ + r * key_cols() + head * dim(), dim(), m_.kv_format, values + at * entry);
        }
        for (int32_t r = 0; r < s.rows; ++r) {
            const int32_t position = s.length + r;
            for (int32_t g = 0; g < groups(); ++g) {
                const int64_t n = static_cast<int64_t>(r) * groups() + g;
                k_.rotate(q_ + (row + r) * query_cols() + (head * groups() + g) * dim(),
                          m_.rotations + position * dim(), dim(), m_.attention_scale, own.queries + n * dim());
                own.first[n] = m_.sliding_window ? std::max(0, position + 1 - m_.sliding_window) : 0;
                own.end[n] = position + 1;
                own.out[n] = part(row + r, static_cast<int64_t>(head) * groups() + g, chunk);
            }
        }
        const Stretch stretch{own.queries, own.first, own.end,         s.rows * groups(), m_.head_dim,
                              keys,        values,    m_.kv_format,    begin,             stop,
                              s.length + s.rows,      own.out,         own.weights,       own.converted};
        k_.attend(stretch);
    }

    // Joins the chunks of every head, where that is much work by all threads, and adds the projection.
    void output(Worker &worker, const dk_layer &layer) {
        const bool is_much = rows_ * chunks_ > kMaxRows;
        if (is_much) {
            worker.phase(rows_ * m_.heads, [&](int64_t task) {
                join(task / m_.heads, static_cast<int32_t>(task % m_.heads), joined_);
            });
        }
        auto prepare = [&] {
            Activations &a = private_[worker.id()].a;
            a = Activations::at(private_[worker.id()].memory, rows_, query_cols());
            if (is_much) std::memcpy(a.x, joined_, static_cast<size_t>(rows_ * query_cols()) * sizeof(float));
            for (int64_t r = 0; r < rows_; ++r) {
                for (int32_t h = 0; !is_much && h < m_.heads; ++h) join(r, h, a.x);
                k_.quantize(a, r, 0, query_cols());
            }
        };
        worker.phase(num_tasks(layer.o), prepare, [&](int64_t task) {
            multiply({&layer.o, x_, m_.hidden}, task, private_[worker.id()].a, rows_, true);
        });
    }

    void join(int64_t row, int32_t head, float *out) {
        k_.join(part(row, head, 0), chunks_of_[row], rows_ * m_.heads * part_stride(), m_.head_dim,
                out + row * query_cols() + head * dim());
    }

    float *part(int64_t row, int64_t head, int64_t chunk) {
        return parts_ + ((chunk * rows_ + row) * m_.heads + head) * part_stride();
    }

    // A task is 32 columns of the gated activation, so that it can quantize its group itself.
    void gate_and_up(Worker &worker, const dk_layer &layer) {
        const Activations h = Activations::at(h_memory_, rows_, m_.intermediate);
        worker.phase(
            num_groups(m_.intermediate), [&] { normalize(worker, x_, rows_, layer.mlp_norm); },
            [&](int64_t group) {
                const Activations &a = private_[worker.id()].a;
                for (int64_t r = 0; r < rows_; r += kMaxRows) {
                    const int count = static_cast<int>(std::min<int64_t>(kMaxRows, rows_ - r));
                    for (int64_t tile = 2 * group; tile < 2 * group + 2; ++tile) {
                        alignas(64) float gate[kMaxRows][kTile], up[kMaxRows][kTile];
                        k_.tile[layer.gate.format](layer.gate, tile, a, r, count, gate);
                        k_.tile[layer.up.format](layer.up, tile, a, r, count, up);
                        for (int n = 0; n < count; ++n) {
                            k_.silu_mul(gate[n], up[n], kTile, h.x + (r + n) * h.cols + tile * kTile);
                        }
                    }
                    for (int n = 0; n < count; ++n) k_.quantize(h, r + n, group * kGroup, kGroup);
                }
            });
    }

    void down(Worker &worker, const dk_layer &layer) {
        const Activations h = Activations::at(h_memory_, rows_, m_.intermediate);
        worker.phase(num_tasks(layer.down), [&](int64_t task) {
            multiply({&layer.down, x_, m_.hidden}, task, h, rows_, true);
        });
    }

    // Logits of the rows that are wanted: all of a segment, or its last one.
    void head(Worker &worker, float *logits) {
        auto prepare = [&] {
            float *wanted = private_[worker.id()].wanted;
            int64_t row = 0, to = 0;
            for (int32_t i = 0; i < num_; ++i) {
                const int64_t last = row + segments_[i].rows;
                for (int64_t r = segments_[i].wants_all ? row : last - 1; r < last; ++r, ++to) {
                    std::memcpy(wanted + to * m_.hidden, x_ + r * m_.hidden, sizeof(float) * m_.hidden);
                }
                row = last;
            }
            normalize(worker, wanted, wanted_, m_.output_norm);
        };
        worker.phase(num_tasks(m_.head), prepare, [&](int64_t task) {
            multiply({&m_.head, logits, m_.head.rows}, task, private_[worker.id()].a, wanted_, false);
        });
    }

    const dk_model &m_;
    const Kernels &k_;
    const dk_segment *segments_;
    const int32_t num_;
    Arena arena_;
    int64_t rows_ = 0, wanted_ = 0, widest_ = 0;
    int32_t chunks_ = 0;
    float *x_, *q_, *k_rows_, *v_rows_, *joined_, *parts_;
    int32_t *chunks_of_;
    uint8_t *h_memory_;
    Private *private_;
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
