// Whole calls over links that misbehave (transports/fault): what a transport may do changes no result; a link that
// breaks or loses something ends every rank with an error, none with a wrong result, and none hangs.
#include <catch2/catch.hpp>

#include "executor/collective.h"
#include "plan/collective.h"
#include "transports/fault/fault.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSeed = 20261121;

struct Job {
  Case which;
  std::string over;
  int slots = 0;
  Faults faults;
  int victim = -1;  // whose links misbehave; -1: everybody's

  std::string text() const {
    return fmt::format("seed {}: {} over {}, {} slots; rank {}: drop {}, kill {}, truncate {}", faults.seed,
                       which.text(), over, slots, victim, faults.drop_put, faults.kill, faults.truncate_put);
  }
};

Job draw(Chance& chance, const Algorithm& algorithm, const std::string& over, bool counts) {
  Job job{.which = draw_case(chance, algorithm, chance.between(2, 5), counts), .over = over};
  job.slots = chance.between(2, 4);
  job.faults.seed = static_cast<uint64_t>(chance.between(1, 1'000'000));
  return job;
}

bool sends_payload(const Plan& plan, int rank) {
  for (int channel = 0; channel < plan.shape().channels; ++channel) {
    for (const Section& section : plan.part(rank, channel).sections) {
      auto carries = [](const Step& step) { return step.kind == StepKind::kPut && !step.sources.empty(); };
      if (std::any_of(section.steps.begin(), section.steps.end(), carries)) return true;
    }
  }
  return false;
}

// One over TCP with a victim that has payloads larger than a line in each call. Only TCP has puts: on mapped memory
// payloads are stored.
Job draw_with_puts(Chance& chance, const Algorithm& algorithm) {
  Job job = draw(chance, algorithm, "tcp", false);
  int blocks = chunks_of(job.which.collective, job.which.nranks) > 0 ? job.which.nranks : 1;
  job.which.count = static_cast<uint64_t>(chance.between(1000, 2500) / blocks);
  job.which.slice_bytes = kMostSliceBytes >> chance.between(0, 3);
  Plan plan = plan_for(job.which);
  do job.victim = chance.between(0, job.which.nranks - 1);
  while (!sends_payload(plan, job.victim));
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
        plan_(plan_for(job.which)),
        ranks_({.nranks = job.which.nranks,
                .channels = plan_.shape().channels,
                .slots = job.slots,
                .slot_bytes = plan_.shape().slice_bytes,
                .mapped_slots = {.large_bytes = plan_.shape().slice_bytes / 2}},
               with_faults(job)) {
    for (int rank = 0; rank < job.which.nranks; ++rank) {
      programs_.push_back(programs_of(plan_, rank));
      buffers_.push_back(std::make_unique<Buffers>(ranks_[rank], room_for(job.which)));
    }
  }

  std::vector<Status> each(const std::function<Status(int rank)>& body) { return ranks_.each(body); }

  Status call(int rank, int number, int timeout_ms) {
    return run_call(ranks_[rank], plan_, programs_[rank], *buffers_[rank], job_.which, number, timeout_ms);
  }

  // Calls until one fails; then the rank breaks its links, as its communicator would, and its caller overwrites the
  // buffers. Others may have been lent them, and may be reading. (Over loopback that is a race for ThreadSanitizer.)
  Status call_until_error(int rank, int timeout_ms) {
    constexpr int kMostCalls = 2000;  // who only receives tells of many messages at once
    Status status;
    for (int number = 0; number < kMostCalls && status.ok(); ++number) status = call(rank, number, timeout_ms);
    ranks_[rank].abort();
    if (job_.over != "loopback") buffers_[rank]->fill(job_.which, rank, kMostCalls);
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

TEST_CASE("links that hold back and refuse without need change no result") {
  Chance chance(kSeed);
  for (const Algorithm* algorithm : algorithms()) {
    for (const char* over : {"loopback", "shm", "tcp"}) {
      Job job = draw(chance, *algorithm, over, chance.between(0, 1) == 1);
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

#ifdef TUTTI_TEST_VERBS_LIBRARY
TEST_CASE("what was to go into a peer's memory goes by slots once the peer has taken that back") {
  Chance chance(kSeed + 3);
  for (const Algorithm* algorithm : algorithms()) {
    Job job = draw(chance, *algorithm, "verbs", false);
    job.which.memory = Memory::kShared;
    job.which.count = 2000;
    job.faults.full_chance = 0.3;
    job.faults.takes_back = true;
    INFO(job.text());
    Running running(job);
    auto statuses = running.each([&](int rank) -> Status {
      for (int number = 0; number < 4; ++number) TUTTI_TRY(running.call(rank, number, kPatienceMs));
      return {};
    });
    for (const Status& status : statuses) CHECK(status.message() == "");
  }
}
#endif

TEST_CASE("links that break in the middle of a call end every rank with an error, without a deadline") {
  Chance chance(kSeed + 1);
  for (const Algorithm* algorithm : algorithms()) {
    for (const char* over : {"loopback", "shm", "tcp"}) {
      for (int round = 0; round < 2; ++round) {
        Job job = draw(chance, *algorithm, over, chance.between(0, 1) == 1);
        job.victim = chance.between(0, job.which.nranks - 1);
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

TEST_CASE("messages that are lost end every rank with an error at the deadline") {
  Chance chance(kSeed + 2);
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective == TUTTI_BARRIER) continue;
    Job job = draw_with_puts(chance, *algorithm);
    job.faults.drop_put = static_cast<uint64_t>(chance.between(1, 20));
    INFO(job.text());
    Running running(job);
    bool waited = false;
    auto statuses = running.each([&](int rank) { return running.call_until_error(rank, 100); });
    for (const Status& status : statuses) {
      INFO(status.message());
      CHECK((status.code() == Code::kTimeout || status.code() == Code::kAborted || status.code() == Code::kRemote));
      waited = waited || status.code() == Code::kTimeout;
    }
    CHECK(waited);
  }
}

TEST_CASE("payloads that arrive by half are wrong in their own calls alone, and nothing hangs") {
  constexpr int kFirst = 6;
  Chance chance(kSeed + 3);
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective == TUTTI_BARRIER) continue;
    Job job = draw_with_puts(chance, *algorithm);
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

}  // namespace tutti::test
