// Ranks as threads, with everything that the executor needs, over any transport. For tests.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "executor/collective_run.h"
#include "executor/lower.h"
#include "plan/partial.h"

namespace tutti::test {

using MakeTransport = std::function<std::unique_ptr<Transport>(const TransportContext&)>;

inline constexpr int kPatienceMs = 60'000;  // longer than anything takes that needs no deadline to end

class Rank {
 public:
  Rank(int rank, const StreamLayout& layout, const MakeTransport& make)
      : rank_(rank), layout_(layout), peers_(layout.nranks), links_(layout.nranks) {
    TransportContext context{.rank = rank, .nranks = layout.nranks, .job = 1, .token = token_, .interface = ""};
    transport_ = make(context);
    TUTTI_CHECK(transport_->listen().ok());
    arena_ = allocate(layout.arena_bytes());
    exported_ = arena_.memory;
    for (int channel = 0; channel < layout.channels; ++channel) {
      common_slots_.emplace_back(arena_.mapping.bytes(), layout_, channel);
    }
  }
  ~Rank() {
    peers_.clear();
    links_.clear();
  }

  // Zeroed memory that this rank's peers may be given.
  struct Shared {
    Fd fd;
    Mapping mapping;
    const LocalMemory* memory = nullptr;
    std::byte* data() const { return mapping.bytes().data(); }
  };
  Shared allocate(size_t size_bytes) {
    Shared shared;
    shared.fd = std::move(create_memfd("tutti-test", size_bytes)).value();
    shared.mapping = std::move(Mapping::create(shared.fd.get(), size_bytes)).value();
    shared.memory = std::move(transport_->export_memory(shared.mapping.bytes(), shared.fd.get(), {})).value();
    return shared;
  }
  Window share(const Shared& shared) {
    for (auto& link : links_) {
      if (link) TUTTI_CHECK(link->share(*shared.memory).ok());
    }
    return {shared.memory->id, 0};
  }

  int rank() const { return rank_; }
  Transport& transport() { return *transport_; }
  Link& link(int peer) { return *links_[peer]; }
  Peers& peers() { return peers_; }
  std::span<CommonSlots> common_slots() { return common_slots_; }
  const std::byte* arena() const { return arena_.data(); }

  Status connect(const std::vector<std::unique_ptr<Rank>>& all) {
    std::vector<int> order;
    for (int peer = 0; peer < layout_.nranks; ++peer) {
      if (peer != rank_) order.push_back(peer);
    }
    auto key = [&](int peer) { return std::pair((peer + rank_) % layout_.nranks, std::min(peer, rank_)); };
    std::sort(order.begin(), order.end(), [&](int a, int b) { return key(a) < key(b); });
    for (int peer : order) {
      links_[peer] = transport_->open(peer);
      while (TUTTI_TRY(links_[peer]->connect(all[peer]->transport_->address())) != Progress::kDone) {
        std::this_thread::yield();
      }
      TUTTI_TRY(links_[peer]->share(*exported_));
      const RemoteMemory* remote = nullptr;
      uint64_t ignored = 0;
      while ((remote = links_[peer]->find(all[peer]->exported_->id)) == nullptr) {
        TUTTI_TRY(links_[peer]->poll(&ignored));
        std::this_thread::yield();
      }
      peers_[peer] = std::make_unique<Peer>(rank_, *links_[peer], layout_, arena_.mapping.bytes(), *remote);
    }
    return {};
  }

  // From now on calls of several channels are shared with so many threads more.
  void share_with(int helpers) {
    run_.share_with(helpers, {.spin_ns = 0, .yield_ns = 20'000}, {});
    patience_ = Patience::kWaits;
  }

  // Runs one call to its end, sleeping as a real rank does, but until the deadline: a lost wake-up is an error.
  Status run(const std::vector<Program>& programs, const Call& call, int timeout_ms = kPatienceMs) {
    run_.prepare(programs);
    run_.start(programs, call, peers_);
    return run_to_end(timeout_ms);
  }
  // Goes on with the call that run() has left because its time was up.
  Status go_on(int timeout_ms = kPatienceMs) { return run_to_end(timeout_ms); }
  // The same call once more; of what run() was given only the signature and what the buffers hold may have changed.
  Status run_again(int timeout_ms = kPatienceMs) {
    run_.start_again();
    if (run_.repeats() && run_.finish(false)) return {};
    return run_to_end(timeout_ms);
  }
  bool repeats() const { return run_.repeats(); }

  // Breaks all links, as a communicator does whose call has failed.
  void abort() {
    for (auto& link : links_) {
      if (link) link->abort();
    }
  }

 private:
  Status run_to_end(int timeout_ms) {
    Deadline deadline = Deadline::after_ms(timeout_ms);
    Waiter waiter({.spin_ns = 0, .yield_ns = 20'000});
    for (;;) {
      Progress progress = run_.still_waits() ? Progress::kBlocked : TUTTI_TRY(run_.advance(patience_));
      if (progress == Progress::kDone) return {};
      if (progress == Progress::kMoved) {
        waiter.reset();
      } else if (waiter.idle()) {
        if (deadline.passed()) return error(Code::kTimeout, "rank {} waited in vain", rank_);
        if (TUTTI_TRY(sleep(deadline.left_ms())) == Progress::kDone) return {};
      }
    }
  }

  Result<Progress> sleep(int at_most_ms) {
    WaitSet waits;
    for (auto& link : links_) {
      if (link) link->arm(waits);
    }
    waits.fence();
    for (auto& peer : peers_) {
      if (peer && !peer->needs_poll()) peer->poll();
    }
    Result<Progress> progress = Progress::kBlocked;
    if (!run_.still_waits()) progress = run_.advance();
    if (progress.ok() && *progress == Progress::kBlocked) waits.sleep(at_most_ms);
    for (auto& link : links_) {
      if (link) link->disarm();
    }
    return progress;
  }

  const int rank_;
  const StreamLayout layout_;
  std::array<std::byte, 32> token_{};
  std::unique_ptr<Transport> transport_;
  Shared arena_;
  const LocalMemory* exported_ = nullptr;
  std::vector<CommonSlots> common_slots_;
  Peers peers_;
  std::vector<std::unique_ptr<Link>> links_;
  CollectiveRun run_;
  Patience patience_ = Patience::kNone;
};

// n connected ranks.
class Ranks {
 public:
  Ranks(const StreamLayout& layout, const MakeTransport& make) : layout_(layout) {
    for (int rank = 0; rank < layout.nranks; ++rank) ranks_.push_back(std::make_unique<Rank>(rank, layout, make));
    for (const Status& status : each([&](int rank) { return ranks_[rank]->connect(ranks_); })) TUTTI_CHECK(status.ok());
  }

  Rank& operator[](int rank) { return *ranks_[rank]; }
  // Ends a rank with all its links.
  void remove(int rank) { ranks_[rank].reset(); }

  // Runs `body` on one thread per rank and gives every rank's status.
  std::vector<Status> each(const std::function<Status(int rank)>& body) {
    std::vector<Status> statuses(layout_.nranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < layout_.nranks; ++rank) {
      threads.emplace_back([&, rank] { statuses[rank] = body(rank); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

 private:
  StreamLayout layout_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tutti::test
