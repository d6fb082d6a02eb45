// The receiving half of a verbs link: keeps receives posted, and puts what messages say into this rank's memory.
#pragma once

#include <unordered_map>

#include "transports/verbs/link_memory.h"
#include "transports/verbs/queue_pair.h"

namespace tutti {

class VerbsReceiver {
 public:
  VerbsReceiver(QueuePair& queue, const LinkMemory& memory) : queue_(queue), memory_(memory) {}

  // All of them, before the peer knows of this queue pair.
  Status post_all();
  // Memory that the peer's messages may name.
  void expose(uint32_t id, std::span<std::byte> memory) { exposed_[id] = memory; }
  // False if it was not.
  bool hide(uint32_t id) { return exposed_.erase(id) > 0; }
  bool exposes(uint32_t id) const { return exposed_.contains(id); }

  struct Message {
    MessageHead head;
    Line line;  // of kShare
  };
  // A receive has completed with so many bytes: stores the payload and then the line of a signal, and posts the receive
  // again.
  Result<Message> take(uint64_t request, uint32_t size_bytes);

 private:
  Status post(uint64_t slot);
  Status store(const MessageHead& head, std::span<const std::byte> message) const;
  std::byte* writable(uint32_t id, uint64_t offset, uint64_t size_bytes) const;

  QueuePair& queue_;
  const LinkMemory& memory_;
  std::unordered_map<uint32_t, std::span<std::byte>> exposed_;
};

}  // namespace tutti
