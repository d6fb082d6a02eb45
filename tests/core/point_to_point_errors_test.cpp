// Sends and receives that go wrong: what does not fit, what nobody answers, ranks that leave.
#include <chrono>
#include <latch>
#include <thread>

#include "core/messages.h"

namespace tutti::test {

TEST_CASE("what does not fit is an error on both sides") {
  struct Wrong {
    uint64_t count;
    tutti_datatype_t datatype;
    const char* sentence;
  };
  for (const char* transport : kTransports) {
    for (const Wrong& wrong : {Wrong{2, TUTTI_FLOAT32, "rank 0 sent 3 float32 with tag 9 to rank 1, which receives up "
                                                       "to 2 float32"},
                               Wrong{3, TUTTI_INT32, "which receives up to 3 int32; both must name one datatype"}}) {
      for (bool receiver_first : {true, false}) {
        auto said = with_ranks(2, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
          float data[3] = {1, 2, 3};
          tutti_request_t* request = nullptr;
          if (rank == 1 && receiver_first) {
            tutti_call_t call{};
            call.struct_size = sizeof call;
            call.collective = TUTTI_RECV;
            call.datatype = wrong.datatype;
            call.count = wrong.count;
            call.recv_buffer = data;
            call.tag = 9;
            tutti_start(comm, &call, &request);
          }
          tutti_barrier(comm, nullptr);
          if (rank == 0) {
            tutti_send(data, 3, TUTTI_FLOAT32, 1, 9, comm, nullptr);
          } else if (receiver_first) {
            tutti_wait(&request);
          } else {
            tutti_recv(data, wrong.count, wrong.datatype, 0, 9, comm, nullptr, nullptr);
          }
          tutti_barrier(comm, nullptr);  // the sender had its success
          if (tutti_comm_status(comm) != TUTTI_INVALID_USAGE) return "no error";
          return tutti_last_error(comm);
        });
        INFO(transport);
        for (const std::string& sentence : said) CHECK_THAT(sentence, Catch::Contains(wrong.sentence));
      }
    }
  }
}

TEST_CASE("wrong arguments of sends and receives are refused at once") {
  check_all(with_ranks(1, {}, [](tutti_comm_t* comm, int) {
    float data[8] = {};
    std::string wrong;
    auto refuses = [&](tutti_status_t status, std::string_view sentence) {
      bool named = std::string_view(tutti_last_error(comm)).find(sentence) != std::string_view::npos;
      if (status != TUTTI_INVALID_ARGUMENT || !named) wrong += fmt::format("not so: {}; ", tutti_last_error(comm));
    };
    refuses(tutti_send(data, 1, TUTTI_FLOAT32, 1, 0, comm, nullptr), "send: peer 1 is no rank; ranks are 0 to 0");
    refuses(tutti_send(data, 1, TUTTI_FLOAT32, TUTTI_ANY_SOURCE, 0, comm, nullptr), "send: peer -1 is no rank");
    refuses(tutti_recv(data, 1, TUTTI_FLOAT32, -2, 0, comm, nullptr, nullptr), "or TUTTI_ANY_SOURCE");
    refuses(tutti_send(data, 1, TUTTI_FLOAT32, 0, TUTTI_ANY_TAG, comm, nullptr), "send: tag -1 is negative");
    refuses(tutti_recv(data, 1, TUTTI_FLOAT32, 0, -7, comm, nullptr, nullptr), "or TUTTI_ANY_TAG");
    refuses(tutti_recv(nullptr, 1, TUTTI_FLOAT32, 0, 0, comm, nullptr, nullptr), "recv: recv_buffer is NULL");
    refuses(tutti_send(nullptr, 1, TUTTI_FLOAT32, 0, 0, comm, nullptr), "send: send_buffer is NULL");
    refuses(tutti_send(data, UINT64_MAX / 2, TUTTI_FLOAT32, 0, 0, comm, nullptr), "does not fit into memory");
    tutti_group_begin();
    refuses(tutti_send_recv(data, 5, 0, 0, data + 4, 4, 0, 0, TUTTI_FLOAT32, comm, nullptr, nullptr), "overlap");
    tutti_group_end();
    refuses(tutti_send_recv(data, 5, 0, 0, data + 4, 4, 0, 0, TUTTI_FLOAT32, comm, nullptr, nullptr), "overlap");
    return wrong;
  }));
}

TEST_CASE("who waits for a rank that has finalized is told") {
  for (const char* transport : kTransports) {
    for (int peer : {0, TUTTI_ANY_SOURCE}) {
      for (bool was_connected : {true, false}) {
        INFO(transport << ", peer " << peer << (was_connected ? ", connected" : ""));
        auto said = with_ranks(2, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
          float data[2] = {};
          if (was_connected) tutti_barrier(comm, nullptr);
          if (rank == 0) return "";
          if (tutti_recv(data, 2, TUTTI_FLOAT32, peer, 6, comm, nullptr, nullptr) == TUTTI_SUCCESS) return "success";
          return tutti_last_error(comm);
        });
        CHECK(said[0] == "");
        CHECK_THAT(said[1], Catch::Contains("finalized, but rank 1 called recv of up to 2 float32 from"));
      }
    }
    auto said = with_ranks(2, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
      std::vector<float> data(1'000'000);
      tutti_barrier(comm, nullptr);
      return rank == 0 ? "" : send(comm, data, 0, 6);
    });
    CHECK_THAT(said[1], Catch::Contains("rank 0 has finalized, but rank 1 called send of 1000000 float32 to rank 0"));
  }
}

// Rank 1 has a link to rank 2 only, which keeps it in finalize.
TEST_CASE("who sends to a rank that has finalized is told, also without a link to it") {
  for (const char* transport : kTransports) {
    INFO(transport);
    std::latch has_arrived(1);  // before rank 0's failure ends all calls
    auto said = with_ranks(3, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
      std::vector<float> data(2);
      if (rank == 1) return send(comm, data, 2, 0);
      if (rank == 2) {
        std::string wrong = receive(comm, data, 1, 0);
        has_arrived.count_down();
        receive(comm, data, 0, 1);  // fails with rank 0
        return wrong;
      }
      has_arrived.wait();
      return send(comm, data, 1, 0);
    });
    CHECK(said[1] == "");
    CHECK(said[2] == "");
    CHECK_THAT(said[0], Catch::Contains("rank 1 has finalized, but rank 0 called send of 2 float32 to rank 1"));
  }
}

TEST_CASE("a rank may answer its own receive, but not while it waits for it") {
  check_all(with_ranks(1, {}, [](tutti_comm_t* comm, int) {
    std::vector<float> in(2), out(2);
    fill(out, 0, 0, 1);
    std::vector<tutti_request_t*> requests = {start(comm, TUTTI_RECV, in, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG)};
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::string wrong = send(comm, out, 0, 1);
    wrong += wait_all(comm, requests);
    wrong += compare(in, 0, 0, 1);
    receive(comm, in, 0, 1);
    std::string_view said = tutti_last_error(comm);
    bool is_named = said.find("which only itself can answer, before it makes the other call") != said.npos;
    return is_named ? wrong : wrong + std::string(said);
  }));
}

TEST_CASE("what was sent before its sender finalized is received") {
  for (const char* transport : kTransports) {
    INFO(transport);
    check_all(with_ranks(2, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) {
      std::vector<float> data(3000);
      std::string wrong;
      for (int i = 0; i < 50; ++i) {
        if (rank == 0) fill(data, 0, 1, i);
        wrong += rank == 0 ? send(comm, data, 1, i) : receive(comm, data, 0, i);
        if (rank == 1) wrong += compare(data, 0, 1, i);
      }
      return wrong;
    }));
  }
}

TEST_CASE("a receive that nobody answers ends at its deadline and names what is there") {
  auto said = with_ranks(2, {{"timeout_ms", "400"}}, [](tutti_comm_t* comm, int rank) -> std::string {
    float data[2] = {};
    if (rank == 0) send(comm, data, 1, 5);
    if (rank == 0) tutti_recv(data, 1, TUTTI_FLOAT32, 1, 0, comm, nullptr, nullptr);
    if (rank == 1) tutti_recv(data, 2, TUTTI_FLOAT32, 0, 6, comm, nullptr, nullptr);
    return tutti_last_error(comm);
  });
  bool first = said[1].find("recv of up to 2 float32 from rank 0 with tag 6 did not finish within 400 ms") == 0;
  bool second = said[0].find("recv of up to 1 float32 from rank 1 with tag 0 did not finish within 400 ms") == 0;
  INFO(said[0] << "\n" << said[1]);
  CHECK((first || second));
  if (first) CHECK_THAT(said[1], Catch::Contains("here, but not asked for: tag 5 of rank 0 (8 bytes)"));
}

TEST_CASE("an abort ends sends and receives") {
  for (const char* transport : kTransports) {
    auto said = with_ranks(3, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) -> std::string {
      std::vector<float> data(1'000'000);
      tutti_barrier(comm, nullptr);
      if (rank == 0) tutti_comm_abort(comm);
      std::vector<tutti_request_t*> requests;
      if (rank != 0) {
        requests = {start(comm, TUTTI_RECV, data, 0, 1), start(comm, TUTTI_SEND, data, 3 - rank, 2)};
        std::erase(requests, nullptr);
        tutti_wait_all(requests.size(), requests.data());
      }
      return tutti_comm_status(comm) == TUTTI_ABORTED ? "" : "not aborted";
    });
    check_all(said);
  }
}

}  // namespace tutti::test
