// Held matrices written and read byte by byte, straight from the description in layout.h.
#pragma once

#include <vector>

#include "decodeck.h"
#include "memory.h"
#include "numbers.h"

namespace test {

constexpr int32_t kFormats[] = {DK_F32,  DK_BF16,  DK_INT4,  DK_INT4Z, DK_INT4K, DK_INT4H,
                                DK_INT5, DK_INT5Z, DK_INT5K, DK_INT6H, DK_INT8};
const char *format_name(int32_t format);
bool is_quantized(int32_t format);
int64_t column_multiple(int32_t format);

// What the values of a matrix are like: `huge` and `tiny` are about the scales, `extreme` about the values.
enum class Values { ordinary, zero, equal, extreme, huge, tiny };
constexpr Values kValues[] = {Values::ordinary, Values::zero, Values::equal,
                              Values::extreme,  Values::huge, Values::tiny};
const char *values_name(Values values);

// What the bytes of one element stand for, exactly. With a minimum it is a sum: `size` is that of its parts.
struct Element {
    double value, size;
};

struct Held {
    int32_t format;
    int64_t rows, cols;
    std::vector<Element> elements;  // [rows][cols]
    Bytes bytes;                    // padding is all ones

    dk_matrix matrix() const { return {bytes.data(), rows, cols, format, 0}; }
    const Element *row(int64_t r) const { return elements.data() + r * cols; }
};

Held hold(int32_t format, int64_t rows, int64_t cols, Values values, Random &random);

// Bytes of a matrix by the description.
int64_t held_bytes(int32_t format, int64_t rows, int64_t cols);

Element read_held(const uint8_t *data, int32_t format, int64_t cols, int64_t row, int64_t col);

}  // namespace test
