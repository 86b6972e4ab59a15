// The C ABI of the native kernels: plain structs and functions, no link to torch or Python.
// engine/native/library.py mirrors these structs; DK_ABI_VERSION must be raised when one of them changes.
#pragma once

#include <cstdint>

#define DK_ABI_VERSION 4

#if defined(_WIN32)
#define DK_EXPORT extern "C" __declspec(dllexport)
#else
#define DK_EXPORT extern "C" __attribute__((visibility("default")))
#endif

// How a matrix is held; layout.h gives the bytes of each. Every quantized GGUF type up to 8 bits has a home that
// keeps its values and scales as they are, at its own number of bits or a little more.
enum dk_format : int32_t {
    DK_F32 = 0,     // row-major float32
    DK_BF16 = 1,    // row-major bfloat16
    DK_INT4 = 2,    // w = d (q − 8)                                       4.5 bits: Q4_0
    DK_INT4Z = 3,   // w = d q + m                                         5.0 bits: Q4_1
    DK_INT4K = 4,   // w = d s q − e t: s and t for 32 columns, d and e for 256   4.625 bits: Q4_K
    DK_INT4H = 5,   // w = d s (q − 4): s for 16 columns, d for 256        4.5625 bits: Q3_K
    DK_INT5 = 6,    // w = d (q − 16)                                      5.5 bits: Q5_0
    DK_INT5Z = 7,   // w = d q + m                                         6.0 bits: Q5_1
    DK_INT5K = 8,   // as INT4K                                            5.625 bits: Q5_K
    DK_INT6H = 9,   // w = d s (q − 32), as INT4H                          6.5625 bits: Q6_K
    DK_INT8 = 10,   // w = d q                                             8.5 bits: Q8_0
    DK_FORMATS = 11,
};

// One matrix [rows, cols] as held. `cols` is a multiple of 32, of 256 for INT4K, INT4H, INT5K and INT6H.
struct dk_matrix {
    const uint8_t *data;  // 64-byte aligned
    int64_t rows;
    int64_t cols;
    int32_t format;
    int32_t reserved;
};

// What the gate of a feed-forward part goes through.
enum dk_activation : int32_t { DK_SILU = 0, DK_GELU_TANH = 1 };

// One block of a decoder. A vector that is null is one the model does not have. Vectors are float32; q and k,
// and what belongs to them, have the numbers of a pair that is rotated side by side.
struct dk_layer {
    const float *attention_norm;       // [hidden], of the input of q, k and v
    const float *mlp_norm;             // [hidden], of the input of gate and up
    const float *post_attention_norm;  // [hidden], of what the part adds to the residual
    const float *post_mlp_norm;        // [hidden]
    const float *q_norm;               // [head_dim], or [heads · head_dim]: see `joint_head_norms`
    const float *k_norm;               // [head_dim], or [kv_heads · head_dim]; null where q_norm is
    const float *qkv_bias;             // [(heads + 2 kv_heads) · head_dim]: of q, then k, then v
    const float *output_bias;          // [hidden]
    const float *gate_up_bias;         // [2 intermediate]
    const float *down_bias;            // [hidden]
    const float *rotations;            // [context][rotary_dim / 2][cos, sin]; null: it does not rotate
    dk_matrix q, k, v, o, gate, up, down;
    int32_t sliding_window;  // positions a token sees, its own included; 0: all
    int32_t plane;           // which of a segment's planes its keys and values are in,
    int32_t plane_layer;     // and as which layer of that
    int32_t reserved;
};

struct dk_model {
    int32_t layers, hidden, heads, kv_heads, head_dim, intermediate;
    int32_t rotary_dim;        // even: the first numbers of a head, which are rotated
    int32_t key_format;        // how planes hold keys: DK_F32, DK_BF16, DK_INT8 or DK_INT4
    int32_t value_format;      // and values
    int32_t activation;        // a dk_activation
    int32_t joint_head_norms;  // q_norm and k_norm are of all heads of a token together, else of each by itself
    int32_t ring_tokens;       // tokens of each sequence's rings, a multiple of 16; 0: there are none
    float norm_eps;
    float attention_scale;  // of queries times keys
    float attention_cap;    // c: a scaled score s becomes c · tanh(s / c); 0: it stays
    float embedding_scale;
    float residual_scale;  // of what a part adds to the residual
    float logit_divisor;
    float logit_cap;  // as attention_cap, of divided logits
    int32_t reserved;
    const dk_layer *layer;
    dk_matrix embedding;
    dk_matrix head;
    const float *output_norm;  // [hidden]
};

// Neighbours in a plane: position `position` of a sequence lies at token `token`, those behind it follow.
struct dk_span {
    int32_t position;  // a multiple of 16
    int32_t token;
};

// Where a sequence has the keys and values of the layers of one kind: [layers][kv_heads][tokens][head_dim], in
// which other sequences may have theirs too; cache.h gives the bytes of a token of each format. A span ends where
// the next one begins; the first one begins no later than the first position that a new token sees.
//
// With rings, the last tokens of a running sequence are in bfloat16 too, [layers][kv_heads][ring_tokens][head_dim]:
// position p at p modulo ring_tokens. New tokens go to the spans and to the rings. Attention takes the last
// kRecent positions of each token (its own included) from the rings as far as these have them, and only earlier
// ones from the spans. `ring_tokens` is at least kRecent + 16 more than a step's new tokens, of which there are
// at most 112 in a segment. Rings begin as zeros.
//
// Where the keys are in 8 or 4 bits, they and those of the rings are rotated by a Hadamard matrix (cache.h), as are
// values where these are.
struct dk_plane {
    uint8_t *keys;
    uint8_t *values;
    uint8_t *ring_keys;  // null where there are none
    uint8_t *ring_values;
    int64_t layer_stride;  // tokens
    int64_t head_stride;   // tokens
    const dk_span *spans;
    int64_t num_spans;
};

// Consecutive new tokens of one sequence.
struct dk_segment {
    const dk_plane *planes;
    int32_t length;     // tokens held before these
    int32_t rows;       // new tokens
    int32_t wanted;     // of these the last ones, whose logits are asked for
    int32_t ring_first; // the first position that the rings hold; `length`: they are empty
};

// Runs `body(argument)` on `threads` threads at once and returns when all have returned (GOMP_parallel).
typedef void (*dk_parallel)(void (*body)(void *), void *argument, unsigned threads, unsigned flags);

DK_EXPORT int32_t dk_abi_version();
// "avx512vnni", "avx2", "neon", "scalar": what this processor runs, best first, from index 0 on; null at the end.
DK_EXPORT const char *dk_instruction_set(int32_t index);
// Chooses a set by name (null: the best). Returns 0, or −1 where the processor does not have it.
DK_EXPORT int32_t dk_use(const char *instruction_set);
// The parallel runtime to use; without one everything runs on the calling thread. `team_size` tells how many
// threads a region really got (omp_get_num_threads); null: as many as were asked for.
DK_EXPORT void dk_set_parallel(dk_parallel parallel, int (*team_size)());

// Bytes of a [rows, cols] matrix in a format, padding included.
DK_EXPORT int64_t dk_matrix_bytes(int32_t format, int64_t rows, int64_t cols);

// x[n][cols] · Wᵀ, all float32, for `num` matrices that are multiplied with the same input: `out` is their
// products [n][rows] one behind the other. `scratch` has dk_linear_scratch bytes, 64-byte aligned.
DK_EXPORT int64_t dk_linear_scratch(int64_t n, int64_t cols, int32_t threads);
DK_EXPORT void dk_linear(const dk_matrix *matrices, int32_t num, const float *x, float *out, int64_t n,
                         int32_t threads, uint8_t *scratch);

// One forward pass over few rows: appends keys and values, writes logits [wanted rows, vocab].
DK_EXPORT int64_t dk_step_scratch(const dk_model *model, const dk_segment *segments, int32_t num_segments,
                                  int32_t threads);
DK_EXPORT void dk_step(const dk_model *model, const dk_segment *segments, int32_t num_segments,
                       const int32_t *ids, float *logits, int32_t threads, uint8_t *scratch);

// Bytes of a token of one head in a plane of keys or of values: a sixteenth of those of 16 tokens.
DK_EXPORT int64_t dk_key_bytes(int32_t format, int32_t head_dim);
DK_EXPORT int64_t dk_value_bytes(int32_t format, int32_t head_dim);

// Keys and values [rows][kv_heads][head_dim] of consecutive tokens from `position` on, DK_F32 or DK_BF16 by
// `source_format`, into layer `layer` of a plane, and the last of them into its rings. Keys are turned by their
// positions already. Of `model`, kv_heads, head_dim, the formats and ring_tokens count.
DK_EXPORT void dk_store(const dk_model *model, const dk_plane *plane, int32_t layer, int32_t source_format,
                        const uint8_t *keys, const uint8_t *values, int32_t position, int32_t rows, int32_t threads);

// The keys and values of the positions begin … end − 1 as DK_F32 or DK_BF16 by `target_format`, each
// [kv_heads][end − begin][head_dim], rotated where the plane has them rotated. Those from `ring_first` on come from
// the rings, which then hold them.
DK_EXPORT void dk_load(const dk_model *model, const dk_plane *plane, int32_t layer, int32_t begin, int32_t end,
                       int32_t ring_first, int32_t target_format, uint8_t *keys, uint8_t *values, int32_t threads);

// Row `row` of a held matrix as float32 [cols].
DK_EXPORT void dk_row(const dk_matrix *matrix, int64_t row, float *out);

// Rows first .. first + count of a GGUF tensor (`source`: their blocks, row-major) into a held matrix, at
// row `target` of it. `target` and, but for the last rows, `count` are multiples of 16.
// Returns 0, or −1 where the type cannot be held in that format.
DK_EXPORT int32_t dk_pack(int32_t ggml_type, const uint8_t *source, int64_t count, int64_t cols,
                          int32_t format, uint8_t *data, int64_t target, int32_t threads);

// Rows of floats (`source_type`: F32, F16 or BF16 of GGUF, row-major, `cols` a multiple of 32) rounded to blocks of
// a GGUF type (`block_type`: Q8_0, Q4_1), row-major. Returns 0, or −1 for other types and columns.
DK_EXPORT int32_t dk_quantize(int32_t source_type, const uint8_t *source, int64_t count, int64_t cols,
                              int32_t block_type, uint8_t *blocks, int32_t threads);

// Sum of the 64-bit words of a buffer, read by all threads: the yardstick of memory bandwidth.
DK_EXPORT uint64_t dk_read(const uint8_t *data, int64_t bytes, int32_t threads);
