// What every instruction set provides. One table per set; dispatch.cpp chooses.
#pragma once

#include "cache.h"

namespace dk {

constexpr int kMaxRows = 8;      // rows of one pass over a tile
constexpr int kBlockRows = 128;  // rows of a block of the prefill products
constexpr int kKeyChunk = 256;   // cached positions that one attention task reads
constexpr int kKeyBlock = kBlockTokens;  // positions that lie side by side wherever a cache is cut

// Rows of activations as the products read them: int8 in groups of 32 with a float scale, and the floats
// themselves for dense matrices. Strides are in elements: `cols`, or `groups` = cols / 32.
struct Activations {
    float *x;        // [rows][cols]
    int8_t *q;       // [rows][cols]
    float *scale;    // [rows][groups]
    float *sum;      // [rows][groups]: scale · Σ q of the group
    int32_t *half;   // [rows][2 · groups]: Σ q of each 16 columns
    int32_t *offset; // [rows][groups]: −8 Σ q, what values owe for being stored with 8 added
    int64_t cols;

    static int64_t bytes(int64_t rows, int64_t cols);
    static Activations at(uint8_t *memory, int64_t rows, int64_t cols);
};

// A group of one activation row as the prefill products read it.
struct RowGroup {
    int8_t q[kGroup];
    float scale;
    float sum;         // scale · Σ q
    int32_t start[2];  // −zero_of(format) · Σ q; with a scale for each half of the group, of each half
};

// Consecutive rows of activations, at most kBlockRows, and the same group by group, to be read in one stream.
struct RowBlock {
    const Activations &a;
    int64_t row, rows;
    const RowGroup *groups;  // [cols / 32][rows]
};

// The keys or the values of one head, from the first token of its plane on.
struct HeadCache {
    const uint8_t *data;
    int32_t format;
    int64_t token_bytes;
};

// Softmax weights times the scales of their values as int8, with a float scale for each kKeyBlock positions.
struct Weighed {
    int8_t *q;        // [num][kKeyChunk]
    float *scale;     // [num][kKeyChunk / kKeyBlock]
    int32_t *offset;  // the same: −8 Σ q

    static constexpr int64_t kBlocks = kKeyChunk / kKeyBlock;
    static Weighed place(class Arena &arena, int64_t queries);
};

// Queries of one key head over a stretch of its cache.
struct Stretch {
    const float *queries;   // [num][head_dim], already scaled
    const int32_t *first;   // [num]: first visible position of each query
    const int32_t *end;     // [num]: position behind the last visible one
    int32_t num;
    int32_t head_dim;
    HeadCache keys, values;
    const int32_t *tokens;  // where every kKeyBlock positions from `begin` on lie: those of the stretch, and
                            // those up to kKeyChunk behind them, as far as there are any
    int32_t begin, stop;    // positions of the stretch; at most kKeyChunk of them
    int32_t total;          // positions there are, for reading ahead
    float cap;              // c: scores become c · tanh(score / c); 0: they stay
    float *const *out;      // [num]: where (values…, m, sum) of each query go, head_dim + 2 floats
    float *weights;         // scratch [num][kKeyChunk]
    float *converted;       // scratch [16][head_dim]
    Activations asked;      // scratch [num][padded head_dim], where keys are in 8 or 4 bits
    Weighed weighed;        // scratch, where values are
};

struct Kernels {
    const char *name;
    bool (*is_supported)();

    // 1 / √(mean of x² + eps) of [cols], a multiple of 16
    float (*inverse_rms)(const float *x, float eps, int64_t cols);
    // out = x · inverse_rms · weight, [cols]; out may be x
    void (*normalize)(const float *x, float inverse_rms, const float *weight, int64_t cols, float *out);
    // Fills q, scale, sum and half of `row` from its floats; for columns [first, first + count).
    void (*quantize)(const Activations &a, int64_t row, int64_t first, int64_t count);
    // out[row][lane] = products of `rows` (1..8) rows from `row` on with the 16 rows of tile `tile`.
    void (*tile[DK_FORMATS])(const dk_matrix &w, int64_t tile, const Activations &a, int64_t row, int rows,
                             float (*out)[kTile]);
    // Quantizes `rows` (1..8) rows of `a` from `row` on for `gemm`, which reads what this writes: into `a`,
    // or into groups[cols / 32][rows], `stride` from one group to the next.
    void (*prepare[DK_FORMATS])(const Activations &a, int64_t row, int rows, RowGroup *groups,
                                int64_t stride);
    // Products for prefill, out[row][w.rows]: those of a block's rows with the tiles tile … tile + tiles − 1.
    void (*gemm[DK_FORMATS])(const dk_matrix &w, int64_t tile, int64_t tiles, const RowBlock &x, float *out);
    // out = activation(gate) · up, [count], by dk_activation
    void (*gate[2])(const float *gate, const float *up, int64_t count, float *out);
    // x = cap · tanh(x / cap), [count]
    void (*soft_cap)(float *x, int64_t count, float cap);
    // Turns the pairs of the first `rotary` numbers of x [dim] by rotations [rotary / 2][2]; scales all; out may
    // be x.
    void (*rotate)(const float *x, const float *rotations, int64_t rotary, int64_t dim, float scale, float *out);
    // Writes floats as a dense cache holds them.
    void (*store)(const float *x, int64_t count, int32_t kv_format, uint8_t *out);
    // A head [dim], a multiple of 16, times the Hadamard matrix of cache.h; out may be x.
    void (*hadamard)(const float *x, int64_t dim, float *out);
    // Rounds a head of one token, zeros up to padded(dim) behind it, to its place in a block of 16 tokens.
    void (*hold)(const CacheKind &cache, const float *x, int64_t token, uint8_t *block);
    // The numbers [padded(dim)] that a token of such a block stands for.
    void (*numbers)(const CacheKind &cache, const uint8_t *block, int64_t token, float *out);
    // For each query: Σ exp(score − m) · value, the largest score m and Σ exp(score − m) over the stretch;
    // m = −inf and the sums 0 where nothing is visible.
    void (*attend)(const Stretch &stretch);
    // Joins `num` results of attend, `stride` floats apart, in order: out[head_dim].
    void (*join)(const float *parts, int32_t num, int64_t stride, int32_t head_dim, float *out);
    // Sum of the 64-bit words of a buffer, a multiple of 256 bytes.
    uint64_t (*read)(const uint8_t *data, int64_t bytes);
    // One row of a held matrix as floats.
    void (*row)(const dk_matrix &w, int64_t row, float *out);
};

extern const Kernels kScalar;
#if defined(__x86_64__) || defined(_M_X64)
extern const Kernels kAvx2;
extern const Kernels kAvx512;
#elif defined(__aarch64__)
extern const Kernels kNeon;
#endif

const Kernels &kernels();

}  // namespace dk
