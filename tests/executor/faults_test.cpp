// Whole all-reduces over links that misbehave (transports/fault): what a transport may do changes no result; a link
// that breaks or loses something ends every rank with an error, none with a wrong result, and none hangs.
#include <catch2/catch.hpp>

#include <random>

#include "executor/all_reduce.h"
#include "transports/fault/fault.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSeed = 20261121;

// Drawn from one sequence, so that a seed stands for all of a test.
class Chance {
 public:
  explicit Chance(uint64_t seed) : random_(seed) {}
  int between(int least, int most) { return std::uniform_int_distribution<>(least, most)(random_); }

 private:
  std::mt19937_64 random_;
};

struct Job {
  std::string algorithm, over;
  int nranks = 0, slots = 0;
  uint64_t slice_bytes = 0;
  Case which;
  Faults faults;
  int victim = -1;  // whose links misbehave; -1: everybody's

  std::string text() const {
    return fmt::format(
        "seed {}: {} over {}, {} ranks, {} slots, slices of {}, count {}{}, memory {}; rank {}: drop {}, kill {}, "
        "truncate {}",
        faults.seed, algorithm, over, nranks, slots, slice_bytes, which.count, which.in_place ? " in place" : "",
        static_cast<int>(which.memory), victim, faults.drop_put, faults.kill, faults.truncate_put);
  }
};

// Payloads of at least `least_count` elements.
Job draw(Chance& chance, std::string_view algorithm, const std::string& over, int least_count) {
  Job job{.algorithm = std::string(algorithm), .over = over};
  job.nranks = chance.between(2, 5);
  job.slots = chance.between(2, 4);
  job.slice_bytes = uint64_t{64} << chance.between(2, 6);
  job.which.count = static_cast<uint64_t>(chance.between(least_count, 2500));
  job.which.in_place = chance.between(0, 1) == 1;
  job.which.memory = static_cast<Memory>(chance.between(0, 2));
  job.faults.seed = static_cast<uint64_t>(chance.between(1, 1'000'000));
  return job;
}

MakeTransport with_faults(const Job& job) {
  return [inner = fabric(job.over).make, faults = job.faults, victim = job.victim](const TransportContext& context) {
    if (victim >= 0 && context.rank != victim) return inner(context);
    Faults own = faults;
    own.seed = faults.seed * 100 + static_cast<uint64_t>(context.rank);
    return make_fault_transport(inner(context), own);
  };
}

// The ranks of a job and what they need for its calls, also while others still look at it.
class Running {
 public:
  explicit Running(const Job& job)
      : job_(job),
        plan_(plan_for(job.algorithm, job.nranks, job.slice_bytes)),
        ranks_({.nranks = job.nranks,
                .channels = plan_.shape().channels,
                .slots = job.slots,
                .slot_bytes = plan_.shape().slice_bytes},
               with_faults(job)) {
    for (int rank = 0; rank < job.nranks; ++rank) {
      programs_.push_back(programs_of(plan_, rank));
      buffers_.push_back(std::make_unique<Buffers>(ranks_[rank], job.which.count, job.which.shares(rank)));
    }
  }

  std::vector<Status> each(const std::function<Status(int rank)>& body) { return ranks_.each(body); }

  // One call; kInternal: its result is wrong.
  Status call(int rank, int number, int timeout_ms) {
    Buffers& buffers = *buffers_[rank];
    buffers.fill(rank, static_cast<uint64_t>(number), job_.which.in_place);
    Call call = call_on(buffers, plan_.shape(), job_.which, number);
    TUTTI_TRY(ranks_[rank].run(programs_[rank], call, timeout_ms));
    TUTTI_CHECK(buffers.guard_intact());
    std::string wrong = compare(buffers.out, job_.nranks, job_.which.count, static_cast<uint64_t>(number));
    if (wrong.empty()) return {};
    return error(Code::kInternal, "rank {}, call {}: {}", rank, number, wrong);
  }

  // Calls until one fails; then the rank breaks its links, as its communicator would, and its caller overwrites the
  // buffers. Others may have been lent them, and may be reading. (Over loopback that is a race for ThreadSanitizer.)
  Status call_until_error(int rank, int timeout_ms) {
    constexpr int kMostCalls = 200;
    Status status;
    for (int number = 0; number < kMostCalls && status.ok(); ++number) status = call(rank, number, timeout_ms);
    ranks_[rank].abort();
    if (job_.over != "loopback") buffers_[rank]->fill(rank, kMostCalls, job_.which.in_place);
    return status;
  }

 private:
  const Job job_;
  const Plan plan_;
  Ranks ranks_;
  std::vector<std::vector<Program>> programs_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
};

}  // namespace

TEST_CASE("links that hold back and refuse without need change no sum") {
  Chance chance(kSeed);
  for (const Algorithm* algorithm : algorithms()) {
    for (const char* over : {"loopback", "shm", "tcp"}) {
      for (int round = 0; round < 3; ++round) {
        Job job = draw(chance, algorithm->name, over, 0);
        job.faults.hold_chance = job.faults.full_chance = 0.1;
        job.faults.hold_polls = 4;
        INFO(job.text());
        Running running(job);
        auto statuses = running.each([&](int rank) -> Status {
          for (int number = 0; number < 4; ++number) TUTTI_TRY(running.call(rank, number, kPatienceMs));
          return {};
        });
        for (const Status& status : statuses) CHECK(status.message() == "");
      }
    }
  }
}

TEST_CASE("links that break in the middle of a call end every rank with an error, without a deadline") {
  Chance chance(kSeed + 1);
  for (const Algorithm* algorithm : algorithms()) {
    for (const char* over : {"loopback", "shm", "tcp"}) {
      for (int round = 0; round < 4; ++round) {
        Job job = draw(chance, algorithm->name, over, 1);
        job.victim = chance.between(0, job.nranks - 1);
        job.faults.kill = static_cast<uint64_t>(chance.between(1, 60));
        INFO(job.text());
        Running running(job);
        auto statuses = running.each([&](int rank) { return running.call_until_error(rank, kPatienceMs); });
        for (const Status& status : statuses) {
          INFO(status.message());
          CHECK((status.code() == Code::kAborted || status.code() == Code::kRemote));
        }
      }
    }
  }
}

// Only TCP has puts: on mapped memory payloads are stored.
TEST_CASE("messages that are lost end every rank with an error at the deadline") {
  Chance chance(kSeed + 2);
  for (const Algorithm* algorithm : algorithms()) {
    for (int round = 0; round < 2; ++round) {
      Job job = draw(chance, algorithm->name, "tcp", 1000);
      job.victim = chance.between(0, job.nranks - 1);
      job.faults.drop_put = static_cast<uint64_t>(chance.between(1, 20));
      INFO(job.text());
      Running running(job);
      bool waited = false;
      auto statuses = running.each([&](int rank) { return running.call_until_error(rank, 300); });
      for (const Status& status : statuses) {
        INFO(status.message());
        CHECK((status.code() == Code::kTimeout || status.code() == Code::kAborted || status.code() == Code::kRemote));
        waited = waited || status.code() == Code::kTimeout;
      }
      CHECK(waited);
    }
  }
}

TEST_CASE("payloads that arrive by half are wrong in their own calls alone, and nothing hangs") {
  constexpr int kFirst = 6;
  Chance chance(kSeed + 3);
  for (const Algorithm* algorithm : algorithms()) {
    for (int round = 0; round < 3; ++round) {
      Job job = draw(chance, algorithm->name, "tcp", 1000);
      job.victim = chance.between(0, job.nranks - 1);
      job.faults.truncate_put = static_cast<uint64_t>(chance.between(1, kFirst));  // at least one put is in each call
      INFO(job.text());
      Running running(job);
      std::atomic<int> wrong{0};
      auto statuses = running.each([&](int rank) -> Status {
        for (int number = 0; number < 3 * kFirst; ++number) {
          Status status = running.call(rank, number, kPatienceMs);
          bool may_be_wrong = number < kFirst && status.code() == Code::kInternal;
          if (!status.ok() && !may_be_wrong) return status;
          if (!status.ok()) ++wrong;
        }
        return {};
      });
      for (const Status& status : statuses) CHECK(status.message() == "");
      CHECK(wrong > 0);
    }
  }
}

}  // namespace tutti::test
