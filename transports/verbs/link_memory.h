// The memory that one verbs link needs for itself, registered with its device.
#pragma once

#include "base/fd.h"
#include "transports/verbs/device.h"
#include "transports/verbs/wire.h"

namespace tutti {

// So many requests and messages may be under way.
inline constexpr uint32_t kSends = 128;
inline constexpr uint32_t kReceives = 128;
// Payloads whose own memory is not registered are copied here on their way: the device reads one block while the next
// is filled.
inline constexpr uint32_t kBlocks = 16;
inline constexpr size_t kBlockBytes = 64 * 1024;
// What the executor composes here goes out from here.
inline constexpr uint32_t kStages = 8;
inline constexpr size_t kStageBytes = 256 * 1024;
inline constexpr size_t kProbeBytes = 8192;  // more than the largest packet: whether that passes is the question

class LinkMemory {
 public:
  static Result<LinkMemory> create(const VerbsDevice& device);

  std::byte* send_slot(uint64_t number) const { return at(number % kSends * kMessageBytes); }
  std::byte* receive_slot(uint64_t number) const { return at((kSends + number % kReceives) * kMessageBytes); }
  std::byte* block(uint64_t number) const { return at(kSlotsBytes + number % kBlocks * kBlockBytes); }
  std::byte* stage(uint32_t number) const { return at(kStagesAt + number * kStageBytes); }
  // The number of the stage that begins at `data`, or kStages.
  uint32_t stage_at(const std::byte* data) const {
    auto offset = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(stage(0));
    return offset < kStages * kStageBytes ? static_cast<uint32_t>(offset / kStageBytes) : kStages;
  }
  // The only part that the peer writes.
  std::span<std::byte> probe() const { return mapping_.bytes().subspan(kProbeAt, kProbeBytes); }
  uint32_t key() const { return own_.local_key(); }
  RemoteRange probe_range() const {
    return {reinterpret_cast<uint64_t>(probe().data()), probe_.remote_key()};
  }

 private:
  static constexpr size_t kSlotsBytes = (kSends + kReceives) * kMessageBytes;
  static constexpr size_t kStagesAt = kSlotsBytes + kBlocks * kBlockBytes;
  static constexpr size_t kProbeAt = kStagesAt + kStages * kStageBytes;

  std::byte* at(size_t offset) const { return mapping_.bytes().data() + offset; }

  Mapping mapping_;
  Registration own_;
  Registration probe_;
};

}  // namespace tutti
