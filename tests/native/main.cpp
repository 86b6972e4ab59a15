// Every native kernel of every instruction set this processor has, against float64 references. By hand, at
// the top of the checkout, for the tests whose names contain PART:
//   g++ -std=c++17 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-math-errno
//       -ffp-contract=off -pthread -Iengine/native {tests,engine}/native/*.cpp -o /tmp/kernels
//   /tmp/kernels [PART [SHARE SHARES]]
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check.h"

namespace test {
namespace {

constexpr int kMostShown = 10;  // failures of one test that are printed

int failures = 0;
std::vector<std::string> situations;

std::string written(const char *format, va_list arguments) {
    char text[500];
    std::vsnprintf(text, sizeof text, format, arguments);
    return text;
}

}  // namespace

std::vector<Case> &cases() {
    static std::vector<Case> all;
    return all;
}

Situation::Situation(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    situations.push_back(written(format, arguments));
    va_end(arguments);
}

Situation::~Situation() { situations.pop_back(); }

bool expect(bool holds, const char *file, int line, const char *condition, const char *format, ...) {
    if (holds) return true;
    if (++failures > kMostShown) return false;
    va_list arguments;
    va_start(arguments, format);
    std::printf("  %s:%d: not %s: %s", file, line, condition, written(format, arguments).c_str());
    va_end(arguments);
    for (const std::string &situation : situations) std::printf(" · %s", situation.c_str());
    std::printf("\n");
    return false;
}

void expect_near(const char *file, int line, const float *got, const std::vector<double> &wanted,
                 const std::vector<double> &tolerance) {
    for (size_t i = 0; i < wanted.size(); ++i) {
        const bool is_near = std::fabs(got[i] - wanted[i]) <= tolerance[i];
        if (!expect(is_near, file, line, "near", "[%zu of %zu] %.9g, not %.9g ± %.3g", i, wanted.size(),
                    static_cast<double>(got[i]), wanted[i], tolerance[i])) {
            return;
        }
    }
}

void expect_same(const char *file, int line, const float *got, const float *wanted, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const bool is_same = std::memcmp(got + i, wanted + i, sizeof *got) == 0;
        if (!expect(is_same, file, line, "the same bits", "[%lld of %lld] %.9g, not %.9g",
                    static_cast<long long>(i), static_cast<long long>(count), static_cast<double>(got[i]),
                    static_cast<double>(wanted[i]))) {
            return;
        }
    }
}

namespace {

// Runs one test on one instruction set, or without one; returns whether it held.
bool run(const Case &test, const char *instruction_set) {
    failures = 0;
    const auto start = std::chrono::steady_clock::now();
    if (test.run) {
        test.run();
    } else {
        dk_use(instruction_set);
        test.run_kernels(dk::kernels());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%s %s%s%s (%.1f s)\n", failures ? "FAILED" : "ok", test.name, instruction_set ? " on " : "",
                instruction_set ? instruction_set : "", took.count());
    std::fflush(stdout);
    return failures == 0;
}

}  // namespace
}  // namespace test

// Of the tests with PART in their names it runs every SHARES-th, from the SHARE-th on.
int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "";
    const int share = count > 3 ? std::atoi(arguments[2]) : 0, shares = count > 3 ? std::atoi(arguments[3]) : 1;
    int found = 0, ran = 0, failed = 0;
    const auto run_share = [&](const test::Case &test, const char *instruction_set) {
        if (found++ % shares != share) return;
        ++ran, failed += !test::run(test, instruction_set);
    };
    for (const test::Case &test : test::cases()) {
        if (!std::strstr(test.name, part)) continue;
        if (test.run) {
            run_share(test, nullptr);
            continue;
        }
        for (int32_t i = 0; const char *name = dk_instruction_set(i); ++i) run_share(test, name);
    }
    std::printf("%d of %d failed\n", failed, ran);
    return failed || !found;
}
