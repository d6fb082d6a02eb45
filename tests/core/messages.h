// Sends and receives of floats that tell which message they belong to. For tests.
#pragma once

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/contents.h"
#include "core/ranks.h"

namespace tutti::test {

inline const char* const kTransports[] = {"loopback", "shm", "tcp"};

// What element i of the message that `from` sends to `to` is; differs between messages.
TUTTI_UNWATCHED inline float element(int from, int to, int tag, size_t i) {
  return static_cast<float>((from * 31 + to * 17 + tag * 7 + static_cast<int>(i % 1009)) % 2048);
}

TUTTI_UNWATCHED inline void work_out(float* values, size_t count, int from, int to, int tag) {
  for (size_t i = 0; i < count; ++i) values[i] = element(from, to, tag, i);
}

inline std::vector<float> contents(size_t count, int from, int to, int tag) {
  return worked_out<float>(count, [&](float* values) { work_out(values, count, from, to, tag); });
}

inline void fill(std::span<float> data, int from, int to, int tag) {
  auto values = contents(data.size(), from, to, tag);
  std::copy(values.begin(), values.end(), data.begin());
}

inline std::string compare(std::span<const float> data, int from, int to, int tag) {
  auto wanted = contents(data.size(), from, to, tag);
  std::string wrong = compare(data.data(), wanted, fmt::format("from {} to {} tag {}", from, to, tag));
  return wrong.empty() ? "" : wrong + "; ";
}

inline std::string send(tutti_comm_t* comm, std::span<const float> data, int peer, int tag) {
  bool ok = tutti_send(data.data(), data.size(), TUTTI_FLOAT32, peer, tag, comm, nullptr) == TUTTI_SUCCESS;
  return ok ? "" : tutti_last_error(comm);
}

inline std::string receive(tutti_comm_t* comm, std::span<float> data, int peer, int tag,
                           tutti_message_t* message = nullptr) {
  bool ok = tutti_recv(data.data(), data.size(), TUTTI_FLOAT32, peer, tag, comm, nullptr, message) == TUTTI_SUCCESS;
  return ok ? "" : tutti_last_error(comm);
}

inline tutti_request_t* start(tutti_comm_t* comm, tutti_collective_t what, std::span<const float> data, int peer,
                              int tag, tutti_message_t* message = nullptr) {
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = what;
  call.datatype = TUTTI_FLOAT32;
  call.count = data.size();
  call.send_buffer = data.data();
  call.recv_buffer = const_cast<float*>(data.data());
  call.peer = peer;
  call.tag = tag;
  call.message = message;
  tutti_request_t* request = nullptr;
  tutti_start(comm, &call, &request);
  return request;
}

inline std::string wait_all(tutti_comm_t* comm, std::vector<tutti_request_t*>& requests) {
  bool all_started = std::find(requests.begin(), requests.end(), nullptr) == requests.end();
  if (tutti_wait_all(requests.size(), requests.data()) != TUTTI_SUCCESS || !all_started) return tutti_last_error(comm);
  return "";
}

}  // namespace tutti::test
