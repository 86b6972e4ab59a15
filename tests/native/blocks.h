// GGUF's blocks by ggml's documented layouts: random ones, and what each of their values is in float64.
#pragma once

#include <vector>

#include "memory.h"
#include "numbers.h"

namespace test {

struct BlockType {
    const char *name;
    int32_t ggml_type;
    int cols, bytes;          // of a block
    std::vector<int> halves;  // where its half floats are
    int32_t format;           // it is held in
    // Value `i` of a block.
    double (*value)(const uint8_t *block, int i);
};

const std::vector<BlockType> &block_types();

// [rows][cols / type.cols] blocks of random bits; their half floats are finite, of any size and sign.
Bytes random_blocks(const BlockType &type, int64_t rows, int64_t cols, Random &random);

}  // namespace test
