#include "threads.h"

#include <thread>
#include <vector>

#include "decodeck.h"

namespace test {
namespace {

int most_threads;
thread_local int team = 1;

void enter(void (*body)(void *), void *argument, int threads) {
    team = threads;
    body(argument);
    team = 1;
}

void parallel(void (*body)(void *), void *argument, unsigned asked, unsigned) {
    const int threads = static_cast<int>(asked) < most_threads ? static_cast<int>(asked) : most_threads;
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(enter, body, argument, threads);
    enter(body, argument, threads);
    for (std::thread &other : others) other.join();
}

int team_size() { return team; }

}  // namespace

Threads::Threads(int most) {
    most_threads = most;
    dk_set_parallel(parallel, team_size);
}

Threads::~Threads() { dk_set_parallel(nullptr, nullptr); }

}  // namespace test
