// Fibers: many threads of control on one thread, one at a time, in an order that a seed decides. For tests.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace tutti::test {

class Fibers {
 public:
  explicit Fibers(uint64_t seed) : random_(seed) {}
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // Before run(). Bodies own nothing: one that never ends is left where it is.
  void add(std::function<void()> body);

  enum class End : uint8_t { kAll, kStuck, kTooLong };
  // Until all have ended, or all that have not are suspended, or so many times one of them was gone on with.
  // `between`: called before each of them.
  End run(uint64_t most_steps, const std::function<void()>& between = {});

  // Of the fiber that runs:
  size_t current() const { return current_; }
  void yield();
  void suspend();
  void resume(size_t fiber);

  std::mt19937_64& random() { return random_; }

 private:
  struct Fiber {
    std::function<void()> body;
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    bool is_done = false;
  };
  static void enter(unsigned high, unsigned low);

  std::mt19937_64 random_;
  std::deque<Fiber> fibers_;
  std::vector<size_t> ready_;
  ucontext_t scheduler_{};
  size_t current_ = 0;
};

// Of some fibers, again and again.
class FiberBarrier {
 public:
  FiberBarrier(Fibers& fibers, uint32_t count) : fibers_(fibers), count_(count) {}
  // Gives all of them whether any of them says so.
  bool arrive(bool mine);

 private:
  Fibers& fibers_;
  const uint32_t count_;
  std::vector<size_t> waiting_;
  bool any_ = false;
  bool result_ = false;
};

}  // namespace tutti::test
