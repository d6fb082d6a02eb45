#include "executor/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace tutti {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kSmallestBytes = 64;
// More than that is given back to the system.
constexpr size_t kMostIdleBytes = 64 * 1024 * 1024;

size_t bytes_of(int size_class) { return size_t{1} << size_class; }

}  // namespace

size_t BufferPool::Buffer::size() const { return data_ == nullptr ? 0 : bytes_of(size_class_); }

BufferPool& BufferPool::of_process() {
  static auto* pool = new BufferPool;
  return *pool;
}

BufferPool::~BufferPool() {
  for (SizeClass& each : classes_) {
    for (std::byte* data : each.idle) ::operator delete(data, kAlignment);
  }
}

BufferPool::Buffer BufferPool::take(size_t size_bytes) {
  int number = std::bit_width(std::max(size_bytes, kSmallestBytes) - 1);
  SizeClass& which = classes_[number];
  std::byte* data = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (which.idle.capacity() <= which.lent) which.idle.reserve(2 * which.lent + 1);
    ++which.lent;
    if (!which.idle.empty()) {
      data = which.idle.back();
      which.idle.pop_back();
      idle_bytes_ -= bytes_of(number);
    }
  }
  if (data == nullptr) data = allocate(number);
  Buffer buffer;
  buffer.pool_ = this;
  buffer.data_ = data;
  buffer.size_class_ = number;
  return buffer;
}

std::byte* BufferPool::allocate(int size_class) {
  try {
    return static_cast<std::byte*>(::operator new(bytes_of(size_class), kAlignment));
  } catch (...) {
    std::lock_guard lock(mutex_);
    --classes_[size_class].lent;
    throw;
  }
}

void BufferPool::put_back(std::byte* data, int size_class) noexcept {
  {
    std::lock_guard lock(mutex_);
    SizeClass& which = classes_[size_class];
    --which.lent;
    if (which.idle.size() < which.idle.capacity() && idle_bytes_ + bytes_of(size_class) <= kMostIdleBytes) {
      which.idle.push_back(data);
      idle_bytes_ += bytes_of(size_class);
      return;
    }
  }
  ::operator delete(data, kAlignment);
}

size_t BufferPool::idle_bytes() const {
  std::lock_guard lock(mutex_);
  return idle_bytes_;
}

}  // namespace tutti
