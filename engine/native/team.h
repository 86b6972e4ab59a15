// A team of threads inside one parallel region: a barrier that gives its core away when it has to wait long,
// and work that is split evenly and then stolen, so that a thread the system has put aside holds nobody up.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "decodeck.h"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <thread>
#endif

namespace dk {

constexpr int kMaxThreads = 128;

dk_parallel parallel_runtime();       // null: none was set
int granted_threads(int asked);       // inside a region: how many threads it has

inline void pause_core() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

class Barrier {
  public:
    void wait(int threads) {
        const int32_t phase = phase_.load(std::memory_order_acquire);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
            arrived_.store(0, std::memory_order_relaxed);
            phase_.store(phase + 1, std::memory_order_seq_cst);
            if (sleepers_.load(std::memory_order_seq_cst)) wake();
            return;
        }
        for (int spin = 0; spin < kSpins; ++spin) {
            if (phase_.load(std::memory_order_acquire) != phase) return;
            pause_core();
        }
        sleep(phase);
    }

  private:
    // A few dozen microseconds: longer than any even share differs, shorter than a time slice.
    static constexpr int kSpins = 4000;

    void sleep(int32_t phase) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        while (phase_.load(std::memory_order_seq_cst) == phase) {
#if defined(__linux__)
            syscall(SYS_futex, &phase_, FUTEX_WAIT_PRIVATE, phase, nullptr, nullptr, 0);
#else
            std::this_thread::yield();
#endif
        }
        sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }

    void wake() {
#if defined(__linux__)
        syscall(SYS_futex, &phase_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
#endif
    }

    std::atomic<int32_t> phase_{0};
    alignas(64) std::atomic<int32_t> arrived_{0};
    std::atomic<int32_t> sleepers_{0};
};

// The tasks [low, high) one thread still has; it takes from the front, others steal from the back.
class alignas(64) Share {
  public:
    void set(uint32_t low, uint32_t high) { range_.store(join(low, high), std::memory_order_relaxed); }

    bool take(uint32_t &task, bool from_back) {
        uint64_t range = range_.load(std::memory_order_relaxed);
        for (;;) {
            const uint32_t low = static_cast<uint32_t>(range >> 32), high = static_cast<uint32_t>(range);
            if (low >= high) return false;
            const uint64_t rest = from_back ? join(low, high - 1) : join(low + 1, high);
            if (range_.compare_exchange_weak(range, rest, std::memory_order_relaxed)) {
                task = from_back ? high - 1 : low;
                return true;
            }
        }
    }

  private:
    static uint64_t join(uint32_t low, uint32_t high) { return static_cast<uint64_t>(low) << 32 | high; }
    std::atomic<uint64_t> range_{0};
};

struct Team {
    Barrier barrier;
    std::atomic<int> joined{0};
    Share shares[2][kMaxThreads];  // of this phase and of the next one
};

// One thread's view of its team.
class Worker {
  public:
    Worker(Team &team, int threads)
        : team_(team), threads_(threads), id_(team.joined.fetch_add(1, std::memory_order_relaxed)) {}

    int id() const { return id_; }
    int threads() const { return threads_; }

    // Tasks 0 .. tasks − 1 over the whole team, after everything before is done by all of them.
    // `prepare` runs once on every thread first.
    template <class Prepare, class Body>
    void phase(int64_t tasks, Prepare &&prepare, Body &&body) {
        const int64_t n = threads_;
        Share *shares = team_.shares[turn_ ^= 1];
        shares[id_].set(static_cast<uint32_t>(tasks * id_ / n), static_cast<uint32_t>(tasks * (id_ + 1) / n));
        team_.barrier.wait(threads_);
        prepare();
        uint32_t task;
        while (shares[id_].take(task, false)) body(static_cast<int64_t>(task));
        for (int other = 1; other < n; ++other) {
            Share &theirs = shares[(id_ + other) % n];
            while (theirs.take(task, true)) body(static_cast<int64_t>(task));
        }
    }

    template <class Body>
    void phase(int64_t tasks, Body &&body) {
        phase(tasks, [] {}, body);
    }

  private:
    Team &team_;
    int threads_;
    int id_;
    int turn_ = 0;
};

inline int team_size(int threads) {
    if (!parallel_runtime() || threads < 1) return 1;
    return threads < kMaxThreads ? threads : kMaxThreads;
}

// Runs body(worker) on every thread of a team.
template <class Body>
void in_parallel(int threads, Body &&body) {
    struct Region {
        Team team;
        int asked;
        std::remove_reference_t<Body> *body;
    };
    const auto region = std::make_unique<Region>();
    region->asked = team_size(threads);
    region->body = &body;
    auto enter = [](void *argument) {
        auto *here = static_cast<Region *>(argument);
        Worker worker(here->team, granted_threads(here->asked));
        (*here->body)(worker);
    };
    if (region->asked == 1) {
        enter(region.get());
    } else {
        parallel_runtime()(enter, region.get(), static_cast<unsigned>(region->asked), 0);
    }
}

}  // namespace dk
