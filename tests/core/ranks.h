// Ranks as threads of this process, each with its own communicator, through the C API.
#pragma once

#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {

using Options = std::map<std::string, std::string>;

struct Outcome {
  tutti_status_t status = TUTTI_SUCCESS;
  std::string sentence;
};

// Makes a communicator on each of n threads, runs `body` with it, and destroys it. Gives what went wrong, by rank;
// `body` gives "" or a sentence of its own. `prepare` runs on each thread before it joins.
inline std::vector<std::string> with_ranks(int nranks, const Options& options,
                                           const std::function<std::string(tutti_comm_t*, int rank)>& body,
                                           const std::function<void(int rank)>& prepare = {}) {
  tutti_unique_id_t id;
  if (tutti_get_unique_id(&id) != TUTTI_SUCCESS) return {tutti_last_error(nullptr)};
  std::vector<std::string> wrong(nranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      tutti_config_t* config = nullptr;
      tutti_comm_t* comm = nullptr;
      if (prepare) prepare(rank);
      tutti_config_create(&config);
      tutti_config_set(config, "calibration", "off");
      tutti_config_set(config, "tuning", "off");
      tutti_config_set(config, "bootstrap_timeout_ms", "20000");
      tutti_config_set(config, "timeout_ms", "60000");  // a call that hangs says where
      for (auto& [name, value] : options) {
        if (tutti_config_set(config, name.c_str(), value.c_str()) != TUTTI_SUCCESS) {
          wrong[rank] = tutti_last_error(nullptr);
        }
      }
      if (tutti_comm_init_rank_config(&comm, nranks, &id, rank, config) == TUTTI_SUCCESS) {
        wrong[rank] += body(comm, rank);
      } else {
        wrong[rank] += std::string("cannot join: ") + tutti_last_error(nullptr);
      }
      tutti_comm_destroy(comm);
      tutti_config_destroy(config);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

// What with_ranks() gave: no rank has a sentence.
inline void check_all(const std::vector<std::string>& wrong) {
  for (const std::string& sentence : wrong) CHECK(sentence == "");
}

// Starts an all-reduce.
inline tutti_status_t start_all_reduce(const void* send_buffer, void* recv_buffer, uint64_t count,
                                       tutti_datatype_t datatype, tutti_op_t op, tutti_comm_t* comm,
                                       tutti_request_t** request) {
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = TUTTI_ALL_REDUCE;
  call.datatype = datatype;
  call.op = op;
  call.send_buffer = send_buffer;
  call.recv_buffer = recv_buffer;
  call.count = count;
  return tutti_start(comm, &call, request);
}

// The ranks of one communicator, all in this process, by rank; null where one could not join.
inline std::vector<tutti_comm_t*> make_ranks(int nranks, const char* transport) {
  std::vector<tutti_comm_t*> comms(nranks);
  tutti_unique_id_t id;
  tutti_config_t* config = nullptr;
  if (tutti_get_unique_id(&id) != TUTTI_SUCCESS || tutti_config_create(&config) != TUTTI_SUCCESS) return comms;
  tutti_config_set(config, "transport", transport);
  tutti_config_set(config, "timeout_ms", "20000");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] { tutti_comm_init_rank_config(&comms[rank], nranks, &id, rank, config); });
  }
  for (auto& thread : threads) thread.join();
  tutti_config_destroy(config);
  return comms;
}

inline void destroy(const std::vector<tutti_comm_t*>& comms) {
  std::vector<std::thread> threads;
  for (tutti_comm_t* comm : comms) threads.emplace_back([comm] { tutti_comm_destroy(comm); });
  for (auto& thread : threads) thread.join();
}

}  // namespace tutti::test
