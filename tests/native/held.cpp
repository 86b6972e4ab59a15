#include "held.h"

#include "places.h"

namespace test {
namespace {

int stored_value(int32_t format, Values values, Random &random) {
    const Traits t = traits(format);
    const int largest = (1 << t.bits) - 1;
    switch (values) {
        case Values::zero: return t.zero;
        case Values::equal: return largest / 3;
        case Values::extreme: return random.bits() & 1 ? largest : 0;
        default: return static_cast<int>(random.integer(0, largest));
    }
}

// A half float, of a size that makes ordinary weights about 0.1.
uint16_t half_scale(int32_t format, Values values, Random &random) {
    const Traits t = traits(format);
    const double ordinary = 0.3 / (1 << t.bits) / (t.has_header ? 32 : 1);
    switch (values) {
        case Values::zero: return 0;
        case Values::equal: return 0x2E66;                              // about 0.1
        case Values::huge: return random.sign() < 0 ? 0xFBFF : 0x7BFF;  // ±65504
        case Values::tiny: return static_cast<uint16_t>(random.integer(1, 3) | (random.bits() & 0x8000));
        default: return to_half(random.normal() * ordinary);
    }
}

// A byte that multiplies it: signed with a scale for each half of a group, else not.
uint8_t byte_scale(int32_t format, Values values, Random &random) {
    const bool is_signed = traits(format).has_halves;
    if (values == Values::equal) return 7;
    if (values == Values::extreme) return random.bits() & 1 ? (is_signed ? 0x80 : 0xFF) : 0x7F;
    return static_cast<uint8_t>(is_signed ? random.integer(-64, 63) : random.integer(0, 63));
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

void put_bits(uint8_t &byte, int shift, int count, int value) {
    const int mask = ((1 << count) - 1) << shift;
    byte = static_cast<uint8_t>((byte & ~mask) | (value << shift & mask));
}

void write_dense(const Held &held, int64_t at, float value) {
    if (held.format == DK_F32) {
        std::memcpy(held.bytes.data() + 4 * at, &value, 4);
    } else {
        put_half(held.bytes.data() + 2 * at, to_bf16(value));
    }
}

void write_scales(const Held &held, int64_t row, int64_t col, Values values, Random &random) {
    const ScalePlace at = scale_place(held.format, held.cols, row, col);
    uint8_t *bytes = held.bytes.data();
    put_half(bytes + at.d, half_scale(held.format, values, random));
    if (at.e >= 0) put_half(bytes + at.e, half_scale(held.format, values, random));
    if (at.s >= 0) bytes[at.s] = byte_scale(held.format, values, random);
    if (at.t >= 0) bytes[at.t] = byte_scale(held.format, values, random);
}

void write_value(const Held &held, int64_t row, int64_t col, int value) {
    const int bits = traits(held.format).bits;
    const ValuePlace at = value_place(held.format, held.cols, row, col);
    put_bits(held.bytes[at.low], at.low_shift, bits == 8 ? 8 : 4, value);
    if (at.high >= 0) put_bits(held.bytes[at.high], at.high_shift, bits - 4, value >> 4);
}

int read_value(const uint8_t *data, int32_t format, int64_t cols, int64_t row, int64_t col) {
    const int bits = traits(format).bits;
    const ValuePlace at = value_place(format, cols, row, col);
    const int low = data[at.low] >> at.low_shift & (bits == 8 ? 255 : 15);
    return at.high < 0 ? low : low | (data[at.high] >> at.high_shift & ((1 << (bits - 4)) - 1)) << 4;
}

Element read_quantized(const uint8_t *data, int32_t format, int64_t cols, int64_t row, int64_t col) {
    const Traits t = traits(format);
    const ScalePlace at = scale_place(format, cols, row, col);
    const int q = read_value(data, format, cols, row, col) - t.zero;
    double product = from_half(half_in(data + at.d)) * q;
    if (at.s >= 0) product *= t.has_halves ? static_cast<int8_t>(data[at.s]) : data[at.s];
    double minimum = at.e >= 0 ? from_half(half_in(data + at.e)) : 0;
    if (at.t >= 0) minimum *= -data[at.t];
    return {product + minimum, std::fabs(product) + std::fabs(minimum)};
}

}  // namespace

const char *format_name(int32_t format) {
    constexpr const char *kNames[] = {"f32",  "bf16",  "int4",  "int4z", "int4k", "int4h",
                                      "int5", "int5z", "int5k", "int6h", "int8"};
    return kNames[format];
}

bool is_quantized(int32_t format) { return format != DK_F32 && format != DK_BF16; }

int64_t column_multiple(int32_t format) {
    return is_quantized(format) && traits(format).has_header ? 256 : 32;
}

const char *values_name(Values values) {
    constexpr const char *kNames[] = {"ordinary", "zero", "equal", "extreme", "huge", "tiny"};
    return kNames[static_cast<int>(values)];
}

int64_t held_bytes(int32_t format, int64_t rows, int64_t cols) {
    if (!is_quantized(format)) return rows * cols * (format == DK_F32 ? 4 : 2);
    return (rows + 15) / 16 * tile_bytes(format, cols);
}

Element read_held(const uint8_t *data, int32_t format, int64_t cols, int64_t row, int64_t col) {
    if (is_quantized(format)) return read_quantized(data, format, cols, row, col);
    float value = from_bf16(half_in(data + 2 * (row * cols + col)));
    if (format == DK_F32) std::memcpy(&value, data + 4 * (row * cols + col), sizeof value);
    return {value, std::fabs(value)};
}

Held hold(int32_t format, int64_t rows, int64_t cols, Values values, Random &random) {
    Held held{format, rows, cols, {}, Bytes(held_bytes(format, rows, cols), kLine)};
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t col = 0; is_quantized(format) && col < cols; col += 16) {
            write_scales(held, row, col, values, random);
        }
        for (int64_t col = 0; col < cols; ++col) {
            if (is_quantized(format)) {
                write_value(held, row, col, stored_value(format, values, random));
            } else {
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
