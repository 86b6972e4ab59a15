// Positions of a sequence: which of them are seen and where, how they are cut into pieces, and where they lie.
#pragma once

#include <algorithm>

#include "kernels.h"

namespace dk {

// The first position that a token sees.
inline int32_t first_seen(int32_t position, int32_t window) {
    return window ? std::max(0, position + 1 - window) : 0;
}

// The first position that a token takes from the rings; without these, the one behind its own.
inline int32_t first_recent(const dk_model &m, const dk_segment &s, int32_t position) {
    return m.ring_tokens ? std::max(position + 1 - kRecent, s.ring_first) : position + 1;
}

// What attention does at once: positions of a segment within a chunk of kKeyChunk of them, in the spans or in the
// rings.
struct Piece {
    int32_t begin, stop;
    int32_t total;  // all there are in this place, for reading ahead
    bool is_ring;
};

// The pieces of a segment in a layer: those in the spans, then those in the rings. How they are cut depends on
// positions alone, so that a token's sums do not depend on those it comes with.
class Pieces {
  public:
    Pieces(const dk_model &m, const dk_segment &s, int32_t window) : total_(s.length + s.rows) {
        seen_ = first_seen(s.length, window);
        stop_ = std::min(first_recent(m, s, total_ - 1), total_);
        chunks_ = stop_ > seen_ ? count(seen_, stop_) : 0;
        recent_ = std::max(seen_, first_recent(m, s, s.length));
        all_ = chunks_ + (m.ring_tokens ? count(recent_, total_) : 0);
    }

    int32_t num() const { return all_; }

    Piece at(int32_t index) const {
        return index < chunks_ ? cut(seen_, stop_, index, false) : cut(recent_, total_, index - chunks_, true);
    }

  private:
    static int32_t count(int32_t begin, int32_t stop) {
        return (stop + kKeyChunk - 1) / kKeyChunk - begin / kKeyChunk;
    }

    static Piece cut(int32_t begin, int32_t stop, int32_t index, bool is_ring) {
        const int32_t chunk = begin / kKeyChunk + index;
        return {std::max(chunk * kKeyChunk, begin / kKeyBlock * kKeyBlock), std::min((chunk + 1) * kKeyChunk, stop),
                stop, is_ring};
    }

    int32_t total_, seen_, stop_, recent_, chunks_, all_;
};

// The most pieces that a segment has in any layer.
inline int32_t most_pieces(const dk_model &m, const dk_segment &s) {
    return (s.length + s.rows + kKeyChunk - 1) / kKeyChunk + (m.ring_tokens ? 2 : 0);
}

// The span that a position lies in.
inline const dk_span *span_of(const dk_plane &plane, int32_t position) {
    const auto is_before = [](int32_t p, const dk_span &span) { return p < span.position; };
    return std::upper_bound(plane.spans, plane.spans + plane.num_spans, position, is_before) - 1;
}

inline int32_t token_of(const dk_span &span, int32_t position) { return span.token + position - span.position; }

// Where every kKeyBlock positions from `begin` to `end` lie.
inline void list_tokens(const dk_plane &plane, int32_t begin, int32_t end, int32_t *out) {
    const dk_span *span = span_of(plane, begin), *last = plane.spans + plane.num_spans - 1;
    for (int32_t p = begin; p < end; p += kKeyBlock) {
        while (span < last && p >= span[1].position) ++span;
        *out++ = token_of(*span, p);
    }
}

}  // namespace dk
