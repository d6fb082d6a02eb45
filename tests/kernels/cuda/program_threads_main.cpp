// The interpreter of GPUs with a thread of the host for each thread of theirs, for ThreadSanitizer: no order of theirs
// hides a race from it. Usage: [MISTAKE], one that is made on purpose; without one the exit status is 0.
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include "kernels/cuda/block_barrier.h"
#include "kernels/cuda/gpu_job.h"
#include "kernels/cuda/program_bodies.h"

namespace tutti::test {
namespace {

using cuda::Barrier;
using cuda::Order;

struct Mistake {
  std::optional<Barrier> missing;
  std::optional<Order> relaxed_store;
  std::optional<Order> relaxed_load;
};

struct Block {
  explicit Block(uint32_t threads) : barrier(threads) {}
  BlockBarrier barrier;
  cuda::ProgramBlock shared{};
};

class ThreadEnv : public cuda::HostEnv {
 public:
  ThreadEnv(Block& shared, const Mistake& mistake, uint32_t block, uint32_t thread, uint32_t threads)
      : shared_(shared), mistake_(mistake), block_(block), thread_(thread), threads_(threads) {}
  uint32_t block() const override { return block_; }
  uint32_t thread() const override { return thread_; }
  uint32_t threads() const override { return threads_; }
  void read(void* to, uint64_t address, size_t size_bytes) override {
    if (address < kLeastAddress) return;  // a mistake has it that nobody has found the place yet
    std::memcpy(to, reinterpret_cast<const void*>(address), size_bytes);
  }
  void write(uint64_t address, const void* from, size_t size_bytes) override {
    if (address < kLeastAddress) return;
    std::memcpy(reinterpret_cast<void*>(address), from, size_bytes);
  }
  uint64_t load_acquire(uint64_t address, Order order) override {
    std::this_thread::yield();
    auto how = mistake_.relaxed_load == order ? std::memory_order_relaxed : std::memory_order_acquire;
    return word(address).load(how);
  }
  void store_release(uint64_t address, uint64_t value, Order order) override {
    auto how = mistake_.relaxed_store == order ? std::memory_order_relaxed : std::memory_order_release;
    word(address).store(value, how);
  }
  bool sync_or(bool mine, Barrier barrier) override {
    return mistake_.missing == barrier ? mine : shared_.barrier.arrive(mine);
  }
  bool is_cancelled(const uint32_t*) override { return false; }
  void say_late(uint32_t*, uint32_t) override {}
  uint64_t now_ns() override { return 0; }

 private:
  static constexpr uint64_t kLeastAddress = 1 << 16;
  static std::atomic_ref<uint64_t> word(uint64_t address) {
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(address));
  }
  Block& shared_;
  const Mistake& mistake_;
  const uint32_t block_, thread_, threads_;
};

void launch(const Mistake& mistake, cuda::ProgramBody body, std::span<cuda::ProgramArgs> args) {
  auto count = static_cast<uint32_t>(args.size());
  std::deque<Block> blocks;
  std::deque<ThreadEnv> envs;
  std::vector<std::thread> threads;
  for (cuda::ProgramArgs& each : args) {
    for (uint32_t b = 0; b < each.channels; ++b) {
      Block& block = blocks.emplace_back(count);
      for (uint32_t t = 0; t < count; ++t) {
        ThreadEnv& env = envs.emplace_back(block, mistake, b, t, count);
        threads.emplace_back([&] { body(each, env, block.shared); });
      }
    }
  }
  for (std::thread& each : threads) each.join();
}

std::string run_all(const Mistake& mistake) {
  std::mt19937_64 random(6);
  for (int nranks = 2; nranks <= 3; ++nranks) {
    GpuJob job(nranks);
    for (const Algorithm* algorithm : algorithms()) {
      GpuCase which = draw_gpu_case(*algorithm, nranks, random);
      which.channels = 1 + static_cast<int>(random() % 2);
      which.count = 600;  // so that slots are used again
      which.slice_bytes = 64;
      std::string wrong = job.run(which, random, [&](const std::string& kernel, auto args, auto) {
        launch(mistake, cuda::program_body(kernel), args);
        return "";
      });
      if (!wrong.empty()) return fmt::format("{} ranks, {}: {}", nranks, which.text(), wrong);
    }
  }
  return "";
}

struct Named {
  const char* name;
  Mistake mistake;
};
const Named kMistakes[] = {{"none", {}},
                           {"no-ready-barrier", {.missing = Barrier::kReady}},
                           {"no-placed-barrier", {.missing = Barrier::kPlaced}},
                           {"no-stored-barrier", {.missing = Barrier::kStored}},
                           {"relaxed-message-store", {.relaxed_store = Order::kMessage}},
                           {"relaxed-message-load", {.relaxed_load = Order::kMessage}},
                           {"relaxed-freed-store", {.relaxed_store = Order::kFreed}},
                           {"relaxed-freed-load", {.relaxed_load = Order::kFreed}}};

}  // namespace
}  // namespace tutti::test

int main(int argc, char** argv) {
  const char* asked = argc > 1 ? argv[1] : "none";
  for (const auto& each : tutti::test::kMistakes) {
    if (std::strcmp(each.name, asked) != 0) continue;
    std::string wrong = tutti::test::run_all(each.mistake);
    std::printf("%s\n", wrong.empty() ? "all is right" : wrong.c_str());
    return wrong.empty() ? 0 : 1;
  }
  std::fprintf(stderr, "no mistake is called %s\n", asked);
  return 2;
}
