// The keys or the values of one head of a sequence: writing to its plane and its ring, and reading.
#pragma once

#include <algorithm>

#include "kernels.h"

namespace dk {

class HeadStore {
  public:
    // `layer`: as dk_layer::plane_layer
    HeadStore(const dk_model &m, const dk_plane &plane, int64_t layer, int64_t head, bool is_keys)
        : kind_{is_keys ? m.key_format : m.value_format, m.head_dim, is_keys}, ring_tokens_(m.ring_tokens) {
        const int64_t token = layer * plane.layer_stride + head * plane.head_stride;
        plane_ = (is_keys ? plane.keys : plane.values) + token * token_bytes(kind_);
        uint8_t *rings = is_keys ? plane.ring_keys : plane.ring_values;
        ring_ = ring_tokens_ ? rings + (layer * m.kv_heads + head) * ring_tokens_ * ring_bytes() : nullptr;
    }

    bool is_rotated() const { return !is_dense(kind_.format); }
    HeadCache plane() const { return {plane_, kind_.format, token_bytes(kind_)}; }
    HeadCache ring() const { return {ring_, DK_BF16, ring_bytes()}; }

    // Puts numbers [dim] to a token of the plane. Returns them as they are held but for the rounding; `spare` is
    // [padded dim] and may be x.
    const float *put(const Kernels &k, const float *x, int64_t token, float *spare) const {
        if (!is_rotated()) {
            k.store(x, kind_.dim, kind_.format, plane_ + token * token_bytes(kind_));
            return x;
        }
        k.hadamard(x, kind_.dim, spare);
        std::fill(spare + kind_.dim, spare + padded(kind_.dim), 0.0f);
        k.hold(kind_, spare, token % kBlockTokens, block(token));
        return spare;
    }

    // Puts what `put` returned into the ring, if there is one.
    void put_recent(const Kernels &k, const float *x, int32_t position) const {
        if (ring_) k.store(x, kind_.dim, DK_BF16, ring_ + position % ring_tokens_ * ring_bytes());
    }

    // The numbers [padded dim] of a token of the plane.
    void get(const Kernels &k, int64_t token, float *out) const {
        if (is_rotated()) return k.numbers(kind_, block(token), token % kBlockTokens, out);
        k.row({plane_, token + 1, kind_.dim, kind_.format, 0}, token, out);
    }

    void get_recent(const Kernels &k, int32_t position, float *out) const {
        k.row({ring_, ring_tokens_, kind_.dim, DK_BF16, 0}, position % ring_tokens_, out);
    }

  private:
    int64_t ring_bytes() const { return 2 * static_cast<int64_t>(kind_.dim); }
    uint8_t *block(int64_t token) const { return plane_ + token / kBlockTokens * kBlockTokens * token_bytes(kind_); }

    CacheKind kind_;
    int32_t ring_tokens_;
    uint8_t *plane_, *ring_;
};

}  // namespace dk
