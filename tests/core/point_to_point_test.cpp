// Sends and receives between ranks that are threads, over every transport.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/messages.h"

namespace tutti::test {

TEST_CASE("messages of all sizes arrive") {
  constexpr size_t kCounts[] = {0,      1,      10,        11,            1000,    5000,
                                10'000, 16'000, 16 * 1024, 16 * 1024 + 1, 100'000, 1'000'003};
  for (const char* transport : kTransports) {
    INFO(transport);
    check_all(with_ranks(2, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) {
      std::string wrong;
      void* shared = nullptr;
      tutti_mem_alloc(&shared, 1'000'003 * sizeof(float));
      std::vector<float> ordinary(1'000'003);
      for (size_t count : kCounts) {
        for (float* memory : {ordinary.data(), static_cast<float*>(shared)}) {
          std::span<float> data(memory, count);
          for (int from : {0, 1}) {
            if (rank == from) {
              fill(data, from, 1 - from, 3);
              wrong += send(comm, data, 1 - from, 3);
            } else {
              wrong += receive(comm, data, from, 3);
              wrong += compare(data, from, 1 - from, 3);
            }
          }
        }
      }
      tutti_mem_free(shared);
      return wrong;
    }));
  }
}

TEST_CASE("what the receiver can read where it lies stays there until it is received, other short messages do not") {
  check_all(with_ranks(2, {{"transport", "shm"}}, [](tutti_comm_t* comm, int rank) {
    constexpr size_t kLent = 16 * 1024, kAtOnce = 8 * 1024 - 1;  // on any number of processors
    std::string wrong;
    void *allocated = nullptr, *handle = nullptr;
    std::vector<float> ordinary(kLent), registered(kLent);  // the second one with its edges
    if (tutti_mem_alloc(&allocated, kLent * sizeof(float)) != TUTTI_SUCCESS) return std::string("no shared memory");
    if (tutti_comm_register(comm, registered.data(), kLent * sizeof(float), &handle) != TUTTI_SUCCESS) {
      return std::string(tutti_last_error(comm));
    }
    const std::span<float> shared(static_cast<float*>(allocated), kLent);
    const std::span<float> at_once[] = {shared.first(kAtOnce), std::span(registered).first(kAtOnce),
                                        std::span(ordinary).first(kAtOnce)};
    const std::span<float> lent[] = {shared, registered};
    auto meet = [&] {
      if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
    };
    for (int tag = 0; tag < 3; ++tag) {
      if (rank == 0) fill(at_once[tag], 0, 1, tag);
      if (rank == 0) wrong += send(comm, at_once[tag], 1, tag);
    }
    meet();
    for (int tag = 0; rank == 1 && tag < 3; ++tag) {
      wrong += receive(comm, at_once[tag], 0, tag);
      wrong += compare(at_once[tag], 0, 1, tag);
    }
    std::vector<tutti_request_t*> requests;
    for (int tag = 0; rank == 0 && tag < 2; ++tag) {
      fill(lent[tag], 0, 1, tag);
      requests.push_back(start(comm, TUTTI_SEND, lent[tag], 1, tag));
    }
    meet();
    for (tutti_request_t*& request : requests) {
      int is_done = 0;
      if (tutti_test(&request, &is_done) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
      if (is_done != 0) return std::string("a message in shared memory went before it was received");
    }
    meet();
    for (int tag = 0; rank == 1 && tag < 2; ++tag) {
      wrong += receive(comm, lent[tag], 0, tag);
      wrong += compare(lent[tag], 0, 1, tag);
    }
    if (rank == 0) wrong += wait_all(comm, requests);
    tutti_comm_deregister(comm, handle);
    tutti_mem_free(allocated);
    return wrong;
  }));
}

// Of 40 KiB; where ranks take turns on a processor, the sender does not wait.
TEST_CASE("where the sender waits on a processor of its own shorter messages stay there, too") {
  cpu_set_t mine;
  REQUIRE(::sched_getaffinity(0, sizeof mine, &mine) == 0);
  const int cpus = CPU_COUNT(&mine);
  for (int nranks : {2, cpus + 1}) {
    if (nranks > 9) continue;  // a crowd of threads says no more
    INFO(nranks << " ranks on " << cpus << " processors");
    check_all(with_ranks(nranks, {{"transport", "shm"}}, [&](tutti_comm_t* comm, int rank) {
      constexpr size_t kCount = 10 * 1024;
      void* allocated = nullptr;
      if (tutti_mem_alloc(&allocated, kCount * sizeof(float)) != TUTTI_SUCCESS) return std::string("no shared memory");
      const std::span<float> shared(static_cast<float*>(allocated), kCount);
      std::string wrong;
      std::vector<tutti_request_t*> requests;
      if (rank == 0) fill(shared, 0, 1, 7);
      if (rank == 0) requests.push_back(start(comm, TUTTI_SEND, shared, 1, 7));
      if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
      int is_done = 0;
      if (rank == 0 && tutti_test(&requests[0], &is_done) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
      if (rank == 0 && is_done != (nranks > cpus)) wrong += is_done != 0 ? "it went at once; " : "it stayed; ";
      if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
      if (rank == 1) wrong += receive(comm, shared, 0, 7);
      if (rank == 1) wrong += compare(shared, 0, 1, 7);
      if (rank == 0) wrong += wait_all(comm, requests);
      tutti_mem_free(allocated);
      return wrong;
    }));
  }
}

TEST_CASE("messages arrive from all places of their slots, whether they are waited for or not") {
  constexpr int kMessages = 100, kAhead = 20;  // several laps of all slots
  for (size_t count : {size_t{5000}, size_t{16 * 1024}}) {
    INFO(count << " elements");
    check_all(with_ranks(2, {{"transport", "shm"}}, [&](tutti_comm_t* comm, int rank) {
      std::string wrong;
      std::vector<float> data(count);
      auto put = [&](int tag) {
        fill(data, rank, 1 - rank, tag);
        wrong += send(comm, data, 1 - rank, tag);
      };
      auto get = [&](int tag) {
        wrong += receive(comm, data, 1 - rank, tag);
        wrong += compare(data, 1 - rank, rank, tag);
      };
      for (int tag = 0; tag < kMessages; ++tag) rank == 0 ? (put(tag), get(tag)) : (get(tag), put(tag));
      // As many as the receiver keeps, before it asks for them.
      int ahead = count == 5000 ? kAhead : kAhead / 2;
      for (int round = 0; round < 5; ++round) {
        for (int tag = 0; tag < ahead; ++tag) rank == 0 ? put(tag) : void();
        std::span<float> word(data.data(), 1);
        wrong += rank == 0 ? receive(comm, word, 1, 999) : send(comm, word, 0, 999);
        for (int tag = 0; tag < ahead; ++tag) rank == 1 ? get(tag) : void();
      }
      return wrong;
    }));
  }
}

TEST_CASE("a receive takes the first message that it names") {
  for (const char* transport : kTransports) {
    INFO(transport);
    check_all(with_ranks(3, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) {
      constexpr int kTags = 5;
      std::string wrong;
      std::vector<float> data(3);
      if (rank != 0) {
        for (int round : {0, 1}) {
          for (int tag = 0; tag < kTags; ++tag) {
            fill(data, rank, round, tag);
            wrong += send(comm, data, 0, tag);
          }
        }
        return wrong;
      }
      for (int round : {0, 1}) {
        for (int tag = kTags - 1; tag >= 0; --tag) {
          for (int from : {2, 1}) {
            tutti_message_t message{};
            wrong += receive(comm, data, from, tag, &message);
            wrong += compare(data, from, round, tag);
            if (message.source != from || message.tag != tag || message.count != 3) wrong += "message is wrong; ";
          }
        }
      }
      return wrong;
    }));
  }
}

TEST_CASE("any source and any tag, and fewer elements than there is room for") {
  constexpr int kEach = 20;
  for (const char* transport : kTransports) {
    INFO(transport);
    check_all(with_ranks(4, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) {
      std::string wrong;
      std::vector<float> data(30'000);
      if (rank != 0) {
        for (int tag = 0; tag < kEach; ++tag) {
          std::span<float> part(data.data(), tag % 2 == 0 ? static_cast<size_t>(tag) : data.size() - 7);
          fill(part, rank, 0, tag);
          wrong += send(comm, part, 0, tag);
        }
        return wrong;
      }
      std::vector<int> next(4, 0);
      for (int i = 0; i < 3 * kEach; ++i) {
        tutti_message_t message{};
        wrong += receive(comm, data, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &message);
        if (message.source < 1 || message.source > 3) return wrong + "no source";
        if (message.tag != next[message.source]++) wrong += "out of order; ";
        wrong += compare(std::span(data).first(message.count), message.source, 0, message.tag);
      }
      return wrong;
    }));
  }
}

TEST_CASE("all ranks exchange messages at once, beside collectives") {
  for (const char* transport : kTransports) {
    INFO(transport);
    constexpr int kRanks = 4, kRounds = 6;
    check_all(with_ranks(kRanks, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) {
      constexpr size_t kCounts[kRounds] = {3, 40'000, 900, 0, 200'000, 17'000};
      std::vector<std::vector<float>> in, out;
      std::vector<tutti_request_t*> requests;
      std::string wrong;
      float sum = 1, expected = 1;
      for (int round = 0; round < kRounds; ++round) {
        for (int peer = 0; peer < kRanks; ++peer) {
          size_t count = kCounts[(round + rank + peer) % kRounds];
          out.emplace_back(count);
          fill(out.back(), rank, peer, round);
          in.emplace_back(count);
          requests.push_back(start(comm, TUTTI_SEND, out.back(), peer, round));
          requests.push_back(start(comm, TUTTI_RECV, in.back(), peer, round));
        }
        start_all_reduce(&sum, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &requests.emplace_back());
        if (round % 2 == 0 && tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
        expected *= kRanks;
        if (round == kRounds / 2) wrong += wait_all(comm, requests);
        if (round == kRounds / 2) requests.clear();
      }
      wrong += wait_all(comm, requests);
      for (int i = 0; i < kRounds * kRanks; ++i) wrong += compare(in[i], i % kRanks, rank, i / kRanks);
      if (sum != expected) wrong += "the sum is wrong; ";
      return wrong;
    }));
  }
}

TEST_CASE("send_recv shifts data around a ring") {
  for (const char* transport : kTransports) {
    for (int nranks : {1, 2, 5}) {
      INFO(transport << ", " << nranks << " ranks");
      check_all(with_ranks(nranks, {{"transport", transport}}, [nranks](tutti_comm_t* comm, int rank) {
        std::string wrong;
        int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
        for (size_t count : {1, 3000, 300'000}) {
          std::vector<float> out(count), in(count);
          fill(out, rank, next, 1);
          tutti_message_t message{};
          if (tutti_send_recv(out.data(), count, next, 1, in.data(), count, previous, 1, TUTTI_FLOAT32, comm, nullptr,
                              &message) != TUTTI_SUCCESS) {
            wrong += tutti_last_error(comm);
          }
          wrong += compare(in, previous, rank, 1);
          if (message.source != previous || message.count != count) wrong += "message is wrong; ";
        }
        return wrong;
      }));
    }
  }
}

// More than a peer keeps: the rest waits with the sender.
TEST_CASE("a flood of messages that nobody has asked for") {
  for (const char* transport : kTransports) {
    INFO(transport);
    check_all(with_ranks(2, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) {
      constexpr int kMessages = 6000;
      std::vector<std::vector<float>> data(kMessages);
      std::vector<tutti_request_t*> requests;
      std::string wrong;
      for (int i = 0; i < kMessages; ++i) data[i].resize(i % 100 == 0 ? 20'000 : static_cast<size_t>(i % 150));
      for (int i = 0; rank == 0 && i < kMessages; ++i) {
        fill(data[i], 0, 1, i);
        requests.push_back(start(comm, TUTTI_SEND, data[i], 1, i % 7));
      }
      if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
      for (int i = 0; rank == 1 && i < kMessages; ++i) {
        wrong += receive(comm, data[i], 0, i % 7);
        wrong += compare(data[i], 0, 1, i);
        if (!wrong.empty()) return wrong;
      }
      return wrong + wait_all(comm, requests);
    }));
  }
}

// Two ranks that never wait for long, while a third one wants to be connected and heard.
TEST_CASE("short messages to and fro keep nobody else waiting") {
  for (const char* transport : kTransports) {
    INFO(transport);
    std::atomic<bool> heard = false;
    check_all(with_ranks(3, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) {
      constexpr int kMessages = 600, kOften = 50, kEarly = 2000, kAside = 1000;
      std::string wrong;
      std::vector<float> kept(300), data(300), big(40'000);
      if (rank == 2) {  // more than its link holds; rank 0 keeps it until the end
        for (int i = 0; i < kMessages; ++i) {
          fill(kept, 2, 0, i);
          wrong += send(comm, kept, 0, i);
        }
        heard = true;
        return wrong;
      }
      int other = 1 - rank;
      float goes_on = 1;
      for (int i = 0; goes_on != 0 && wrong.empty(); ++i) {
        std::span<float> part(data.data(), static_cast<size_t>(i % 300));
        int tag = i % 7;
        // Beside it goes what is asked for only later, and what fits into no slot.
        bool has_aside = i < kEarly && i % kOften == 0;
        if (rank == 0) {
          fill(part, 0, 1, tag);
          wrong += send(comm, part, other, tag);
          wrong += receive(comm, part, other, tag);
          wrong += compare(part, 1, 0, tag);
          for (int aside = 0; has_aside && aside < 2; ++aside) {
            wrong += receive(comm, kept, other, kAside);
            wrong += compare(kept, 1, 0, aside);
          }
          if (has_aside) wrong += receive(comm, big, other, kAside);
          goes_on = heard ? 0 : 1;
          wrong += send(comm, {&goes_on, 1}, other, tag);
        } else {
          wrong += receive(comm, part, other, tag);
          wrong += compare(part, 0, 1, tag);
          fill(kept, 1, 0, 0);
          if (has_aside) wrong += send(comm, kept, other, kAside);
          fill(part, 1, 0, tag);
          wrong += send(comm, part, other, tag);
          fill(kept, 1, 0, 1);
          if (has_aside) wrong += send(comm, kept, other, kAside);
          if (has_aside) wrong += send(comm, big, other, kAside);
          wrong += receive(comm, {&goes_on, 1}, other, tag);
        }
      }
      for (int i = 0; rank == 0 && i < kMessages && wrong.empty(); ++i) {
        wrong += receive(comm, kept, 2, i);
        wrong += compare(kept, 2, 0, i);
      }
      return wrong;
    }));
  }
}

TEST_CASE("blocking sends go on until the peer keeps no more") {
  for (const char* transport : kTransports) {
    INFO(transport);
    std::atomic<size_t> sent = 0;
    check_all(with_ranks(3, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) {
      constexpr size_t kMessages = 4000, kKept = 1000, kMost = 1024 * 1024 / (700 + 128);
      std::string wrong;
      std::vector<float> data(175);
      for (size_t i = 0; rank == 0 && i < kMessages && wrong.empty(); ++i, ++sent) {
        fill(data, 0, 1, static_cast<int>(i));
        wrong += send(comm, data, 1, static_cast<int>(i));
      }
      if (rank == 2) {
        while (sent < kKept && tutti_comm_status(comm) == TUTTI_SUCCESS) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (sent > kMost) wrong += "more was sent than a rank keeps; ";
        wrong += send(comm, data, 1, 0);
      }
      if (rank != 1) return wrong;
      wrong += receive(comm, data, 2, 0);
      for (size_t i = 0; i < kMessages && wrong.empty(); ++i) {
        wrong += receive(comm, data, 0, static_cast<int>(i));
        wrong += compare(data, 0, 1, static_cast<int>(i));
      }
      return wrong;
    }));
  }
}

// Rank 0 never waits for long, and has no request for the messages while they come.
TEST_CASE("a rank that makes one collective after the other takes in what others send") {
  for (const char* transport : kTransports) {
    INFO(transport);
    check_all(with_ranks(2, {{"transport", transport}, {"spin_us", "1000000"}}, [](tutti_comm_t* comm, int rank) {
      constexpr int kMessages = 40;
      std::vector<float> data(20);
      fill(data, 1, 0, 0);
      std::vector<tutti_request_t*> requests;
      for (int i = 0; rank == 1 && i < kMessages; ++i) requests.push_back(start(comm, TUTTI_SEND, data, 0, 0));
      std::string wrong;
      for (float left = 1; left > 0 && wrong.empty();) {
        left = static_cast<float>(requests.size());
        if (tutti_all_reduce(&left, &left, 1, TUTTI_FLOAT32, TUTTI_MAX, comm, nullptr) != TUTTI_SUCCESS) {
          wrong += tutti_last_error(comm);
        }
        int done = 0;
        if (!requests.empty() && tutti_test(&requests.back(), &done) != TUTTI_SUCCESS) wrong += tutti_last_error(comm);
        if (done != 0) requests.pop_back();
      }
      for (int i = 0; rank == 0 && i < kMessages; ++i) {
        wrong += receive(comm, data, 1, 0);
        wrong += compare(data, 1, 0, 0);
      }
      return wrong;
    }));
  }
}

TEST_CASE("in a group sends and receives may stand in any order, beside collectives") {
  for (const char* transport : kTransports) {
    INFO(transport);
    constexpr int kRanks = 3;
    check_all(with_ranks(kRanks, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) {
      constexpr size_t kCount = 150'000;
      std::vector<std::vector<float>> in(kRanks, std::vector<float>(kCount)), out = in;
      std::vector<tutti_message_t> messages(kRanks);
      std::vector<float> sum(1000, 1);
      std::string wrong;
      tutti_group_begin();
      for (int peer = 0; peer < kRanks; ++peer) {
        fill(out[peer], rank, peer, 0);
        wrong += send(comm, out[peer], peer, 0);
      }
      tutti_all_reduce(sum.data(), sum.data(), sum.size(), TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
      for (int peer = 0; peer < kRanks; ++peer) wrong += receive(comm, in[peer], peer, 0, &messages[peer]);
      if (tutti_group_end() != TUTTI_SUCCESS) wrong += tutti_last_error(nullptr);
      for (int peer = 0; peer < kRanks; ++peer) {
        wrong += compare(in[peer], peer, rank, 0);
        if (messages[peer].source != peer || messages[peer].count != kCount) wrong += "message is wrong; ";
      }
      if (sum != std::vector<float>(1000, kRanks)) wrong += "the sum is wrong; ";
      return wrong;
    }));
  }
}

TEST_CASE("prepared sends and receives start many times") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int rank) {
    std::vector<float> data(500);
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = rank == 0 ? TUTTI_SEND : TUTTI_RECV;
    call.datatype = TUTTI_FLOAT32;
    call.count = data.size();
    call.send_buffer = call.recv_buffer = data.data();
    call.peer = 1 - rank;
    tutti_prepared_t* prepared = nullptr;
    if (tutti_prepare(comm, &call, &prepared) != TUTTI_SUCCESS) return std::string(tutti_last_error(comm));
    std::string wrong;
    for (int i = 0; i < 20; ++i) {
      if (rank == 0) fill(data, 0, 1, i);
      tutti_request_t* request = nullptr;
      if (tutti_start_prepared(prepared, &request) != TUTTI_SUCCESS || tutti_wait(&request) != TUTTI_SUCCESS) {
        return std::string(tutti_last_error(comm));
      }
      if (rank == 1) wrong += compare(data, 0, 1, i);
    }
    tutti_prepared_destroy(prepared);
    return wrong;
  }));
}

TEST_CASE("a rank sends to itself") {
  check_all(with_ranks(1, {}, [](tutti_comm_t* comm, int) {
    std::string wrong;
    for (size_t count : {2, 500'000}) {
      std::vector<float> out(count), in(count);
      fill(out, 0, 0, 4);
      std::vector<tutti_request_t*> requests = {start(comm, TUTTI_SEND, out, 0, 4)};
      wrong += receive(comm, in, TUTTI_ANY_SOURCE, 4);
      wrong += wait_all(comm, requests);
      wrong += compare(in, 0, 0, 4);
      requests = {start(comm, TUTTI_RECV, in, 0, 5)};
      fill(out, 0, 0, 5);
      wrong += send(comm, out, 0, 5);
      wrong += wait_all(comm, requests);
      wrong += compare(in, 0, 0, 5);
    }
    return wrong;
  }));
}

}  // namespace tutti::test
