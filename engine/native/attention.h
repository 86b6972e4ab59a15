// The attention of a step: which tasks it is cut into, what each appends to the caches and where its results lie.
#pragma once

#include "head_store.h"
#include "positions.h"
#include "scratch.h"

namespace dk {

class Attention {
  public:
    // Refers to all of them; `all` is filled later.
    Attention(const dk_model &model, const Kernels &kernels, const dk_segment *segments, int32_t num,
              const StepSize &size, const Shared &all)
        : m_(model), k_(kernels), segments_(segments), num_(num), size_(size), all_(all) {}

    // What a task takes of whole rows.
    void prepare(Private &own, const dk_layer &layer) const {
        for (int64_t r = 0; m_.joint_head_norms && layer.q_norm && r < size_.rows; ++r) {
            own.q_rms[r] = k_.inverse_rms(all_.q + r * query_cols(m_), m_.norm_eps, query_cols(m_));
            own.k_rms[r] = k_.inverse_rms(all_.k + r * key_cols(m_), m_.norm_eps, key_cols(m_));
        }
    }

    int64_t num_tasks(const dk_layer &layer) const {
        int64_t tasks = 0;
        for (int32_t i = 0; i < num_; ++i) tasks += num_tasks_of(i, layer);
        return tasks;
    }

    // Appends the new positions that lie in the task's piece, and attends to all of it that some query sees.
    void run(Private &own, const dk_layer &layer, int64_t number) const {
        const Task task = task_of(number, layer);
        const dk_segment &s = segments_[task.segment];
        const dk_plane &plane = s.planes[layer.plane];
        const Piece &piece = task.piece;
        const HeadStore keys(m_, plane, layer.plane_layer, task.head, true);
        const HeadStore values(m_, plane, layer.plane_layer, task.head, false);
        if (piece.is_ring == (m_.ring_tokens > 0)) {
            const int32_t first = std::max(piece.begin, s.length);
            for (int32_t p = first; p < piece.stop; ++p) append(own, layer, task, p, keys, values);
        }
        for (int32_t r = 0; r < s.rows; ++r) ask(own, layer, task, r, keys.is_rotated());
        const int32_t ahead = std::min(piece.stop + kKeyChunk, piece.total);
        if (piece.is_ring) list_ring(piece.begin, ahead, own.tokens);
        else list_tokens(plane, piece.begin, ahead, own.tokens);
        Activations asked{};
        if (own.asked) asked = Activations::at(own.asked, s.rows * groups(), padded(m_.head_dim));
        k_.attend({own.queries, own.first, own.end, s.rows * groups(), m_.head_dim,
                   piece.is_ring ? keys.ring() : keys.plane(), piece.is_ring ? values.ring() : values.plane(),
                   own.tokens, piece.begin, piece.stop, piece.total, m_.attention_cap, own.out, own.weights,
                   own.converted, asked, own.weighed});
    }

    // The result of a row's head over all pieces, to its place in out [rows][heads · dim].
    void join(const dk_layer &layer, int64_t row, int32_t head, float *out) const {
        const Pieces pieces(m_, segments_[all_.segment[row]], layer.sliding_window);
        float *at = out + row * query_cols(m_) + head * dim();
        k_.join(part(row, head, 0), pieces.num(), size_.rows * m_.heads * part_floats(m_), m_.head_dim, at);
        if (!is_dense(m_.value_format)) k_.hadamard(at, dim(), at);
    }

  private:
    // One key head of one segment over one piece of positions.
    struct Task {
        int32_t segment;
        int64_t row;  // the segment's first
        int32_t head, index;
        Piece piece;
    };

    int64_t dim() const { return m_.head_dim; }
    int32_t groups() const { return m_.heads / m_.kv_heads; }

    int64_t num_tasks_of(int32_t segment, const dk_layer &layer) const {
        return static_cast<int64_t>(Pieces(m_, segments_[segment], layer.sliding_window).num()) * m_.kv_heads;
    }

    // Pieces of one head follow each other: attend reads ahead.
    Task task_of(int64_t number, const dk_layer &layer) const {
        int64_t row = 0;
        int32_t i = 0;
        for (; number >= num_tasks_of(i, layer); row += segments_[i++].rows) number -= num_tasks_of(i, layer);
        const Pieces pieces(m_, segments_[i], layer.sliding_window);
        const auto index = static_cast<int32_t>(number % pieces.num());
        return {i, row, static_cast<int32_t>(number / pieces.num()), index, pieces.at(index)};
    }

    void list_ring(int32_t begin, int32_t end, int32_t *out) const {
        for (int32_t p = begin; p < end; p += kKeyBlock) *out++ = p % m_.ring_tokens;
    }

    void append(Private &own, const dk_layer &layer, const Task &task, int32_t position, const HeadStore &keys,
                const HeadStore &values) const {
        const dk_segment &s = segments_[task.segment];
        const dk_plane &plane = s.planes[layer.plane];
        const int64_t r = task.row + position - s.length, column = r * key_cols(m_) + task.head * dim();
        const int64_t token = token_of(*span_of(plane, position), position);
        turn(own, layer, all_.k + column, layer.k_norm, own.k_rms[r], task.head, position, 1.0f, own.head);
        keys.put_recent(k_, keys.put(k_, own.head, token, own.head), position);
        values.put_recent(k_, values.put(k_, all_.v + column, token, own.head), position);
    }

    // The queries of a row that share the piece's key head.
    void ask(Private &own, const dk_layer &layer, const Task &task, int32_t row, bool is_rotated) const {
        const dk_segment &s = segments_[task.segment];
        const int32_t position = s.length + row, recent = first_recent(m_, s, position);
        const int32_t seen = first_seen(position, layer.sliding_window);
        const int64_t r = task.row + row;
        for (int32_t g = 0; g < groups(); ++g) {
            const int64_t n = static_cast<int64_t>(row) * groups() + g, head = task.head * groups() + g;
            float *query = own.queries + n * dim();
            turn(own, layer, all_.q + r * query_cols(m_) + head * dim(), layer.q_norm, own.q_rms[r], head, position,
                 m_.attention_scale, query);
            if (is_rotated) k_.hadamard(query, dim(), query);
            own.first[n] = task.piece.is_ring ? std::max(seen, recent) : seen;
            own.end[n] = task.piece.is_ring ? position + 1 : recent;
            own.out[n] = part(r, head, task.index);
        }
    }

    // A head of queries or keys as attention takes it: normalized, rotated, scaled. `rms` is that of all heads.
    void turn(Private &own, const dk_layer &layer, const float *x, const float *norm, float rms, int64_t head,
              int32_t position, float scale, float *out) const {
        if (norm) {
            const bool is_joint = m_.joint_head_norms;
            k_.normalize(x, is_joint ? rms : k_.inverse_rms(x, m_.norm_eps, dim()),
                         is_joint ? norm + head * dim() : norm, dim(), own.head);
            x = own.head;
        }
        const int64_t rotary = layer.rotations ? m_.rotary_dim : 0;
        k_.rotate(x, layer.rotations + position * rotary, rotary, dim(), scale, out);
    }

    float *part(int64_t row, int64_t head, int64_t piece) const {
        return all_.parts + ((piece * size_.rows + row) * m_.heads + head) * part_floats(m_);
    }

    const dk_model &m_;
    const Kernels &k_;
    const dk_segment *segments_;
    const int32_t num_;
    const StepSize &size_;
    const Shared &all_;
};

}  // namespace dk
