#include "transports/common/mapped.h"

#include <atomic>
#include <cstring>

namespace tutti {

std::string put_problem(const RemoteSlice& to, uint64_t size_bytes) {
  if (size_bytes == 0) return {};
  if (to.memory == nullptr) return "the put names no memory of the peer";
  if (in_bounds(to.memory->size_bytes, to.offset, size_bytes)) return {};
  return fmt::format("a put of {} bytes at offset {} does not fit into memory {} of {} bytes", size_bytes, to.offset,
                     to.memory->id, to.memory->size_bytes);
}

std::string signal_problem(const RemoteSlice& signal) {
  if (takes_line(signal)) return {};
  if (signal.memory == nullptr) return "the signal names no memory of the peer";
  bool misaligned = (reinterpret_cast<uintptr_t>(signal.memory->mapped) + signal.offset) % sizeof(Line) != 0;
  if (misaligned) return fmt::format("the signal at offset {} is not aligned to 64 bytes", signal.offset);
  return fmt::format("the signal at offset {} does not fit into memory {} of {} bytes", signal.offset,
                     signal.memory->id, signal.memory->size_bytes);
}

void store_line(std::byte* at, const Line& line) {
  auto* words = reinterpret_cast<uint64_t*>(at);
  for (int i = 1; i < 8; ++i) std::atomic_ref<uint64_t>(words[i]).store(line.words[i], std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(words[0]).store(line.words[0], std::memory_order_release);
}

Result<PutResult> MappedWriter::put(const RemoteSlice& to, std::span<const std::byte> from, const RemoteSlice& signal,
                                    const Line& line) {
  if (!state_.ok()) return state_.check();
  if (auto problem = put_problem(to, from.size()); !problem.empty()) {
    return state_.refuse(Code::kInvalidArgument, problem);
  }
  if (!takes_line(signal)) return state_.refuse(Code::kInvalidArgument, signal_problem(signal));
  if (!from.empty()) std::memcpy(to.memory->mapped + to.offset, from.data(), from.size());
  ++puts_;
  store_line(signal.memory->mapped + signal.offset, line);
  peer_bell_.ring_if_asleep();
  return PutResult::kDone;
}

Result<PutResult> MappedWriter::signal(const RemoteSlice& signal, const Line& line) {
  if (!state_.ok()) return state_.check();
  if (!takes_line(signal)) return state_.refuse(Code::kInvalidArgument, signal_problem(signal));
  store_line(signal.memory->mapped + signal.offset, line);
  peer_bell_.ring_if_asleep();
  return PutResult::kDone;
}

bool MappedAccess::begin() noexcept {
  add_busy(1);
  if (!peer_has_left()) return true;
  add_busy(UINT32_MAX);
  return false;
}

// Looks after it is out, which finds too much rather than too little.
bool MappedAccess::end() noexcept {
  add_busy(UINT32_MAX);
  return !peer_has_left();
}

bool MappedAccess::peer_is_busy() const noexcept {
  return theirs_ != nullptr && std::atomic_ref<uint32_t>(theirs_->busy).load(std::memory_order_acquire) != 0;
}

void MappedAccess::leave() noexcept {
  AccessWords* mine = mine_.load(std::memory_order_acquire);
  if (mine == nullptr) return;
  std::atomic_ref<uint32_t>(mine->left).store(1, std::memory_order_release);
  full_fence();
}

void MappedAccess::tell_cpu(int cpu) noexcept {
  AccessWords* mine = mine_.load(std::memory_order_acquire);
  if (mine != nullptr) std::atomic_ref<int32_t>(mine->cpu).store(cpu + 1, std::memory_order_relaxed);
}

int MappedAccess::peer_cpu() const noexcept {
  return theirs_ == nullptr ? -1 : std::atomic_ref<int32_t>(theirs_->cpu).load(std::memory_order_relaxed) - 1;
}

bool MappedAccess::peer_has_left() const noexcept {
  return std::atomic_ref<uint32_t>(theirs_->left).load() != 0;
}

// Sequentially consistent, and so the fence between this word and the peer's.
void MappedAccess::add_busy(uint32_t difference) noexcept {
  std::atomic_ref<uint32_t>(mine_.load(std::memory_order_relaxed)->busy).fetch_add(difference);
}

}  // namespace tutti
