// Runs the calls of case.h on real ranks, by any algorithm and over any transport, and looks at all the memory that
// they could touch. For tests.
#pragma once

#include <cstring>

#include "executor/case.h"
#include "executor/ranks.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"
#include "transports/verbs/verbs.h"

namespace tutti::test {

struct Fabric {
  std::string name;
  MakeTransport make;
};

inline Fabric fabric(const std::string& name) {
  if (name == "shm") return {name, [](const TransportContext& context) { return make_shm_transport(context); }};
  if (name == "tcp") return {name, [](const TransportContext& context) { return make_tcp_transport(context); }};
#if defined(TUTTI_TEST_VERBS_LIBRARY)
  if (name == "verbs") {
    return {name, [](const TransportContext& context) {
              return make_verbs_transport(context, {.library = TUTTI_TEST_VERBS_LIBRARY});
            }};
  }
#endif
  auto hub = make_loopback_hub();
  return {name, [hub](const TransportContext& context) { return make_loopback_transport(context, hub); }};
}

inline uint64_t extent_of(const std::vector<Block>& blocks) {
  uint64_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.begin + block.count);
  return end;
}

// The elements that one buffer of the case needs at most, of any rank.
inline uint64_t room_for(const Case& which) {
  uint64_t room = 0;
  for (int rank = 0; rank < which.nranks; ++rank) {
    room = std::max({room, extent_of(which.sent(rank)), extent_of(which.received(rank))});
  }
  return room;
}

// Room for the elements of one buffer, with some on both sides that must stay untouched.
class Area {
 public:
  Area(Rank& rank, uint64_t room)
      : shared_(rank.allocate((room + kMost) * sizeof(int32_t))), plain_(room + kMost + 1) {
    rank.share(shared_);
  }
  void bind(uint64_t count, bool shared, uint64_t shift) {
    // Ordinary memory is aligned for the type, and no better.
    int32_t* memory = shared ? reinterpret_cast<int32_t*>(shared_.data()) : plain_.data() + 1;
    before_ = kGuard + shift;
    all_ = {memory, before_ + count + kGuard};
    window_ = shared ? Window{shared_.memory->id, before_ * sizeof(int32_t)} : Window{};
    std::memset(all_.data(), kUntouched, all_.size_bytes());
  }
  std::span<int32_t> all() const { return all_; }
  int32_t* elements() const { return all_.data() + before_; }
  Window window(uint64_t element) const {
    return window_ ? Window{window_.memory_id, window_.offset + element * sizeof(int32_t)} : window_;
  }

 private:
  static constexpr uint64_t kGuard = 16;
  static constexpr uint64_t kMost = 2 * kGuard + 16;
  static constexpr int kUntouched = 0x5a;  // each byte
  Rank::Shared shared_;
  std::vector<int32_t> plain_;
  std::span<int32_t> all_;
  uint64_t before_ = 0;
  Window window_;
};

// The buffers of one rank, for one call after the other. They outlive whatever runs on them, also what has failed.
class Buffers {
 public:
  Buffers(Rank& rank, uint64_t room) : send_(rank, room), receive_(rank, room) {}

  // Before a call.
  void fill(const Case& which, int rank, uint64_t salt) {
    std::vector<Block> sent = which.sent(rank);
    received_ = which.received(rank);
    in_place_ = which.in_place_on(rank);
    sent_begin_ = which.sent_begin(rank);
    received_begin_ = which.received_begin(rank);
    uint64_t extent = std::max(extent_of(sent), extent_of(received_));
    send_.bind(extent, which.shares(rank), which.layout % 3);
    receive_.bind(extent, which.shares(rank), which.layout % 5);
    for (size_t i = 0; i < sent.size(); ++i) {
      const uint64_t count = sent[i].count;
      const int block = static_cast<int>(i);
      auto values = worked_out<int32_t>(count, [&](int32_t* all) { elements(rank, block, salt, all, count); });
      std::copy(values.begin(), values.end(), in() + sent[i].begin);
    }
    send_after_ = image_of(send_);
    receive_after_ = image_of(receive_);
    for (size_t block = 0; block < received_.size(); ++block) {
      auto [begin, count] = received_[block];
      expected_elements(which, rank, static_cast<int>(block), salt, &receive_after_[result_begin() + begin], count);
    }
  }

  // After a call: "" when the result is right.
  std::string wrong_result() const {
    for (size_t block = 0; block < received_.size(); ++block) {
      auto [begin, count] = received_[block];
      const int32_t *has = out() + begin, *wants = &receive_after_[result_begin() + begin];
      if (std::equal(has, has + count, wants)) continue;
      auto i = std::mismatch(has, has + count, wants).first - has;
      return fmt::format("element {} of block {} is {} and should be {}", i, block, has[i], wants[i]);
    }
    return "";
  }
  // Whether all memory is as it was, save where the result lies: after a call that has failed peers may still store
  // there, until its links are broken.
  bool rest_untouched() const {
    std::span<const int32_t> now = receive_.all();
    std::vector<Block> results = received_;
    std::sort(results.begin(), results.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
    uint64_t from = 0;
    for (const Block& block : results) {
      uint64_t begin = result_begin() + block.begin;
      if (from < begin && !std::equal(&now[from], &now[begin], &receive_after_[from])) return false;
      from = std::max(from, begin + block.count);
    }
    return std::equal(now.begin() + static_cast<ptrdiff_t>(from), now.end(), &receive_after_[from]) &&
           image_of(send_) == send_after_;
  }

  int32_t* in() const { return input_area().elements() + sent_begin_; }
  int32_t* out() const { return receive_.elements() + received_begin_; }
  Window in_window() const { return input_area().window(sent_begin_); }
  Window out_window() const { return receive_.window(received_begin_); }

 private:
  const Area& input_area() const { return in_place_ ? receive_ : send_; }
  static std::vector<int32_t> image_of(const Area& area) { return {area.all().begin(), area.all().end()}; }
  uint64_t result_begin() const { return static_cast<uint64_t>(out() - receive_.all().data()); }

  Area send_, receive_;
  bool in_place_ = false;
  uint64_t sent_begin_ = 0, received_begin_ = 0;
  std::vector<Block> received_;
  std::vector<int32_t> send_after_, receive_after_;  // what the call must leave
};

inline Topology topology_of(int nranks) {
  Inventory inventory;
  inventory.identity.boot_id = "test";
  inventory.cpu.logical_cpus = 2;
  inventory.cpu.allowed_cpus = {0, 1};
  return single_host(inventory, nranks);
}

inline Plan plan_for(const Case& which) {
  Request request{.collective = which.collective, .root = which.root, .count = 100'000};
  Tuning tuning{
      .channels = which.channels, .slice_bytes = which.slice_bytes, .max_slice_bytes = which.slice_bytes};
  const Algorithm& algorithm = *which.algorithm;
  return Plan(algorithm.shape(topology_of(which.nranks), request, tuning), algorithm.generate);
}

// One for each channel.
inline std::vector<Program> programs_of(const Plan& plan, int rank) {
  std::vector<Program> programs;
  for (int channel = 0; channel < plan.shape().channels; ++channel) programs.push_back(lower(plan, rank, channel));
  return programs;
}

// One call of one rank, with the arrays that its caller passes.
class BoundCall {
 public:
  BoundCall(const Buffers& buffers, const PlanShape& shape, const Case& which, int rank, int number) {
    list(which.lists_sent(rank), which.sent(rank), sent_);
    list(which.lists_received(rank), which.received(rank), received_);
    call.shape = &shape;
    call.datatype = TUTTI_INT32;
    call.op = which.op;
    // A buffer that the rank does not use may be there or not.
    bool has_all = which.layout % 2 == 0;
    if (has_all || !which.sent(rank).empty()) call.input = reinterpret_cast<std::byte*>(buffers.in());
    if (has_all || !which.received(rank).empty()) call.output = reinterpret_cast<std::byte*>(buffers.out());
    call.in_place = which.in_place_on(rank);
    call.partition = partition(shape, which, rank);
    call.size_bytes = room_for(which) * sizeof(int32_t);
    call.streams = call.size_bytes >= 4096 && !(call.in_place && replaces_input(shape.collective));
    call.signature = 1000 + static_cast<uint64_t>(number);
    call.input_window = buffers.in_window();
    call.output_window = buffers.out_window();
    call.announces_output = holds(shape.deliver_directly, call.in_place) && received_.counts.empty();
    call.options = {
        .pull_min_bytes = 256,
        .spread = {.least_bytes = 64, .bytes = 1 << 16}, .common_min_bytes = 64};
    call.wish = number % 3 - 1;
  }
  BoundCall(const BoundCall&) = delete;
  BoundCall& operator=(const BoundCall&) = delete;

  Call call;

 private:
  struct Arrays {
    std::vector<uint64_t> counts, displacements;

    Blocks as(int divide, int modulo) const {
      if (counts.empty()) return {.divide = divide, .modulo = modulo};
      return {.counts = counts.data(), .displacements = displacements.data(), .divide = divide, .modulo = modulo};
    }
  };
  static void list(bool listed, const std::vector<Block>& blocks, Arrays& arrays) {
    for (const Block& block : listed ? blocks : std::vector<Block>{}) {
      arrays.counts.push_back(block.count);
      arrays.displacements.push_back(block.begin);
    }
  }

  Partition partition(const PlanShape& shape, const Case& which, int rank) const {
    auto of_blocks = [&](uint64_t count, const Blocks& input, const Blocks& output) {
      return Partition(count, sizeof(int32_t), shape.channels, shape.slice_bytes, input, output, rank);
    };
    int n = which.nranks;
    switch (which.meaning()) {
      case TUTTI_ALL_GATHER:
      case TUTTI_GATHER: return of_blocks(which.count_of(rank, rank), sent_.as(1, 1), received_.as(1, n));
      case TUTTI_REDUCE_SCATTER:
      case TUTTI_SCATTER: return of_blocks(which.count_of(rank, rank), sent_.as(1, n), received_.as(1, 1));
      case TUTTI_ALL_TO_ALL: return of_blocks(which.count, sent_.as(1, n), received_.as(n, n));
      default: return Partition(which.count, sizeof(int32_t), shape.channels, shape.chunks, shape.slice_bytes);
    }
  }

  Arrays sent_, received_;
};

// The job's call of that number, with its own contents. kInternal: its result is wrong; kSystem: it wrote elsewhere.
inline Status run_call(Rank& rank, const Plan& plan, const std::vector<Program>& programs, Buffers& buffers,
                       const Case& which, int number, int timeout_ms = kPatienceMs) {
  buffers.fill(which, rank.rank(), static_cast<uint64_t>(number));
  BoundCall bound(buffers, plan.shape(), which, rank.rank(), number);
  bound.call.common_slots = rank.common_slots();
  Status status = rank.run(programs, bound.call, timeout_ms);
  if (!buffers.rest_untouched()) {
    return error(Code::kSystem, "rank {}, call {} wrote beside its result", rank.rank(), number);
  }
  TUTTI_TRY(std::move(status));
  std::string wrong = buffers.wrong_result();
  if (wrong.empty()) return {};
  return error(Code::kInternal, "rank {}, call {}: {}", rank.rank(), number, wrong);
}

// Every rank makes the calls one after the other on the same streams, as fast as it can. Gives the first error of each.
inline std::vector<Status> run_calls(Ranks& ranks, const std::vector<Case>& cases) {
  uint64_t room = 0;
  for (const Case& which : cases) room = std::max(room, room_for(which));
  std::vector<std::unique_ptr<Buffers>> buffers;
  for (int rank = 0; rank < cases[0].nranks; ++rank) buffers.push_back(std::make_unique<Buffers>(ranks[rank], room));
  return ranks.each([&](int rank) -> Status {
    for (size_t number = 0; number < cases.size(); ++number) {
      Plan plan = plan_for(cases[number]);
      for (auto& peer : ranks[rank].peers()) {
        if (peer && peer->mapped()) peer->wish(uint32_t{1} << (number / 2 % 2), number % 2 == 0);
      }
      Status status = run_call(ranks[rank], plan, programs_of(plan, rank), *buffers[rank], cases[number],
                               static_cast<int>(number));
      if (status.ok()) continue;
      ranks[rank].abort();
      return std::move(status).within(cases[number].text());
    }
    return {};
  });
}

}  // namespace tutti::test
