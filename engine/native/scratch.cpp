#include "scratch.h"

#include <algorithm>

#include "positions.h"

namespace dk {

int64_t Activations::bytes(int64_t rows, int64_t cols) {
    const int64_t groups = cols / kGroup;
    return rows * (cols * 5 + groups * 20) + 6 * 64;
}

Activations Activations::at(uint8_t *memory, int64_t rows, int64_t cols) {
    const int64_t groups = cols / kGroup;
    Arena arena(memory);
    Activations a;
    a.cols = cols;
    a.x = arena.floats(rows * cols);
    a.q = reinterpret_cast<int8_t *>(arena.take(rows * cols));
    a.scale = arena.floats(rows * groups);
    a.sum = arena.floats(rows * groups);
    a.half = arena.ints(rows * groups * 2);
    a.offset = arena.ints(rows * groups);
    return a;
}

Weighed Weighed::place(Arena &arena, int64_t queries) {
    Weighed w;
    w.q = reinterpret_cast<int8_t *>(arena.take(queries * kKeyChunk));
    w.scale = arena.floats(queries * kBlocks);
    w.offset = arena.ints(queries * kBlocks);
    return w;
}

StepSize StepSize::of(const dk_model &model, const dk_segment *segments, int32_t num) {
    StepSize size;
    for (int32_t i = 0; i < num; ++i) {
        size.rows += segments[i].rows;
        size.widest = std::max<int64_t>(size.widest, segments[i].rows);
        size.pieces = std::max(size.pieces, most_pieces(model, segments[i]));
    }
    return size;
}

Shared Shared::place(Arena &arena, const dk_model &m, const StepSize &size) {
    Shared s;
    for (float *&residual : s.residual) residual = arena.floats(size.rows * m.hidden);
    s.part = arena.floats(size.rows * m.hidden);
    s.q = arena.floats(size.rows * query_cols(m));
    s.k = arena.floats(size.rows * key_cols(m));
    s.v = arena.floats(size.rows * key_cols(m));
    s.joined = arena.floats(size.rows * query_cols(m));
    s.parts = arena.floats(size.pieces * size.rows * m.heads * part_floats(m));
    s.gated = arena.take(Activations::bytes(size.rows, m.intermediate));
    s.segment = arena.ints(size.rows);
    return s;
}

Private Private::place(Arena &arena, const dk_model &m, const StepSize &size) {
    const int64_t queries = size.widest * (m.heads / m.kv_heads);
    Private p;
    p.input = arena.take(Activations::bytes(size.rows, std::max<int64_t>(m.hidden, query_cols(m))));
    p.queries = arena.floats(queries * m.head_dim);
    p.first = arena.ints(queries);
    p.end = arena.ints(queries);
    p.out = reinterpret_cast<float **>(arena.take(queries * 8));  // a pointer's bytes, wherever it is compiled
    p.weights = arena.floats(queries * kKeyChunk);
    p.converted = arena.floats(kKeyBlock * static_cast<int64_t>(m.head_dim));
    p.head = arena.floats(padded(m.head_dim));
    p.q_rms = arena.floats(size.rows);
    p.k_rms = arena.floats(size.rows);
    p.tokens = arena.ints(2 * kKeyChunk / kKeyBlock);
    if (!is_dense(m.key_format)) p.asked = arena.take(Activations::bytes(queries, padded(m.head_dim)));
    if (!is_dense(m.value_format)) p.weighed = Weighed::place(arena, queries);
    return p;
}

}  // namespace dk
