// Where in a held matrix the bits of one element and of its scales are, by the description in layout.h.
#pragma once

#include "decodeck.h"

namespace test {

// What makes the quantized formats differ.
struct Traits {
    int bits;
    int zero;         // added to a value when it is stored
    bool has_minima;  // of a group: m, or t
    bool has_header;  // scales d (and e) of 256 columns, and bytes for the groups
    bool has_halves;  // a scale for each half of a group
};
Traits traits(int32_t format);

// One stored value: four bits (all eight with 8 bits) at `low`, the others, if any, at `high`.
struct ValuePlace {
    int64_t low, high;
    int low_shift, high_shift;
};
ValuePlace value_place(int32_t format, int64_t cols, int64_t row, int64_t col);

// Where the scales of an element are; −1 where the format has none of them.
struct ScalePlace {
    int64_t d, e;  // half floats: the scale, and the minimum or what is its scale
    int64_t s, t;  // bytes that multiply them
};
ScalePlace scale_place(int32_t format, int64_t cols, int64_t row, int64_t col);

int64_t tile_bytes(int32_t format, int64_t cols);

}  // namespace test
