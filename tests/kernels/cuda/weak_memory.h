// WeakMemory: memory as the threads of GPUs may see it. What a thread stores is seen by itself at once, by the others
// of its block behind their next barrier, and by other blocks only when a thread of the block releases. A block may go
// on seeing what it has loaded before, until a thread of it acquires. For tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::test {

class WeakMemory {
 public:
  // Threads are numbered through, `threads_per_block` in each block.
  WeakMemory(size_t blocks, size_t threads_per_block);

  // Memory that may be used; what is there counts.
  void add(uint64_t address, size_t size_bytes);

  void load(size_t thread, void* to, uint64_t address, size_t size_bytes);
  void store(size_t thread, uint64_t address, const void* from, size_t size_bytes);
  // What the thread has stored is there for its block.
  void flush(size_t thread);
  // Words of 64 bits. An ordered load is an acquire, an ordered store a release.
  uint64_t load_word(size_t thread, uint64_t address, bool is_ordered);
  void store_word(size_t thread, uint64_t address, uint64_t value, bool is_ordered);

  // Something that a thread or a block keeps back may become visible at any time.
  void leak(std::mt19937_64& random);
  // The launches have ended.
  void settle();

  // "" or what was touched that is no memory.
  const std::string& fault() const { return fault_; }

 private:
  static constexpr size_t kGrain = 16;
  struct Store {
    uint64_t address = 0;
    size_t size_bytes = 0;
    std::array<std::byte, kGrain> bytes{};
  };
  // A block's view of so many bytes.
  struct Grain {
    std::array<std::byte, kGrain> bytes{};
    uint16_t stored = 0;   // bits: which of them the block has stored and not released
    uint16_t seen = 0;     // and which it has loaded, or released,
    uint64_t seen_in = 0;  // in this epoch
  };
  struct Block {
    std::unordered_map<uint64_t, Grain> grains;
    std::vector<uint64_t> stored;  // those with such bytes
    uint64_t epoch = 1;            // each acquire begins one
  };
  struct Span {
    uint64_t address = 0;
    size_t size_bytes = 0;
  };

  bool is_memory(uint64_t address, size_t size_bytes);
  Block& block_of(size_t thread) { return blocks_[thread / threads_per_block_]; }
  void put(Block& block, uint64_t address, std::byte value);
  std::byte get(Block& block, uint64_t address);
  void release(Block& block);
  void write_back(Block& block, uint64_t place);

  const size_t threads_per_block_;
  std::vector<Block> blocks_;
  std::vector<std::vector<Store>> buffers_;  // by thread
  std::vector<Span> memory_;
  std::string fault_;
};

}  // namespace tutti::test
