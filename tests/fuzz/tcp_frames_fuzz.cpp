// A TCP peer may send anything: it writes only where it may, and how its bytes were cut into pieces makes no
// difference. The first byte of an input is the size of the pieces.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/input.h"
#include "transports/common/mapped.h"
#include "transports/tcp/frame_reader.h"
#include "transports/common/tcp_host.h"

namespace {

constexpr size_t kMemoryBytes = 4096;

// One memory with id 1 and guards around it.
class Receiver final : public tutti::FrameSink {
 public:
  Receiver() { memory_.fill(kGuard); }

  std::byte* writable(uint32_t id, uint64_t offset, uint64_t size_bytes) override {
    if (id != 1 || !tutti::in_bounds(kMemoryBytes, offset, size_bytes)) return nullptr;
    return memory_.data() + kMemoryBytes + offset;
  }
  tutti::Status control(const tutti::Frame&) override { return {}; }

  // False when the reader refused the stream.
  bool receive(std::span<const std::byte> bytes, size_t piece) {
    while (!bytes.empty()) {
      size_t left = std::min(piece, bytes.size()), taken = 0;
      for (const iovec& part : reader_.space()) {
        size_t size = std::min(left, part.iov_len);
        std::memcpy(part.iov_base, bytes.data(), size);
        bytes = bytes.subspan(size);
        left -= size;
        taken += size;
      }
      if (!reader_.filled(taken).ok()) return false;
    }
    return true;
  }
  bool guards_hold() const {
    auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(memory_.begin(), memory_.begin() + kMemoryBytes, is_guard) &&
           std::all_of(memory_.end() - kMemoryBytes, memory_.end(), is_guard);
  }
  friend bool operator==(const Receiver& a, const Receiver& b) { return a.memory_ == b.memory_; }

 private:
  static constexpr std::byte kGuard{0xa5};
  alignas(64) std::array<std::byte, 3 * kMemoryBytes> memory_;
  tutti::FrameReader reader_{*this};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto bytes = tutti::fuzz::as_bytes(data, size_bytes);
  if (auto host = tutti::parse_tcp_host(bytes); host.ok()) {
    for (const auto& address : host->addresses) TUTTI_CHECK(!to_text(address).empty());
    TUTTI_CHECK(tutti::parse_tcp_host(tutti::encode(*host)).value() == *host);
  }
  if (bytes.empty()) return 0;
  size_t piece = std::max<size_t>(1, static_cast<size_t>(bytes[0]));
  Receiver whole, pieces;
  bool whole_ok = whole.receive(bytes.subspan(1), SIZE_MAX);
  bool pieces_ok = pieces.receive(bytes.subspan(1), piece);
  TUTTI_CHECK(whole.guards_hold() && pieces.guards_hold());
  TUTTI_CHECK(whole_ok == pieces_ok);
  TUTTI_CHECK(!whole_ok || whole == pieces);
  return 0;
}
