#include "transfer.h"

#include <fmt/format.h>

namespace differential {
namespace {

std::unique_ptr<Buffer> memory_for(uint64_t count, const Datatype& type, Random& own) {
  if (count == 0 && own.one_in(2)) return nullptr;
  return std::make_unique<Buffer>(own.one_of({Memory::kMalloc, Memory::kTutti}), count * type.size, type.size, own);
}

std::vector<std::byte> bytes_of(Transfer& transfer) {
  if (transfer.memory == nullptr) return {};
  return {transfer.memory->all().begin(), transfer.memory->all().end()};
}

tutti_message_t* asked(Transfer& receive) { return receive.asks ? &receive.message : nullptr; }

tutti_call_t in_full(Transfer& transfer) {
  tutti_call_t full = {};
  full.struct_size = sizeof full;
  full.collective = transfer.receives ? TUTTI_RECV : TUTTI_SEND;
  full.datatype = transfer.datatype->id;
  full.count = transfer.count;
  full.peer = transfer.peer;
  full.tag = transfer.tag;
  if (transfer.receives) {
    full.recv_buffer = transfer.data();
    full.message = asked(transfer);
  } else {
    full.send_buffer = transfer.data();
  }
  return full;
}

}  // namespace

Transfer sending(const Message& message, Random& own) {
  return {.communicator = message.communicator,
          .peer = message.dest,
          .tag = message.tag,
          .datatype = message.datatype,
          .count = message.count,
          .memory = memory_for(message.count, *message.datatype, own)};
}

Transfer receiving(const Receive& receive, Random& own) {
  return {.receives = true,
          .communicator = receive.communicator,
          .peer = receive.source,
          .tag = receive.tag,
          .datatype = receive.datatype,
          .count = receive.room,
          .asks = receive.message == kNotDetermined || !own.one_in(6),
          .memory = memory_for(receive.room, *receive.datatype, own)};
}

void fill(Transfer& transfer, Random& own) {
  if (transfer.memory != nullptr) transfer.memory->fill(own);
  transfer.before = bytes_of(transfer);
  transfer.message = kNoMessage;
}

void take(Transfer& transfer, Random& own) {
  transfer.after = bytes_of(transfer);
  if (transfer.memory != nullptr) transfer.memory->fill(own);
}

tutti_status_t run_blocking(Transfer& each, tutti_comm_t* comm) {
  tutti_datatype_t type = each.datatype->id;
  if (!each.receives) return tutti_send(each.data(), each.count, type, each.peer, each.tag, comm, nullptr);
  return tutti_recv(each.data(), each.count, type, each.peer, each.tag, comm, nullptr, asked(each));
}

tutti_status_t run_blocking(Transfer& send, Transfer& receive, tutti_comm_t* comm) {
  return tutti_send_recv(send.data(), send.count, send.peer, send.tag, receive.data(), receive.count, receive.peer,
                         receive.tag, send.datatype->id, comm, nullptr, asked(receive));
}

tutti_status_t start(Transfer& transfer, tutti_comm_t* comm, tutti_request_t** request) {
  if (transfer.prepared != nullptr) return tutti_start_prepared(transfer.prepared, request);
  tutti_call_t call = in_full(transfer);
  return tutti_start(comm, &call, request);
}

tutti_status_t prepare(Transfer& transfer, tutti_comm_t* comm) {
  tutti_call_t call = in_full(transfer);
  return tutti_prepare(comm, &call, &transfer.prepared);
}

std::string described(const Transfer& each) {
  std::string text = fmt::format("{} {} {} {} ", each.receives ? "recv of up to" : "send of", each.count,
                                 each.datatype->name, each.receives ? "from" : "to");
  text += each.peer == TUTTI_ANY_SOURCE ? "any rank" : fmt::format("rank {}", each.peer);
  text += each.tag == TUTTI_ANY_TAG ? " with any tag" : fmt::format(" with tag {}", each.tag);
  text += place_text(each.communicator);
  if (each.memory == nullptr) return text + ", NULL";
  bool is_of_tutti = each.memory->memory() == Memory::kTutti;
  return text + fmt::format(", {} + {}", is_of_tutti ? "tutti_mem_alloc" : "malloc", each.memory->data_at());
}

}  // namespace differential
