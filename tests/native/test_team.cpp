// Phases of a team of threads, and the read that measures memory.
#include <atomic>
#include <memory>
#include <vector>

#include "check.h"
#include "memory.h"
#include "numbers.h"
#include "team.h"
#include "threads.h"

using namespace test;

namespace {

// Runs phases of `tasks` tasks each; every task must run once, and after all tasks of the phase before.
void check_phases(int threads, int64_t tasks) {
    constexpr int kPhases = 20;
    std::vector<std::unique_ptr<std::atomic<int>[]>> runs;
    for (int p = 0; p < kPhases; ++p) runs.push_back(std::make_unique<std::atomic<int>[]>(tasks + 1));
    std::atomic<int> early{0}, prepared{0};
    dk::in_parallel(threads, [&](dk::Worker &worker) {
        for (int p = 0; p < kPhases; ++p) {
            worker.phase(
                tasks, [&] { ++prepared; },
                [&, p](int64_t task) {
                    for (int64_t i = 0; p > 0 && i < tasks; ++i) early += runs[p - 1][i] != 1;
                    ++runs[p][task];
                });
        }
    });
    const Situation situation("%d threads, %d tasks", threads, static_cast<int>(tasks));
    CHECK(early == 0, "%d tasks of a phase before had not run", early.load());
    CHECK(prepared % kPhases == 0 && prepared >= kPhases, "prepared %d times", prepared.load());
    for (int p = 0; p < kPhases; ++p) {
        for (int64_t task = 0; task < tasks; ++task) {
            CHECK(runs[p][task] == 1, "task %d ran %d times", static_cast<int>(task), runs[p][task].load());
        }
    }
}

}  // namespace

TEST(threads_run_every_task_once_and_after_the_phase_before) {
    for (int threads : {0, 1, 3}) check_phases(threads, 10);  // without a runtime: on the calling thread
    const Threads runtime;
    for (int threads : {1, 2, 5}) {
        for (int64_t tasks : {0, 1, 2, 7, 100}) check_phases(threads, tasks);
    }
}

TEST(a_runtime_may_grant_fewer_threads_than_were_asked_for) {
    const Threads runtime(2);
    check_phases(5, 50);
}

TEST(reading_sums_every_word_once_with_any_number_of_threads) {
    Random random(30);
    const Threads runtime;
    for (int64_t words : {0, 1, 7, 8, 9, 1000, 100003}) {
        const Exact<uint64_t> data(words, kLine);
        uint64_t sum = 0;
        for (uint64_t &word : data) sum += word = random.bits();
        for (int threads : {1, 2, 5}) {
            const uint64_t got = dk_read(reinterpret_cast<const uint8_t *>(data.data()), 8 * words, threads);
            CHECK(got == sum, "%d words, %d threads", static_cast<int>(words), threads);
        }
    }
}
