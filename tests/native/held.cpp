#include "held.h"

namespace test {
namespace {

constexpr int64_t kRows = 16, kCols = 32;  // of a tile, of a group

bool has_4_bits(int32_t format) { return format == DK_INT4 || format == DK_INT4Z; }
bool has_minima(int32_t format) { return format == DK_INT4Z || format == DK_INT8Z; }
bool has_second(int32_t format) { return has_minima(format) || format == DK_INT8H; }
int64_t group_value_bytes(int32_t format) { return has_4_bits(format) ? 4 * 64 : 8 * 64; }
int64_t group_bytes(int32_t format) { return group_value_bytes(format) + (has_second(format) ? 64 : 32); }

int64_t one_tile_bytes(int32_t format, int64_t cols) {
    const int64_t used = cols / kCols * group_bytes(format);
    return used % 64 ? used + 64 - used % 64 : used;
}

int64_t group_at(int32_t format, int64_t cols, int64_t row, int64_t group) {
    return row / kRows * one_tile_bytes(format, cols) + group * group_bytes(format);
}

// Where the byte of an element is, and how far its bits are shifted in it.
struct Place {
    int64_t at;
    int shift;
};

Place value_place(int32_t format, int64_t cols, int64_t row, int64_t col) {
    const int64_t group = group_at(format, cols, row, col / kCols), r = row % kRows, c = col % kCols;
    if (has_4_bits(format)) return {group + c % 16 / 4 * 64 + 4 * r + c % 4, c < 16 ? 0 : 4};
    return {group + c / 4 * 64 + 4 * r + c % 4, 0};
}

int64_t scale_place(int32_t format, int64_t cols, int64_t row, int64_t group, bool second) {
    const int64_t scales = group_at(format, cols, row, group) + group_value_bytes(format);
    return scales + (second ? 32 : 0) + 2 * (row % kRows);
}

int bias(int32_t format) { return format == DK_INT4 ? 8 : format == DK_INT8 || format == DK_INT8H ? 128 : 0; }

int largest_value(int32_t format) { return has_4_bits(format) ? 15 : format == DK_INT8Z ? 127 : 255; }

int stored_value(int32_t format, Values values, Random &random) {
    const int largest = largest_value(format);
    switch (values) {
        case Values::zero: return bias(format);
        case Values::equal: return largest / 3;
        case Values::extreme: return random.bits() & 1 ? largest : 0;
        default: return static_cast<int>(random.integer(0, largest));
    }
}

uint16_t scale_value(int32_t format, Values values, Random &random) {
    switch (values) {
        case Values::zero: return 0;
        case Values::equal: return 0x2E66;                                               // about 0.1
        case Values::huge: return static_cast<uint16_t>(random.sign() < 0 ? 0xFBFF : 0x7BFF);  // ±65504
        case Values::tiny: return static_cast<uint16_t>(random.integer(1, 3) | (random.bits() & 0x8000));
        default: return to_half(random.normal() * (has_4_bits(format) ? 0.02 : 0.002));
    }
}

double dense_value(Values values, Random &random) {
    switch (values) {
        case Values::zero: return 0;
        case Values::equal: return 0.1;
        case Values::extreme: return random.sign() * 1e4;
        case Values::huge: return random.normal() * 1e15;
        case Values::tiny: return random.normal() * 1e-39;
        default: return random.normal() * 0.05;
    }
}

uint16_t half_in(const uint8_t *data) { return static_cast<uint16_t>(data[0] | data[1] << 8); }

void put_half(uint8_t *data, uint16_t half) {
    data[0] = static_cast<uint8_t>(half);
    data[1] = static_cast<uint8_t>(half >> 8);
}

void write_dense(const Held &held, int64_t at, float value) {
    if (held.format == DK_F32) {
        std::memcpy(held.bytes.data() + 4 * at, &value, 4);
    } else {
        put_half(held.bytes.data() + 2 * at, to_bf16(value));
    }
}

void write_quantized_row(const Held &held, int64_t row, Values values, Random &random) {
    for (int64_t group = 0; group < held.cols / kCols; ++group) {
        for (int second = 0; second <= has_second(held.format); ++second) {
            put_half(held.bytes.data() + scale_place(held.format, held.cols, row, group, second),
                     scale_value(held.format, values, random));
        }
    }
    for (int64_t col = 0; col < held.cols; ++col) {
        const auto [at, shift] = value_place(held.format, held.cols, row, col);
        const int kept = has_4_bits(held.format) ? held.bytes[at] & ~(15 << shift) : 0;
        held.bytes[at] = static_cast<uint8_t>(kept | stored_value(held.format, values, random) << shift);
    }
}

}  // namespace

const char *format_name(int32_t format) {
    constexpr const char *kNames[] = {"f32", "bf16", "int4", "int4z", "int8", "int8z", "int8h"};
    return kNames[format];
}

bool is_quantized(int32_t format) { return format != DK_F32 && format != DK_BF16; }

const char *values_name(Values values) {
    constexpr const char *kNames[] = {"ordinary", "zero", "equal", "extreme", "huge", "tiny"};
    return kNames[static_cast<int>(values)];
}

int64_t held_bytes(int32_t format, int64_t rows, int64_t cols) {
    if (!is_quantized(format)) return rows * cols * (format == DK_F32 ? 4 : 2);
    return (rows + kRows - 1) / kRows * one_tile_bytes(format, cols);
}

Element read_held(const uint8_t *data, int32_t format, int64_t cols, int64_t row, int64_t col) {
    if (format == DK_F32) {
        float value;
        std::memcpy(&value, data + 4 * (row * cols + col), sizeof value);
        return {value, std::fabs(value)};
    }
    if (format == DK_BF16) {
        const double value = from_bf16(half_in(data + 2 * (row * cols + col)));
        return {value, std::fabs(value)};
    }
    const auto [at, shift] = value_place(format, cols, row, col);
    const int stored = data[at] >> shift & (has_4_bits(format) ? 15 : 255);
    const bool in_second = format == DK_INT8H && col % kCols >= 16;
    const double scale = from_half(half_in(data + scale_place(format, cols, row, col / kCols, in_second)));
    const double minimum =
        has_minima(format) ? from_half(half_in(data + scale_place(format, cols, row, col / kCols, true))) : 0;
    const double product = scale * (stored - bias(format));
    return {product + minimum, std::fabs(product) + std::fabs(minimum)};
}

Held hold(int32_t format, int64_t rows, int64_t cols, Values values, Random &random) {
    Held held{format, rows, cols, {}, Bytes(held_bytes(format, rows, cols), kLine)};
    for (int64_t row = 0; row < rows; ++row) {
        if (is_quantized(format)) {
            write_quantized_row(held, row, values, random);
        } else {
            for (int64_t col = 0; col < cols; ++col) {
                write_dense(held, row * cols + col, static_cast<float>(dense_value(values, random)));
            }
        }
        for (int64_t col = 0; col < cols; ++col) {
            held.elements.push_back(read_held(held.bytes.data(), format, cols, row, col));
        }
    }
    return held;
}

}  // namespace test
