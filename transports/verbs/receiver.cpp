#include "transports/verbs/receiver.h"

#include <cstring>

#include "transports/common/mapped.h"

namespace tutti {

Status VerbsReceiver::post_all() {
  for (uint64_t slot = 0; slot < kReceives; ++slot) TUTTI_TRY(post(slot));
  return {};
}

Status VerbsReceiver::post(uint64_t slot) {
  ibv_sge memory{.addr = reinterpret_cast<uint64_t>(memory_.receive_slot(slot)),
                 .length = kMessageBytes,
                 .lkey = memory_.key()};
  ibv_recv_wr receive{};
  receive.wr_id = slot;
  receive.sg_list = &memory;
  receive.num_sge = 1;
  return queue_.post(receive);
}

Result<VerbsReceiver::Message> VerbsReceiver::take(uint64_t request, uint32_t size_bytes) {
  Message taken;
  MessageHead& head = taken.head;
  std::span message(memory_.receive_slot(request), kMessageBytes);
  if (size_bytes < sizeof head || size_bytes > message.size()) {
    return error(Code::kRemote, "the peer sent a message of {} bytes", size_bytes);
  }
  std::memcpy(&head, message.data(), sizeof head);
  if (head.kind == MessageHead::Kind::kSignal) {
    if (size_bytes != sizeof head + sizeof(Line) + head.payload_bytes) {
      return error(Code::kRemote, "the peer sent a message of {} bytes with a payload of {}", size_bytes,
                   head.payload_bytes);
    }
    TUTTI_TRY(store(head, message));
  }
  if (head.kind == MessageHead::Kind::kShare && size_bytes == sizeof head + sizeof(Line)) {
    std::memcpy(taken.line.words, message.data() + sizeof head, sizeof taken.line.words);
  }
  TUTTI_TRY(post(request));
  return taken;
}

Status VerbsReceiver::store(const MessageHead& head, std::span<const std::byte> message) const {
  std::byte* at = writable(head.signal_memory, head.signal_offset, sizeof(Line));
  if (at == nullptr || reinterpret_cast<uintptr_t>(at) % alignof(Line) != 0) {
    return error(Code::kRemote, "the peer sent a signal to memory {} offset {}, where it may not write",
                 head.signal_memory, head.signal_offset);
  }
  if (head.payload_bytes > 0) {
    std::byte* to = writable(head.payload_memory, head.payload_offset, head.payload_bytes);
    if (to == nullptr) {
      return error(Code::kRemote, "the peer sent {} bytes to memory {} offset {}, where it may not write",
                   head.payload_bytes, head.payload_memory, head.payload_offset);
    }
    std::memcpy(to, message.data() + sizeof head + sizeof(Line), head.payload_bytes);
  }
  Line line;
  std::memcpy(line.words, message.data() + sizeof head, sizeof line.words);
  store_line(at, line);
  return {};
}

std::byte* VerbsReceiver::writable(uint32_t id, uint64_t offset, uint64_t size_bytes) const {
  auto found = exposed_.find(id);
  if (found == exposed_.end() || !in_bounds(found->second.size(), offset, size_bytes)) return nullptr;
  return found->second.data() + offset;
}

}  // namespace tutti
