// Messages between any two ranks, routed over the overlay.
#include <catch2/catch.hpp>

#include <condition_variable>
#include <mutex>
#include <set>

#include "bootstrap/ranks.h"

namespace tutti::bootstrap {
namespace {

// What one rank has heard, guarded by its mutex.
struct Ear {
  std::mutex mutex;
  std::condition_variable heard;
  std::multiset<std::string> messages;
  std::set<int> lost;

  ControlEvents events() {
    ControlEvents events;
    events.on_message = [this](int from, uint32_t type, ByteView bytes) {
      std::lock_guard lock(mutex);
      messages.insert(
          fmt::format("{} {} {}", from, type, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
      heard.notify_all();
    };
    events.on_lost = [this](int rank, Status) {
      std::lock_guard lock(mutex);
      lost.insert(rank);
      heard.notify_all();
    };
    return events;
  }
  template <typename Condition>
  bool wait_until(Condition condition) {
    std::unique_lock lock(mutex);
    return heard.wait_for(lock, std::chrono::seconds(20), condition);
  }
};

struct Job {
  std::vector<std::unique_ptr<ControlPlane>> planes;
  std::vector<std::unique_ptr<Ear>> ears;
};

Job start_job(int nranks, const std::function<JoinOptions(int)>& options_of, UniqueId id) {
  Job job;
  job.planes = on_ranks<std::unique_ptr<ControlPlane>>(nranks, [&](int rank) {
    return std::move(join_control_plane(info_of(rank, nranks, id), {}, options_of(rank), Deadline::after_ms(20'000)))
        .value();
  });
  for (auto& plane : job.planes) {
    job.ears.push_back(std::make_unique<Ear>());
    REQUIRE(plane->start(job.ears.back()->events()).ok());
  }
  return job;
}

void leave_all(Job& job) {
  on_ranks<int>(static_cast<int>(job.planes.size()), [&](int rank) {
    auto& plane = job.planes[static_cast<size_t>(rank)];
    if (plane) (void)plane->leave(Deadline::after_ms(5'000), Deadline::after_ms(5'000));
    return 0;
  });
}

JoinOptions here(int) { return {}; }

TEST_CASE("every rank gets every other's message exactly once") {
  for (int nranks : {1, 2, 7, 16}) {
    Job job = start_job(nranks, here, fresh_id(UniqueId::Kind::kLocal));
    std::multiset<std::string> expected;
    for (int from = 0; from < nranks; ++from) {
      expected.insert(fmt::format("{} 7 hello", from));
      for (int to = 0; to < nranks; ++to) job.planes[static_cast<size_t>(from)]->send(to, 7, as_bytes("hello"));
    }
    for (auto& ear : job.ears) {
      CHECK(ear->wait_until([&] { return ear->messages.size() >= expected.size(); }));
      std::lock_guard lock(ear->mutex);
      CHECK(ear->messages == expected);
    }
    leave_all(job);
    for (auto& ear : job.ears) CHECK(ear->lost.empty());
  }
}

TEST_CASE("a message of 1 MiB arrives whole over TLS and several hops") {
  auto server = std::move(Rendezvous::create({"", false, true, {}})).value();
  Job job = start_job(12, on_own_host, server->id());
  std::string large(1 << 20, 'x');
  job.planes[0]->send(6, 1, as_bytes(large));
  CHECK(job.ears[6]->wait_until([&] { return !job.ears[6]->messages.empty(); }));
  CHECK(*job.ears[6]->messages.begin() == "0 1 " + large);
  leave_all(job);
}

TEST_CASE("messages go around dead ranks") {
  Job job = start_job(16, here, fresh_id(UniqueId::Kind::kLocal));
  const std::set<int> dead{1, 2, 4, 8};                                 // all the ways up from rank 0
  for (int rank : dead) job.planes[static_cast<size_t>(rank)].reset();  // ends without a goodbye
  for (int rank = 0; rank < 16; ++rank) {
    Ear& ear = *job.ears[static_cast<size_t>(rank)];
    if (!dead.contains(rank)) CHECK(ear.wait_until([&] { return ear.lost == dead; }));
  }
  for (int to = 3; to < 16; ++to) {
    if (!dead.contains(to)) job.planes[0]->send(to, 5, as_bytes("around"));
  }
  for (int to = 3; to < 16; ++to) {
    Ear& ear = *job.ears[static_cast<size_t>(to)];
    if (!dead.contains(to)) CHECK(ear.wait_until([&] { return ear.messages.contains("0 5 around"); }));
  }
  leave_all(job);
}

TEST_CASE("a message sent from inside an event is delivered") {
  Job job;
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  job.planes = on_ranks<std::unique_ptr<ControlPlane>>(6, [&](int rank) {
    return std::move(join_control_plane(info_of(rank, 6, id), {}, {}, Deadline::after_ms(20'000))).value();
  });
  for (auto& plane : job.planes) {
    job.ears.push_back(std::make_unique<Ear>());
    ControlEvents events = job.ears.back()->events();
    // A ball that goes round once.
    events.on_message = [&plane, next = events.on_message](int from, uint32_t type, ByteView bytes) {
      next(from, type, bytes);
      if (type < 12) plane->send((plane->rank() + 1) % 6, type + 1, bytes);
    };
    REQUIRE(plane->start(events).ok());
  }
  job.planes[0]->send(1, 1, as_bytes("ball"));
  CHECK(job.ears[0]->wait_until([&] { return job.ears[0]->messages.contains("5 12 ball"); }));
  leave_all(job);
}

TEST_CASE("64 local ranks join and leave") {
  UniqueId id = fresh_id(UniqueId::Kind::kLocal);
  Job job = start_job(64, here, id);
  leave_all(job);
  for (auto& ear : job.ears) CHECK(ear->lost.empty());
}

}  // namespace
}  // namespace tutti::bootstrap
