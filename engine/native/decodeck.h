// The C ABI of the native kernels: plain structs and functions, no link to torch or Python.
// engine/native/library.py mirrors these structs; DK_ABI_VERSION must be raised when one of them changes.
#pragma once

#include <cstdint>

#define DK_ABI_VERSION 2

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

// One block of a Llama-like decoder.
struct dk_layer {
    const float *attention_norm;  // [hidden]
    const float *mlp_norm;        // [hidden]
    dk_matrix q, k, v, o, gate, up, down;
};

struct dk_model {
    int32_t layers, hidden, heads, kv_heads, head_dim, intermediate;
    int32_t sliding_window;  // 0: none
    int32_t kv_format;       // DK_F32 or DK_BF16
    float norm_eps;
    float attention_scale;
    const dk_layer *layer;
    dk_matrix embedding;
    dk_matrix head;
    const float *output_norm;  // [hidden]
    const float *rotations;    // [context, head_dim / 2, (cos, sin)]
};

// Consecutive new tokens of one sequence. Keys and values are [layers][kv_heads][capacity][head_dim].
struct dk_segment {
    uint8_t *keys;
    uint8_t *values;
    int64_t layer_stride;  // bytes
    int64_t head_stride;   // bytes
    int32_t length;        // tokens held before these
    int32_t rows;          // new tokens
    int32_t wants_all;     // logits of every row, else of the last alone
    int32_t reserved;
};

// Runs `body(argument)` on `threads` threads at once and returns when all have returned (GOMP_parallel).
typedef void (*dk_parallel)(void (*body)(void *), void *argument, unsigned threads, unsigned flags);

DK_EXPORT int32_t dk_abi_version();
// "avx512bf16", "avx512vnni", "avx2", "neon", "scalar": what this processor runs, best first, from index 0 on;
// null at the end.
DK_EXPORT const char *dk_instruction_set(int32_t index);
// Chooses a set by name (null: the best). Returns 0, or −1 where the processor does not have it.
DK_EXPORT int32_t dk_use(const char *instruction_set);
// The parallel runtime to use; without one everything runs on the calling thread. `team_size` tells how many
// threads a region really got (omp_get_num_threads); null: as many as were asked for.
DK_EXPORT void dk_set_parallel(dk_parallel parallel, int (*team_size)());

// Bytes of a [rows, cols] matrix in a format, padding included.
DK_EXPORT int64_t dk_matrix_bytes(int32_t format, int64_t rows, int64_t cols);

// out[n][rows] = x[n][cols] · Wᵀ, all float32. `scratch` has dk_linear_scratch bytes, 64-byte aligned.
DK_EXPORT int64_t dk_linear_scratch(int64_t n, int64_t cols, int32_t threads);
DK_EXPORT void dk_linear(const dk_matrix *matrix, const float *x, float *out, int64_t n, int32_t threads,
                         uint8_t *scratch);

// One forward pass over few rows: appends keys and values, writes logits [wanted rows, vocab].
DK_EXPORT int64_t dk_step_scratch(const dk_model *model, const dk_segment *segments, int32_t num_segments,
                                  int32_t threads);
DK_EXPORT void dk_step(const dk_model *model, const dk_segment *segments, int32_t num_segments,
                       const int32_t *ids, float *logits, int32_t threads, uint8_t *scratch);

// Row `row` of a held matrix as float32 [cols].
DK_EXPORT void dk_row(const dk_matrix *matrix, int64_t row, float *out);

// Rows first .. first + count of a GGUF tensor (`source`: their blocks, row-major) into a held matrix, at
// row `target` of it. `target` and, but for the last rows, `count` are multiples of 16.
// Returns 0, or −1 where the type cannot be held in that format.
DK_EXPORT int32_t dk_pack(int32_t ggml_type, const uint8_t *source, int64_t count, int64_t cols,
                          int32_t format, uint8_t *data, int64_t target, int32_t threads);

// Sum of the 64-bit words of a buffer, read by all threads: the yardstick of memory bandwidth.
DK_EXPORT uint64_t dk_read(const uint8_t *data, int64_t bytes, int32_t threads);
