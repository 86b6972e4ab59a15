#include "places.h"

namespace test {
namespace {

constexpr int64_t kRows = 16, kCols = 32, kBlock = 256;  // rows of a tile, columns of a group and of a block
constexpr int64_t kWord = 64;                            // bytes: four for each row

int64_t values_bytes(const Traits &t) {
    return (t.bits == 8 ? 8 : t.bits) * kWord;
}  // a word more for each bit

int64_t group_bytes(const Traits &t) { return values_bytes(t) + (t.has_minima && !t.has_header ? 64 : 32); }

int64_t header_bytes(const Traits &t) { return !t.has_header ? 0 : t.has_minima ? 64 : 32; }

// From the start of a matrix to the block of 256 columns an element is in, which begins with the header.
int64_t block_at(int32_t format, int64_t cols, int64_t row, int64_t col) {
    const Traits t = traits(format);
    const int64_t block = kBlock / kCols * group_bytes(t) + header_bytes(t);
    return row / kRows * tile_bytes(format, cols) + col / kBlock * block;
}

int64_t group_at(int32_t format, int64_t cols, int64_t row, int64_t col) {
    const Traits t = traits(format);
    return block_at(format, cols, row, col) + header_bytes(t) + col % kBlock / kCols * group_bytes(t);
}

}  // namespace

Traits traits(int32_t format) {
    switch (format) {
        case DK_INT4: return {4, 8, false, false, false};
        case DK_INT4Z: return {4, 0, true, false, false};
        case DK_INT4K: return {4, 0, true, true, false};
        case DK_INT4H: return {4, 4, false, true, true};
        case DK_INT5: return {5, 16, false, false, false};
        case DK_INT5Z: return {5, 0, true, false, false};
        case DK_INT5K: return {5, 0, true, true, false};
        case DK_INT6H: return {6, 32, false, true, true};
        default: return {8, 128, false, false, false};
    }
}

ValuePlace value_place(int32_t format, int64_t cols, int64_t row, int64_t col) {
    const int bits = traits(format).bits;
    const int64_t group = group_at(format, cols, row, col), c = col % kCols;
    const int64_t byte = row % kRows * 4 + c % 4;  // in its word
    if (bits == 8) return {group + c / 4 * kWord + byte, -1, 0, 0};
    const int word = static_cast<int>(c % 16 / 4), half = static_cast<int>(c / 16);
    const int64_t low = group + word * kWord + byte, planes = group + 4 * kWord + byte;
    if (bits == 5) return {low, planes, 4 * half, word + 4 * half};
    if (bits == 6) return {low, planes + half * kWord, 4 * half, 2 * word};
    return {low, -1, 4 * half, 0};
}

ScalePlace scale_place(int32_t format, int64_t cols, int64_t row, int64_t col) {
    const Traits t = traits(format);
    const int64_t r = row % kRows, scales = group_at(format, cols, row, col) + values_bytes(t);
    if (!t.has_header) return {scales + 2 * r, t.has_minima ? scales + 32 + 2 * r : -1, -1, -1};
    const int64_t header = block_at(format, cols, row, col) + 2 * r;
    if (t.has_minima) return {header, header + 32, scales + r, scales + 16 + r};
    return {header, -1, scales + (col % kCols < 16 ? 0 : 16) + r, -1};
}

int64_t tile_bytes(int32_t format, int64_t cols) {
    const Traits t = traits(format);
    const int64_t used = cols / kCols * group_bytes(t) + (t.has_header ? cols / kBlock * header_bytes(t) : 0);
    return (used + 63) / 64 * 64;
}

}  // namespace test
