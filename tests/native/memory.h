// Memory of exactly the size that is needed, so that the address sanitizer sees the first byte behind it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace test {

// `count` elements, all bits set at first: floats are NaN until somebody writes them. Aligned to `alignment`
// bytes and, where that is less than a vector's, to no more.
template <class T>
class Exact {
  public:
    explicit Exact(int64_t count, size_t alignment = alignof(T)) : count_(count) {
        const size_t bytes = static_cast<size_t>(count) * sizeof(T), skipped = alignment < 16 ? alignment : 0;
        const size_t boundary = alignment < 16 ? 16 : alignment;
        if (posix_memalign(&memory_, boundary, bytes + skipped)) throw std::bad_alloc();
        data_ = reinterpret_cast<T *>(static_cast<uint8_t *>(memory_) + skipped);
        if (bytes) std::memset(static_cast<void *>(data_), 0xFF, bytes);
    }
    ~Exact() { std::free(memory_); }
    Exact(Exact &&other) noexcept
        : count_(other.count_), memory_(std::exchange(other.memory_, nullptr)), data_(other.data_) {}
    Exact(const Exact &) = delete;

    T *data() const { return data_; }
    T *begin() const { return data_; }
    T *end() const { return data_ + count_; }
    T &operator[](int64_t i) const { return data_[i]; }
    int64_t size() const { return count_; }

  private:
    int64_t count_;
    void *memory_ = nullptr;
    T *data_;
};

constexpr size_t kLine = 64;  // bytes: the alignment of matrices and scratch

using Floats = Exact<float>;
using Bytes = Exact<uint8_t>;

}  // namespace test
