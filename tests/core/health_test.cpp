// What a communicator says when something is wrong.
#include <catch2/catch.hpp>

#include <sys/mman.h>

#include <chrono>

#include "core/ranks.h"

namespace tutti::test {
namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string reduce(tutti_comm_t* comm, uint64_t count, tutti_datatype_t datatype, tutti_op_t op) {
  std::vector<double> buffer(count + 1);
  if (tutti_all_reduce(buffer.data(), buffer.data(), count, datatype, op, comm, nullptr) == TUTTI_SUCCESS) return "";
  return tutti_last_error(comm);
}

}  // namespace

TEST_CASE("ranks that disagree about a call are all told both sides") {
  struct Other {
    uint64_t count;
    tutti_datatype_t datatype;
    tutti_op_t op;
    std::string text;
  };
  for (const char* transport : {"shm", "tcp"}) {
    for (const Other& other : {Other{65, TUTTI_FLOAT32, TUTTI_SUM, "65 float32 (sum)"},
                               Other{64, TUTTI_INT32, TUTTI_SUM, "64 int32 (sum)"},
                               Other{64, TUTTI_FLOAT32, TUTTI_MAX, "64 float32 (max)"},
                               Other{400'000, TUTTI_FLOAT32, TUTTI_SUM, "400000 float32 (sum)"}}) {
      auto said = with_ranks(3, {{"transport", transport}, {"timeout_ms", "20000"}}, [&](tutti_comm_t* comm, int rank) {
        std::string first = reduce(comm, 10, TUTTI_FLOAT32, TUTTI_SUM);
        if (!first.empty()) return "the good call failed: " + first;
        return rank == 1 ? reduce(comm, other.count, other.datatype, other.op)
                         : reduce(comm, 64, TUTTI_FLOAT32, TUTTI_SUM);
      });
      for (const std::string& sentence : said) {
        INFO(transport << ": " << sentence);
        CHECK(contains(sentence, "all_reduce #2 of 64 float32 (sum)"));
        CHECK(contains(sentence, "all_reduce #2 of " + other.text));
        CHECK(contains(sentence, "rank 1"));
      }
    }
  }
}

TEST_CASE("a rank that does not call is named when the deadline passes") {
  auto said = with_ranks(3, {{"timeout_ms", "300"}}, [](tutti_comm_t* comm, int rank) -> std::string {
    if (rank == 2) {
      while (tutti_comm_status(comm) == TUTTI_SUCCESS) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return tutti_last_error(comm);
    }
    return reduce(comm, 5, TUTTI_FLOAT32, TUTTI_SUM);
  });
  for (const std::string& sentence : said) {
    INFO(sentence);
    CHECK(contains(sentence, "did not finish within 300 ms"));
  }
  CHECK((contains(said[0], "waits for rank 2") || contains(said[1], "waits for rank 2")));
  CHECK((contains(said[0], "no collective yet") || contains(said[1], "no collective yet")));
}

TEST_CASE("a rank that makes the same call again names who does not") {
  constexpr int kTogether = 5;
  auto said = with_ranks(3, {{"timeout_ms", "300"}, {"transport", "shm"}}, [](tutti_comm_t* comm, int rank) {
    float value = 0;
    auto call = [&] { return tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr); };
    for (int number = 0; number < kTogether; ++number) call();
    if (rank == 2) {
      while (tutti_comm_status(comm) == TUTTI_SUCCESS) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } else {
      call();
    }
    return std::string(tutti_last_error(comm));
  });
  const std::string whom = "waits for rank 2, whose last call is all_reduce #" + std::to_string(kTogether);
  INFO(said[0] << "\n" << said[1] << "\n" << said[2]);
  CHECK((contains(said[0], whom) || contains(said[1], whom)));
}

TEST_CASE("a request that nobody waits for fails at its deadline too") {
  auto said =
      with_ranks(2, {{"timeout_ms", "300"}, {"transport", "shm"}}, [](tutti_comm_t* comm, int rank) -> std::string {
        std::string first = reduce(comm, 5, TUTTI_FLOAT32, TUTTI_SUM);
        if (!first.empty()) return first;
        float value = 0;
        tutti_request_t* request = nullptr;
        if (rank == 0) start_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &request);
        while (tutti_comm_status(comm) == TUTTI_SUCCESS) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (rank == 0) tutti_wait(&request);
        return tutti_last_error(comm);
      });
  for (const std::string& sentence : said) {
    INFO(sentence);
    CHECK(contains(sentence, "rank 0 waits for rank 1, whose last call is all_reduce #1"));
  }
}

TEST_CASE("an abort ends the calls of all ranks, and the communicator stays aborted") {
  auto said = with_ranks(3, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (tutti_comm_abort(comm) != TUTTI_SUCCESS) return "abort failed";
    }
    float value = 0;
    tutti_status_t first = tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
    tutti_status_t second = tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
    if (first != TUTTI_ABORTED || second != TUTTI_ABORTED || tutti_comm_status(comm) != TUTTI_ABORTED) {
      return std::string(tutti_status_text(first)) + ": " + tutti_last_error(comm);
    }
    return tutti_last_error(comm);
  });
  for (const std::string& sentence : said) CHECK(contains(sentence, "rank 1 aborted the communicator"));
}

TEST_CASE("an abort from another thread ends a sleeping call") {
  auto said = with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    if (rank == 1) {
      while (tutti_comm_status(comm) == TUTTI_SUCCESS) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return "";
    }
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      tutti_comm_abort(comm);
    });
    float value = 0;
    tutti_status_t status = tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
    aborter.join();
    return status == TUTTI_ABORTED ? "" : tutti_last_error(comm);
  });
  for (const std::string& sentence : said) CHECK(sentence == "");
}

TEST_CASE("ranks with different options do not join") {
  tutti_unique_id_t id;
  REQUIRE(tutti_get_unique_id(&id) == TUTTI_SUCCESS);
  std::vector<std::string> said(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      tutti_config_t* config = nullptr;
      tutti_comm_t* comm = nullptr;
      tutti_config_create(&config);
      tutti_config_set(config, "slots", rank == 0 ? "4" : "6");
      tutti_config_set(config, "calibration", "off");
      if (tutti_comm_init_rank_config(&comm, 2, &id, rank, config) != TUTTI_SUCCESS) {
        said[rank] = tutti_last_error(nullptr);
      }
      tutti_comm_destroy(comm);
      tutti_config_destroy(config);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& sentence : said) CHECK(contains(sentence, "TUTTI_SLOTS is '4' on rank 0 and '6' on rank 1"));
}

TEST_CASE("the buffers of a failed call may be unmapped at once") {
  constexpr size_t kBytes = 4 << 20;
  constexpr int kRounds = 20;
  auto map = [] {
    return ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  for (const char* transport : {"loopback", "shm"}) {
    for (int round = 0; round < kRounds; ++round) {
      auto said = with_ranks(2, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
        void *in = map(), *out = map();
        if (in == MAP_FAILED || out == MAP_FAILED) return "no memory";
        std::thread aborter;
        if (rank == 0) {
          aborter = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(5000 + 331 * round));
            tutti_comm_abort(comm);
          });
        }
        auto sum = [&] { return tutti_all_reduce(in, out, kBytes / 4, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr); };
        while (sum() == TUTTI_SUCCESS) continue;
        ::munmap(in, kBytes);
        ::munmap(out, kBytes);
        if (rank == 0) aborter.join();
        return "";
      });
      for (const std::string& sentence : said) CHECK(sentence == "");
    }
  }
}

}  // namespace tutti::test
