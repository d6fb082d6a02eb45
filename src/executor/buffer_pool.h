// BufferPool: memory that calls need only while they run. All communicators of the process share it, so that what each
// of them takes does not grow with the largest call that it ever made.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

class BufferPool {
 public:
  // Gives its memory back when it ends. Empty when it has none.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
      Buffer(std::move(other)).swap(*this);
      return *this;
    }
    ~Buffer() {
      if (data_ != nullptr) pool_->put_back(data_, size_class_);
    }

    std::byte* data() const { return data_; }
    size_t size() const;
    explicit operator bool() const { return data_ != nullptr; }

   private:
    friend class BufferPool;
    void swap(Buffer& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(data_, other.data_);
      std::swap(size_class_, other.size_class_);
    }

    BufferPool* pool_ = nullptr;
    std::byte* data_ = nullptr;
    int size_class_ = 0;
  };

  // The process's. Never ends, since communicators may outlive all that ends in order.
  static BufferPool& of_process();
  ~BufferPool();

  // At least so many bytes on a 64-byte boundary, with any content. Any thread. Errors: std::bad_alloc.
  Buffer take(size_t size_bytes);
  // Around a fork, so that the child finds it in order.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  // Of what nobody uses and is kept for the next one.
  size_t idle_bytes() const;

 private:
  static constexpr int kSizeClasses = 64;  // powers of two

  std::byte* allocate(int size_class);
  void put_back(std::byte* data, int size_class) noexcept;

  mutable std::mutex mutex_;
  struct SizeClass {
    std::vector<std::byte*> idle;
    size_t lent = 0;  // there is always room for these in `idle`
  };
  std::array<SizeClass, kSizeClasses> classes_;
  size_t idle_bytes_ = 0;
};

}  // namespace tutti
