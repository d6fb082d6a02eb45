// The receiving half of a verbs link: puts what messages say into this rank's memory, in the order in which they were
// sent, over whichever lane they come.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "transports/verbs/wire.h"

namespace tutti {

class VerbsReceiver {
 public:
  // Memory that the peer's messages may name.
  void expose(const LocalMemory& memory) { exposed_[memory.id] = {memory.bytes, memory.device}; }
  // False if it was not.
  bool hide(uint32_t id) { return exposed_.erase(id) > 0; }
  bool exposes(uint32_t id) const { return exposed_.contains(id); }

  // A message with a number has come; `rest` is what follows its head. It takes effect when all before it have, and
  // those behind it that were held back for it: payloads and then lines are stored. One that comes early is copied.
  // Errors: it is of no kind that has a number, one with its number has come, or more are early than any rank has under
  // way.
  Status take(const MessageHead& head, std::span<const std::byte> rest);
  // Where bytes go in this rank's memory.
  struct Place {
    std::span<std::byte> bytes;
    const DeviceMemory* device = nullptr;  // through which the host writes it, if it is a GPU's

    // The first of them, which are gone from `bytes` then.
    Status store(std::span<const std::byte> from);
  };
  // Where so many bytes of the message's payload go; they land there before the message takes effect. Errors: the peer
  // may not write there.
  Result<Place> place_for(const MessageHead& head, uint64_t payload_bytes) const;
  // What the peer has said of its own memory, in order: kShare and kRelease.
  struct News {
    MessageHead::Kind kind = MessageHead::Kind::kRelease;
    uint32_t memory = 0;
    Line line;
  };
  std::optional<News> next_news();

 private:
  // A rank has the rings of its streams under way, 64 lines on each of up to 65, and what it shares.
  static constexpr size_t kMostEarly = 16 * 1024;

  struct Early {
    MessageHead head;
    std::vector<std::byte> rest;
  };
  Status keep(const MessageHead& head, std::span<const std::byte> rest);
  Status apply(const MessageHead& head, std::span<const std::byte> rest);
  Status store(const MessageHead& head, std::span<const std::byte> rest) const;
  // Of no bytes where the peer may not write.
  Place writable(uint32_t id, uint64_t offset, uint64_t size_bytes) const;

  std::unordered_map<uint32_t, Place> exposed_;
  uint64_t applied_ = 0;         // the number of the last message that has taken effect
  std::map<uint64_t, Early> early_;  // by number
  std::deque<News> news_;
};

}  // namespace tutti
