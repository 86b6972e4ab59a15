// Storing rows of keys and values in the planes of a sequence, and reading a range of them, by all threads.
#include <vector>

#include "head_store.h"
#include "positions.h"
#include "team.h"

namespace dk {
namespace {

constexpr int32_t kTaskTokens = 64;  // a multiple of kBlockTokens: no two tasks write to a block

// Positions [begin, end) of every head, in tasks that end at multiples of kTaskTokens.
class Range {
  public:
    Range(int32_t begin, int32_t end) : begin_(begin), end_(end), first_(begin / kTaskTokens) {}

    int64_t num_tasks(int32_t heads) const { return end_ > begin_ ? heads * per_head() : 0; }

    template <class Body>
    void run(int64_t task, Body &&body) const {
        const auto head = static_cast<int32_t>(task / per_head());
        const auto piece = static_cast<int32_t>(first_ + task % per_head());
        const int32_t stop = std::min(end_, (piece + 1) * kTaskTokens);
        for (int32_t p = std::max(begin_, piece * kTaskTokens); p < stop; ++p) body(head, p);
    }

  private:
    int64_t per_head() const { return (end_ + kTaskTokens - 1) / kTaskTokens - first_; }

    int32_t begin_, end_, first_;
};

}  // namespace
}  // namespace dk

int64_t dk_key_bytes(int32_t format, int32_t head_dim) { return dk::token_bytes({format, head_dim, true}); }
int64_t dk_value_bytes(int32_t format, int32_t head_dim) { return dk::token_bytes({format, head_dim, false}); }

void dk_store(const dk_model *model, const dk_plane *plane, int32_t layer, int32_t source_format,
              const uint8_t *keys, const uint8_t *values, int32_t position, int32_t rows, int32_t threads) {
    const dk::Kernels &k = dk::kernels();
    const int32_t heads = model->kv_heads, dim = model->head_dim, end = position + rows;
    const dk::Range range(position, end);
    dk::in_parallel(threads, [&](dk::Worker &worker) {
        std::vector<float> spare(static_cast<size_t>(dk::padded(dim)));
        const auto put = [&](int32_t head, int32_t p, bool is_keys) {
            const dk::HeadStore store(*model, *plane, layer, head, is_keys);
            const int64_t row = static_cast<int64_t>(p - position) * heads + head;
            k.row({is_keys ? keys : values, row + 1, dim, source_format, 0}, row, spare.data());
            const float *held = store.put(k, spare.data(), dk::token_of(*dk::span_of(*plane, p), p), spare.data());
            if (p >= end - model->ring_tokens) store.put_recent(k, held, p);
        };
        worker.phase(range.num_tasks(heads), [&](int64_t task) {
            range.run(task, [&](int32_t head, int32_t p) { put(head, p, true), put(head, p, false); });
        });
    });
}

void dk_load(const dk_model *model, const dk_plane *plane, int32_t layer, int32_t begin, int32_t end,
             int32_t ring_first, int32_t target_format, uint8_t *keys, uint8_t *values, int32_t threads) {
    const dk::Kernels &k = dk::kernels();
    const int32_t dim = model->head_dim;
    const int64_t bytes = dim * dk::element_bytes(target_format);
    const dk::Range range(begin, end);
    dk::in_parallel(threads, [&](dk::Worker &worker) {
        std::vector<float> spare(static_cast<size_t>(dk::padded(dim)));
        const auto get = [&](int32_t head, int32_t p, bool is_keys) {
            const dk::HeadStore store(*model, *plane, layer, head, is_keys);
            const int64_t row = static_cast<int64_t>(head) * (end - begin) + p - begin;
            if (model->ring_tokens && p >= ring_first) store.get_recent(k, p, spare.data());
            else store.get(k, dk::token_of(*dk::span_of(*plane, p), p), spare.data());
            k.store(spare.data(), dim, target_format, (is_keys ? keys : values) + row * bytes);
        };
        worker.phase(range.num_tasks(model->kv_heads), [&](int64_t task) {
            range.run(task, [&](int32_t head, int32_t p) { get(head, p, true), get(head, p, false); });
        });
    });
}
