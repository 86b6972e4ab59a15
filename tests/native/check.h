// A small test framework: tests register themselves; a failure says where and in which situation it happened.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace test {

// `run` runs once, `run_kernels` once for every instruction set that the processor has.
struct Case {
    const char *name;
    void (*run)();
    void (*run_kernels)(const dk::Kernels &);
};

std::vector<Case> &cases();

struct Registration {
    Registration(const char *name, void (*run)()) { cases().push_back({name, run, nullptr}); }
    Registration(const char *name, void (*run)(const dk::Kernels &)) {
        cases().push_back({name, nullptr, run});
    }
};

// Told with every failure for as long as it lives.
class Situation {
  public:
    [[gnu::format(printf, 2, 3)]] explicit Situation(const char *format, ...);
    ~Situation();
    Situation(const Situation &) = delete;
};

// Counts a failure where `holds` is false, and returns it.
[[gnu::format(printf, 5, 6)]] bool expect(bool holds, const char *file, int line, const char *condition,
                                          const char *format, ...);

// |got − wanted| ≤ tolerance for every element; NaN equals nothing.
void expect_near(const char *file, int line, const float *got, const std::vector<double> &wanted,
                 const std::vector<double> &tolerance);

// The same bits in both.
void expect_same(const char *file, int line, const float *got, const float *wanted, int64_t count);

}  // namespace test

#define TEST(name)                                                  \
    static void name();                                             \
    static const test::Registration registered_##name{#name, name}; \
    static void name()

#define KERNEL_TEST(name)                                           \
    static void name(const dk::Kernels &);                          \
    static const test::Registration registered_##name{#name, name}; \
    static void name([[maybe_unused]] const dk::Kernels &k)

#define CHECK(condition, ...) test::expect((condition), __FILE__, __LINE__, #condition, __VA_ARGS__)
#define CHECK_NEAR(...) test::expect_near(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK_SAME(...) test::expect_same(__FILE__, __LINE__, __VA_ARGS__)
