#include "kernels/cuda/weak_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tutti::test {
namespace {

std::byte& truth(uint64_t address) { return *reinterpret_cast<std::byte*>(address); }

}  // namespace

WeakMemory::WeakMemory(size_t blocks, size_t threads_per_block)
    : threads_per_block_(threads_per_block), blocks_(blocks), buffers_(blocks * threads_per_block) {}

void WeakMemory::add(uint64_t address, size_t size_bytes) { memory_.push_back({address, size_bytes}); }

bool WeakMemory::is_memory(uint64_t address, size_t size_bytes) {
  bool is_known = std::any_of(memory_.begin(), memory_.end(), [&](const Span& span) {
    return address >= span.address && address + size_bytes <= span.address + span.size_bytes;
  });
  if (!is_known && fault_.empty()) fault_ = fmt::format("{} bytes at {:#x} are nobody's", size_bytes, address);
  return is_known;
}

void WeakMemory::put(Block& block, uint64_t address, std::byte value) {
  uint64_t place = address / kGrain;
  Grain& grain = block.grains[place];
  if (grain.stored == 0) block.stored.push_back(place);
  grain.stored |= static_cast<uint16_t>(1U << address % kGrain);
  grain.bytes[address % kGrain] = value;
}

std::byte WeakMemory::get(Block& block, uint64_t address) {
  Grain& grain = block.grains[address / kGrain];
  auto bit = static_cast<uint16_t>(1U << address % kGrain);
  if (grain.stored & bit) return grain.bytes[address % kGrain];
  if (grain.seen_in != block.epoch) grain.seen = 0;
  grain.seen_in = block.epoch;
  if (!(grain.seen & bit)) grain.bytes[address % kGrain] = truth(address);
  grain.seen |= bit;
  return grain.bytes[address % kGrain];
}

void WeakMemory::load(size_t thread, void* to, uint64_t address, size_t size_bytes) {
  if (!is_memory(address, size_bytes)) return;
  auto* bytes = static_cast<std::byte*>(to);
  Block& block = block_of(thread);
  for (size_t i = 0; i < size_bytes; ++i) bytes[i] = get(block, address + i);
  for (const Store& store : buffers_[thread]) {
    if (store.address >= address + size_bytes || address >= store.address + store.size_bytes) continue;
    for (size_t i = 0; i < store.size_bytes; ++i) {
      uint64_t at = store.address + i;
      if (at >= address && at < address + size_bytes) bytes[at - address] = store.bytes[i];
    }
  }
}

void WeakMemory::store(size_t thread, uint64_t address, const void* from, size_t size_bytes) {
  if (!is_memory(address, size_bytes)) return;
  Store& store = buffers_[thread].emplace_back(Store{.address = address, .size_bytes = size_bytes});
  std::memcpy(store.bytes.data(), from, size_bytes);
}

void WeakMemory::flush(size_t thread) {
  Block& block = block_of(thread);
  for (const Store& store : buffers_[thread]) {
    for (size_t i = 0; i < store.size_bytes; ++i) put(block, store.address + i, store.bytes[i]);
  }
  buffers_[thread].clear();
}

void WeakMemory::write_back(Block& block, uint64_t place) {
  Grain& grain = block.grains[place];
  for (size_t i = 0; i < kGrain; ++i) {
    if (grain.stored >> i & 1) truth(place * kGrain + i) = grain.bytes[i];
  }
  grain.seen = static_cast<uint16_t>(grain.seen_in == block.epoch ? grain.seen | grain.stored : grain.stored);
  grain.seen_in = block.epoch;
  grain.stored = 0;
}

void WeakMemory::release(Block& block) {
  for (uint64_t place : block.stored) write_back(block, place);
  block.stored.clear();
}

uint64_t WeakMemory::load_word(size_t thread, uint64_t address, bool is_ordered) {
  if (!is_memory(address, sizeof(uint64_t))) return 0;
  if (is_ordered) ++block_of(thread).epoch;
  uint64_t word = 0;
  std::memcpy(&word, &truth(address), sizeof word);
  return word;
}

void WeakMemory::store_word(size_t thread, uint64_t address, uint64_t value, bool is_ordered) {
  if (!is_memory(address, sizeof value)) return;
  if (is_ordered) {
    flush(thread);
    release(block_of(thread));
  }
  std::memcpy(&truth(address), &value, sizeof value);
}

void WeakMemory::leak(std::mt19937_64& random) {
  size_t thread = random() % buffers_.size();
  if (random() % 2 == 0) return flush(thread);
  Block& block = block_of(thread);
  if (block.stored.empty()) return;
  std::swap(block.stored[random() % block.stored.size()], block.stored.back());
  write_back(block, block.stored.back());
  block.stored.pop_back();
}

void WeakMemory::settle() {
  for (size_t thread = 0; thread < buffers_.size(); ++thread) flush(thread);
  for (Block& block : blocks_) release(block);
}

}  // namespace tutti::test
