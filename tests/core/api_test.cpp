// The C API's law of arguments: every wrong one is one clear sentence, and nothing happens.
#include <catch2/catch.hpp>

#include <string>

#include "core/ranks.h"
#include "tutti/tutti.h"
#include "tutti/tutti_topology.h"

namespace tutti::test {
namespace {

std::string last() { return tutti_last_error(nullptr); }

struct OneRank {
  tutti_comm_t* comm = nullptr;
  OneRank() { REQUIRE(tutti_comm_init_rank(&comm, 1, nullptr, 0) == TUTTI_SUCCESS); }
  ~OneRank() { tutti_comm_destroy(comm); }
};

}  // namespace

TEST_CASE("NULL arguments are named") {
  CHECK(tutti_get_unique_id(nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(last() == "tutti_get_unique_id: id is NULL");
  CHECK(tutti_comm_init_rank(nullptr, 1, nullptr, 0) == TUTTI_INVALID_ARGUMENT);
  CHECK(last() == "tutti_comm_init_rank: comm is NULL");
  tutti_comm_t* comm = nullptr;
  CHECK(tutti_comm_init_rank(&comm, 2, nullptr, 0) == TUTTI_INVALID_ARGUMENT);
  CHECK(last() == "tutti_comm_init_rank: id is NULL");
  CHECK(tutti_all_reduce(nullptr, nullptr, 0, TUTTI_FLOAT32, TUTTI_SUM, nullptr, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(last() == "tutti_all_reduce: comm is NULL");
  tutti_request_t* request = nullptr;
  CHECK(tutti_wait(&request) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_mem_alloc(nullptr, 1) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_comm_destroy(nullptr) == TUTTI_SUCCESS);
  CHECK(tutti_mem_free(nullptr) == TUTTI_SUCCESS);
}

TEST_CASE("a rank outside the communicator is refused") {
  tutti_comm_t* comm = nullptr;
  tutti_unique_id_t id{};
  CHECK(tutti_comm_init_rank(&comm, 2, &id, 2) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_comm_init_rank(&comm, 0, &id, 0) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_comm_init_rank(&comm, 2, &id, -1) == TUTTI_INVALID_ARGUMENT);
  CHECK(comm == nullptr);
}

TEST_CASE("an id that no tutti made is refused") {
  tutti_comm_t* comm = nullptr;
  tutti_unique_id_t id{};
  CHECK(tutti_comm_init_rank(&comm, 2, &id, 0) == TUTTI_INVALID_ARGUMENT);
  CHECK(!last().empty());
}

TEST_CASE("wrong calls are refused and leave the communicator working") {
  OneRank one;
  float in[4] = {1, 2, 3, 4}, out[4] = {};
  auto call = [&](const void* send, void* recv, uint64_t count, int datatype, int op, void* stream) {
    return tutti_all_reduce(send, recv, count, static_cast<tutti_datatype_t>(datatype), static_cast<tutti_op_t>(op),
                            one.comm, stream);
  };
  CHECK(call(nullptr, out, 4, TUTTI_FLOAT32, TUTTI_SUM, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(std::string(tutti_last_error(one.comm)) == "all_reduce: send_buffer is NULL");
  CHECK(call(in, nullptr, 4, TUTTI_FLOAT32, TUTTI_SUM, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(call(in, out, 4, 99, TUTTI_SUM, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(call(in, out, 4, TUTTI_FLOAT32, 99, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(call(in, out, 4, TUTTI_FLOAT32, TUTTI_BXOR, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(std::string(tutti_last_error(one.comm)) ==
        "all_reduce: bxor is for integers, not for float32; choose another operation or datatype");
  CHECK(call(in, out, 4, TUTTI_UINT32, TUTTI_BXOR, nullptr) == TUTTI_SUCCESS);
  CHECK(call(in, in + 1, 3, TUTTI_FLOAT32, TUTTI_SUM, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(call(in, out, UINT64_MAX, TUTTI_FLOAT32, TUTTI_SUM, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(call(in, out, 4, TUTTI_FLOAT32, TUTTI_SUM, out) == TUTTI_INVALID_ARGUMENT);
  CHECK(call(nullptr, nullptr, 0, TUTTI_FLOAT32, TUTTI_SUM, nullptr) == TUTTI_SUCCESS);
  CHECK(call(in, out, 4, TUTTI_FLOAT32, TUTTI_AVG, nullptr) == TUTTI_SUCCESS);
  CHECK(out[3] == 4);
}

TEST_CASE("a call of an older and of a newer caller is understood") {
  OneRank one;
  int32_t in = 5, out = 0;
  struct Newer {
    tutti_call_t call;
    uint64_t later[4];
  } newer{};
  newer.call.struct_size = sizeof newer;
  newer.call.datatype = TUTTI_INT32;
  newer.call.send_buffer = &in;
  newer.call.recv_buffer = &out;
  newer.call.count = 1;
  tutti_request_t* request = nullptr;
  REQUIRE(tutti_start(one.comm, &newer.call, &request) == TUTTI_SUCCESS);
  CHECK(tutti_wait(&request) == TUTTI_SUCCESS);
  CHECK(out == 5);
  newer.later[2] = 1;
  CHECK(tutti_start(one.comm, &newer.call, &request) == TUTTI_INVALID_ARGUMENT);
  newer.call.struct_size = 8;
  CHECK(tutti_start(one.comm, &newer.call, &request) == TUTTI_INVALID_ARGUMENT);
  CHECK(request == nullptr);
}

TEST_CASE("a finalized communicator takes no more calls but can be asked") {
  OneRank one;
  float value = 1;
  CHECK(tutti_comm_finalize(one.comm) == TUTTI_SUCCESS);
  CHECK(tutti_comm_finalize(one.comm) == TUTTI_SUCCESS);
  CHECK(tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, one.comm, nullptr) == TUTTI_INVALID_USAGE);
  int size = 0;
  CHECK(tutti_comm_size(one.comm, &size) == TUTTI_SUCCESS);
  CHECK(size == 1);
}

TEST_CASE("requests outlive their communicator, complete") {
  tutti_comm_t* comm = nullptr;
  REQUIRE(tutti_comm_init_rank(&comm, 1, nullptr, 0) == TUTTI_SUCCESS);
  float in[3] = {1, 2, 3}, out[3] = {};
  tutti_request_t* requests[3] = {};
  for (int i = 0; i < 3; ++i) {
    REQUIRE(start_all_reduce(in + i, out + i, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &requests[i]) ==
            TUTTI_SUCCESS);
  }
  CHECK(tutti_wait(&requests[1]) == TUTTI_SUCCESS);
  CHECK(tutti_comm_destroy(comm) == TUTTI_SUCCESS);
  int done = 0;
  CHECK(tutti_test(&requests[2], &done) == TUTTI_SUCCESS);
  CHECK(done == 1);
  CHECK(tutti_wait(&requests[0]) == TUTTI_SUCCESS);
  CHECK(requests[0] == nullptr);
  CHECK(requests[2] == nullptr);
  CHECK((out[0] == 1 && out[1] == 2 && out[2] == 3));
}

TEST_CASE("requests of an aborted communicator tell so when it is gone") {
  float value = 1;
  tutti_request_t* request = nullptr;
  auto said = with_ranks(2, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
    if (rank == 1) return "";  // makes no call
    start_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &request);
    tutti_comm_abort(comm);
    return request == nullptr ? tutti_last_error(comm) : "";
  });
  CHECK(said == std::vector<std::string>(2));
  REQUIRE(request != nullptr);
  CHECK(tutti_wait(&request) == TUTTI_ABORTED);
  CHECK(request == nullptr);
  CHECK(last() == "rank 0 aborted the communicator");
}

TEST_CASE("options are checked by name and value") {
  tutti_config_t* config = nullptr;
  REQUIRE(tutti_config_create(&config) == TUTTI_SUCCESS);
  CHECK(tutti_config_set(config, "timeout_ms", "5000") == TUTTI_SUCCESS);
  CHECK(tutti_config_set(config, "timeout", "5000") == TUTTI_INVALID_ARGUMENT);
  CHECK(last().find("timeout_ms") != std::string::npos);
  CHECK(tutti_config_set(config, "slots", "many") == TUTTI_INVALID_ARGUMENT);
  const char* value = nullptr;
  CHECK(tutti_config_get(config, "timeout_ms", &value) == TUTTI_SUCCESS);
  CHECK(std::string(value) == "5000");
  CHECK(tutti_config_get(config, "timeout", &value) == TUTTI_INVALID_ARGUMENT);
  CHECK(value == nullptr);
  tutti_config_destroy(config);
}

TEST_CASE("an algorithm that there is not is refused before anybody is met") {
  tutti_config_t* config = nullptr;
  REQUIRE(tutti_config_create(&config) == TUTTI_SUCCESS);
  CHECK(tutti_config_set(config, "algorithm", "rong") == TUTTI_SUCCESS);
  tutti_comm_t* comm = nullptr;
  CHECK(tutti_comm_init_rank_config(&comm, 1, nullptr, 0, config) == TUTTI_INVALID_ARGUMENT);
  CHECK(last().find("no algorithm is called \"rong\"; did you mean \"ring\"?") != std::string::npos);
  CHECK(comm == nullptr);
  tutti_config_destroy(config);
}

TEST_CASE("a tuning that no communicator could use is not stored") {
  const char* nowhere = "/proc/nowhere";  // would be another error
  CHECK(tutti_comm_store_tuning(nullptr, nullptr, 0, nowhere, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(last() == "tutti_comm_store_tuning: comm is NULL");
  OneRank one;
  CHECK(tutti_comm_store_tuning(one.comm, nullptr, 0, nowhere, nullptr) == TUTTI_INVALID_USAGE);
  std::string alone = tutti_last_error(one.comm);
  CHECK(alone == "one rank has nothing to choose; store a tuning from two ranks or more");
  auto said = with_ranks(2, {}, [&](tutti_comm_t* comm, int) -> std::string {
    const tutti_tuned_t falling[] = {{TUTTI_REDUCE, 128, "direct"}, {TUTTI_REDUCE, 64, nullptr}};
    if (tutti_comm_store_tuning(comm, falling, 2, nowhere, nullptr) != TUTTI_INVALID_ARGUMENT) return "stored";
    if (last().find("collectives[0].algorithms must ascend in up_to_bytes") == std::string::npos) return last();
    const tutti_tuned_t foreign[] = {{TUTTI_REDUCE, 64, "ring"}};
    if (tutti_comm_store_tuning(comm, foreign, 1, nowhere, nullptr) != TUTTI_INVALID_ARGUMENT) return "stored";
    return last().find("\"ring\", which is no algorithm of reduce") == std::string::npos ? last() : "";
  });
  for (const std::string& sentence : said) CHECK(sentence == "");
}

TEST_CASE("every status has a text") {
  for (int status = 0; status <= 9; ++status) {
    CHECK(std::string(tutti_status_text(static_cast<tutti_status_t>(status))) != "unknown status");
  }
  CHECK(std::string(tutti_status_text(static_cast<tutti_status_t>(77))) == "unknown status");
}

}  // namespace tutti::test
