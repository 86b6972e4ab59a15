// Which instruction set runs, and the parallel runtime.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels.h"
#include "team.h"

namespace dk {
namespace {

const Kernels *const kTables[] = {
#if defined(__x86_64__)
    &kAvx512, &kAvx2,
#elif defined(__aarch64__)
    &kNeon,
#endif
    &kScalar,
};

std::atomic<const Kernels *> chosen{nullptr};
std::atomic<dk_parallel> runtime{nullptr};
std::atomic<int (*)()> size_of_team{nullptr};

const Kernels *find(const char *name) {
    for (const Kernels *table : kTables) {
        if (table->is_supported() && (!name || !std::strcmp(name, table->name))) return table;
    }
    return nullptr;
}

}  // namespace

const Kernels &kernels() {
    const Kernels *table = chosen.load(std::memory_order_acquire);
    return table ? *table : *find(nullptr);
}

dk_parallel parallel_runtime() { return runtime.load(std::memory_order_acquire); }

int granted_threads(int asked) {
    int (*tell)() = size_of_team.load(std::memory_order_acquire);
    return tell && asked > 1 ? tell() : asked;
}

}  // namespace dk

int32_t dk_abi_version() { return DK_ABI_VERSION; }

const char *dk_instruction_set(int32_t index) {
    for (const dk::Kernels *table : dk::kTables) {
        if (table->is_supported() && index-- == 0) return table->name;
    }
    return nullptr;
}

int32_t dk_use(const char *instruction_set) {
    const dk::Kernels *table = dk::find(instruction_set);
    if (table) dk::chosen.store(table, std::memory_order_release);
    return table ? 0 : -1;
}

void dk_set_parallel(dk_parallel parallel, int (*team_size)()) {
    dk::size_of_team.store(team_size, std::memory_order_release);
    dk::runtime.store(parallel, std::memory_order_release);
}

void dk_row(const dk_matrix *matrix, int64_t row, float *out) { dk::kernels().row(*matrix, row, out); }

uint64_t dk_read(const uint8_t *data, int64_t bytes, int32_t threads) {
    constexpr int64_t kPiece = 1 << 20, kEven = 256;
    std::atomic<uint64_t> total{0};
    dk::in_parallel(threads, [&](dk::Worker &worker) {
        uint64_t sum = 0;
        worker.phase((bytes + kPiece - 1) / kPiece, [&](int64_t piece) {
            const uint8_t *begin = data + piece * kPiece;
            const int64_t count = std::min(kPiece, bytes - piece * kPiece), even = count / kEven * kEven;
            sum += dk::kernels().read(begin, even);
            for (int64_t i = even; i + 8 <= count; i += 8) {
                uint64_t word;
                std::memcpy(&word, begin + i, sizeof word);
                sum += word;
            }
        });
        total.fetch_add(sum, std::memory_order_relaxed);
    });
    return total.load();
}
