// A parallel runtime on std::thread, as the kernels want one from outside.
#pragma once

namespace test {

// Uses it for as long as it lives; regions get at most `most` threads, whatever they ask for.
class Threads {
  public:
    explicit Threads(int most = 1 << 20);
    ~Threads();
    Threads(const Threads &) = delete;
};

}  // namespace test
