#include "kernels/cuda/simulated_gpus.h"

#include <fmt/format.h>

#include <array>
#include <deque>

#include "kernels/cuda/fibers.h"
#include "kernels/cuda/weak_memory.h"

namespace tutti::test {
namespace {

using cuda::Barrier;
using cuda::Order;

constexpr uint64_t kMostSteps = 4'000'000;

// What one launch has.
struct Launch {
  Launch(size_t blocks, uint32_t threads, uint64_t seed) : fibers(seed), memory(blocks, threads) {}
  Fibers fibers;
  WeakMemory memory;
  uint64_t steps = 0;
  uint32_t cancelled = 0;
};

struct Block {
  Block(Fibers& fibers, uint32_t threads) : barrier(fibers, threads) {}
  FiberBarrier barrier;
  cuda::ProgramBlock shared{};
};

class FiberEnv : public cuda::HostEnv {
 public:
  struct Where {
    uint32_t gpu = 0;
    uint32_t block = 0;
    uint32_t blocks = 1;
    uint32_t thread = 0;
    uint32_t threads = 1;
  };
  FiberEnv(Launch& launch, Block& block, const Mistake& mistake, const Where& where)
      : launch_(launch),
        block_(block),
        mistake_(mistake),
        where_(where),
        number_((size_t{where.gpu} * where.blocks + where.block) * where.threads + where.thread) {}

  uint32_t block() const override {
    bool is_wrong = mistake_.doubles_channel && where_.gpu == 1 && where_.block == 0;
    return is_wrong ? where_.blocks - 1 : where_.block;
  }
  uint32_t thread() const override { return where_.thread; }
  uint32_t threads() const override { return where_.threads; }

  void read(void* to, uint64_t address, size_t size_bytes) override {
    pause_sometimes();
    launch_.memory.load(number_, to, address, size_bytes);
  }
  void write(uint64_t address, const void* from, size_t size_bytes) override {
    pause_sometimes();
    launch_.memory.store(number_, address, from, size_bytes);
  }
  uint64_t load_acquire(uint64_t address, Order order) override {
    launch_.fibers.yield();
    return launch_.memory.load_word(number_, address, mistake_.relaxed_load != order);
  }
  void store_release(uint64_t address, uint64_t value, Order order) override {
    launch_.fibers.yield();
    launch_.memory.store_word(number_, address, value, mistake_.relaxed_store != order);
  }
  bool sync_or(bool mine, Barrier barrier) override {
    if (mistake_.missing == barrier) {
      launch_.fibers.yield();
      return mine;
    }
    launch_.memory.flush(number_);
    return block_.barrier.arrive(mine);
  }
  bool is_cancelled(const uint32_t* word) override { return *word != 0; }
  void say_late(uint32_t* word, uint32_t value) override { *word = value; }
  uint64_t now_ns() override { return launch_.steps; }

 private:
  void pause_sometimes() {
    if (launch_.fibers.random()() % 8 == 0) launch_.fibers.yield();
  }

  Launch& launch_;
  Block& block_;
  const Mistake& mistake_;
  const Where where_;
  const size_t number_;  // of all threads
};

}  // namespace

std::string SimulatedGpus::launch(const std::string& kernel, std::span<cuda::ProgramArgs> args,
                                  std::span<const GpuJob::Memory> memory) {
  cuda::ProgramBody body = cuda::program_body(kernel);
  auto blocks = args.front().channels;
  Launch launch(args.size() * blocks, threads_, ++seed_);
  if (mistake_.shifts_ranges) ++args[1].channels;
  for (const GpuJob::Memory& each : memory) launch.memory.add(each.address, each.size_bytes);
  std::deque<Block> all;
  std::deque<FiberEnv> threads;
  for (uint32_t gpu = 0; gpu < args.size(); ++gpu) {
    args[gpu].cancelled = &launch.cancelled;
    for (uint32_t b = 0; b < blocks; ++b) {
      Block& block = all.emplace_back(launch.fibers, threads_);
      for (uint32_t t = 0; t < threads_; ++t) {
        FiberEnv& env = threads.emplace_back(launch, block, mistake_, FiberEnv::Where{gpu, b, blocks, t, threads_});
        launch.fibers.add([&, gpu] { body(args[gpu], env, block.shared); });
      }
    }
  }
  // How soon stores become visible by themselves differs from launch to launch; in some they never do.
  uint64_t leaks = std::array<uint64_t, 3>{0, 50, 3}[seed_ % 3];
  auto between = [&] {
    ++launch.steps;
    if (leaks > 0 && launch.fibers.random()() % leaks == 0) launch.memory.leak(launch.fibers.random());
    if (cancel_after_ && launch.steps > *cancel_after_) launch.cancelled = 1;
  };
  Fibers::End end = launch.fibers.run(kMostSteps, between);
  std::string wrong = launch.memory.fault();
  if (wrong.empty() && end == Fibers::End::kStuck) wrong = "threads wait at a barrier for ever";
  if (wrong.empty() && end == Fibers::End::kTooLong) wrong = "threads wait for messages for ever";
  if (end == Fibers::End::kTooLong) {
    launch.cancelled = 1;
    if (launch.fibers.run(kMostSteps, between) == Fibers::End::kTooLong) wrong = "threads do not heed the cancelling";
  }
  launch.memory.settle();
  return wrong;
}

}  // namespace tutti::test
