// Floats rounded to the blocks of GGUF files, from which pack.cpp makes held matrices. Scales are half floats and
// rounded before the values are, so that a value is always the nearest that its block can say.
// engine/quant/quantize.py has the same formulas in torch.
#include <cstring>

#include "half.h"
#include "layout.h"
#include "team.h"

namespace dk {
namespace {

constexpr float kKept[] = {1.0f, 0.88f};  // parts of a group's range from which Q4_1 begins
constexpr int kRefinements = 2;          // after these, errors fall by less than a hundredth
constexpr int kLanes = 4;  // of a vector that every processor has
constexpr int kParts = kGroup / kLanes;
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

struct Group {
    Lanes part[kParts];
};

Lanes splat(float value) { return value - Lanes{}; }
Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }
Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

template <class Join>
float joined(Lanes lanes, Join join) {
    float result = lanes[0];
    for (int i = 1; i < kLanes; ++i) result = join(result, lanes[i]);
    return result;
}

float sum(Lanes lanes) {
    return joined(lanes, [](float a, float b) { return a + b; });
}

// 0; no number where a weight is none or infinite, which must not be lost: the scale takes it on.
float nothing(const Group &group) {
    Lanes zeros = splat(0);
    for (const Lanes part : group.part) zeros += part * 0;
    return sum(zeros);
}

// The nearest whole number, ties to even, of one well below 2²²: larger numbers have no fractions there.
Lanes whole(Lanes lanes) {
    constexpr float kMagic = 12582912.0f;  // 1.5 · 2²³
    return (lanes + kMagic) - kMagic;
}

float as_half(float value) { return from_half(to_half(value)); }

void put_half(float value, uint8_t *out) {
    const uint16_t half = to_half(value);
    std::memcpy(out, &half, sizeof half);
}

// 32 numbers of a source of each type.
struct F32 {
    static constexpr int32_t kType = 0;
    static constexpr int kBytes = 4;
    static float at(const uint8_t *from) {
        float value;
        std::memcpy(&value, from, sizeof value);
        return value;
    }
};

struct F16 {
    static constexpr int32_t kType = 1;
    static constexpr int kBytes = 2;
    static float at(const uint8_t *from) {
        uint16_t half;
        std::memcpy(&half, from, sizeof half);
        return from_half(half);
    }
};

struct Bf16 {
    static constexpr int32_t kType = 30;
    static constexpr int kBytes = 2;
    static float at(const uint8_t *from) {
        uint16_t upper;
        std::memcpy(&upper, from, sizeof upper);
        return bits_as<float>(static_cast<uint32_t>(upper) << 16);
    }
};

template <class Source>
Group load(const uint8_t *from) {
    float values[kGroup];
    for (int i = 0; i < kGroup; ++i) values[i] = Source::at(from + i * Source::kBytes);
    Group group;
    std::memcpy(&group, values, sizeof group);
    return group;
}

// w = d q: half d = max |w| / 127, 32 signed bytes
struct Q8_0 {
    static constexpr int32_t kType = 8;
    static constexpr int kBytes = 34;

    static void round(const Group &group, uint8_t *block) {
        Lanes most = splat(0);
        for (const Lanes part : group.part) most = larger(larger(part, -part), most);
        const float d = joined(most, [](float a, float b) { return a > b ? a : b; }) / 127 + nothing(group);
        put_half(d, block);
        const float held = as_half(d), inverse = held != 0 ? 1 / held : 0;
        int8_t values[kGroup];
        for (int p = 0; p < kParts; ++p) {
            const Lanes q = smaller(larger(whole(group.part[p] * inverse), splat(-127)), splat(127));
            for (int i = 0; i < kLanes; ++i) values[p * kLanes + i] = static_cast<int8_t>(q[i]);
        }
        std::memcpy(block + 2, values, sizeof values);
    }
};

// The nearest q of 0..15 for given d and m, and the error squared.
struct Fit {
    float d, m, error;
    Lanes q[kParts];

    Fit(const Group &group, float scale, float minimum) : d(as_half(scale)), m(as_half(minimum)) {
        const float inverse = d != 0 ? 1 / d : 0;
        Lanes squares = splat(0);
        for (int p = 0; p < kParts; ++p) {
            q[p] = smaller(larger(whole((group.part[p] - m) * inverse), splat(0)), splat(15));
            const Lanes away = m + q[p] * d - group.part[p];
            squares += away * away;
        }
        error = sum(squares);
    }
};

// w = d q + m: half d, half m, 16 bytes of nibbles. From parts of the group's range, each time the straight
// line through (q, w) in the sense of least squares, and the values rounded to it anew; the best is kept.
struct Q4_1 {
    static constexpr int32_t kType = 3;
    static constexpr int kBytes = 20;

    static void round(const Group &group, uint8_t *block) {
        Lanes low = group.part[0], high = low, total = splat(0);
        for (const Lanes part : group.part) {
            low = smaller(low, part);
            high = larger(high, part);
            total += part;
        }
        const float least = joined(low, [](float a, float b) { return a < b ? a : b; });
        const float most = joined(high, [](float a, float b) { return a > b ? a : b; });
        const float range = most - least + nothing(group);
        const float mean = sum(total) / kGroup;
        Fit best(group, range / 15, least);
        for (const float kept : kKept) {
            Fit tried(group, range * kept / 15, least + range * (1 - kept) / 2);
            if (tried.error < best.error) best = tried;
            for (int i = 0; i < kRefinements; ++i) {
                tried = refined(group, tried, mean);
                if (tried.error < best.error) best = tried;
            }
        }
        write(best, block);
    }

    static Fit refined(const Group &group, const Fit &fit, float mean) {
        Lanes total = splat(0), spread = total, product = total;
        for (const Lanes q : fit.q) total += q;
        const float mean_q = sum(total) / kGroup;
        for (int p = 0; p < kParts; ++p) {
            const Lanes away = fit.q[p] - mean_q;
            spread += away * away;
            product += away * group.part[p];
        }
        const float slope = sum(product) / (sum(spread) > 1 ? sum(spread) : 1);  // 0 where all q are equal
        return Fit(group, slope, mean - slope * mean_q);
    }

    static void write(const Fit &fit, uint8_t *block) {
        put_half(fit.d, block);
        put_half(fit.m, block + 2);
        uint8_t q[kGroup];
        for (int i = 0; i < kGroup; ++i) q[i] = static_cast<uint8_t>(fit.q[i / kLanes][i % kLanes]);
        for (int i = 0; i < kGroup / 2; ++i) block[4 + i] = static_cast<uint8_t>(q[i] | q[kGroup / 2 + i] << 4);
    }
};

template <class Source, class Block>
void quantize_rows(const uint8_t *source, int64_t groups, uint8_t *blocks, int threads) {
    constexpr int64_t kTask = 1024;  // groups
    in_parallel(threads, [&](Worker &worker) {
        worker.phase((groups + kTask - 1) / kTask, [&](int64_t task) {
            for (int64_t g = task * kTask; g < groups && g < (task + 1) * kTask; ++g) {
                Block::round(load<Source>(source + g * kGroup * Source::kBytes), blocks + g * Block::kBytes);
            }
        });
    });
}

struct Quantizer {
    int32_t source, block;
    void (*quantize)(const uint8_t *source, int64_t groups, uint8_t *blocks, int threads);
};

template <class Source, class Block>
constexpr Quantizer quantizer() {
    return {Source::kType, Block::kType, quantize_rows<Source, Block>};
}

constexpr Quantizer kQuantizers[] = {
    quantizer<F32, Q8_0>(), quantizer<F16, Q8_0>(), quantizer<Bf16, Q8_0>(),
    quantizer<F32, Q4_1>(), quantizer<F16, Q4_1>(), quantizer<Bf16, Q4_1>(),
};

}  // namespace
}  // namespace dk

int32_t dk_quantize(int32_t source_type, const uint8_t *source, int64_t count, int64_t cols, int32_t block_type,
                    uint8_t *blocks, int32_t threads) {
    for (const dk::Quantizer &quantizer : dk::kQuantizers) {
        if (quantizer.source != source_type || quantizer.block != block_type) continue;
        if (cols % dk::kGroup != 0) return -1;
        quantizer.quantize(source, count * (cols / dk::kGroup), blocks, threads);
        return 0;
    }
    return -1;
}
