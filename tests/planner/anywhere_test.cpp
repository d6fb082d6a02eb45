// Plans for ranks placed at random on hosts, GPUs and fabrics: every rank has the same, and all of them together do
// what a plain loop does.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>

#include "plan/collective.h"
#include "plan/cursor.h"
#include "plan/partition.h"
#include "plan/resolve.h"
#include "plan/validate.h"
#include "planner/choices.h"
#include "planner/planner.h"
#include "planner/topologies.h"
#include "planner/wire_load.h"

namespace tutti {
namespace {

using Values = std::vector<uint32_t>;

constexpr uint64_t kTrials = 150;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<uint64_t>(count)); }
  bool one_in(int count) { return below(count) == 0; }
  template <typename T>
  T any_of(std::initializer_list<T> of) {
    return of.begin()[below(static_cast<int>(of.size()))];
  }
  template <typename T>
  void shuffle(std::vector<T>& all) {
    for (int i = static_cast<int>(all.size()) - 1; i > 0; --i) std::swap(all[i], all[below(i + 1)]);
  }

 private:
  std::mt19937_64 engine_;
};

void add_devices(Inventory& host, int gpus, Random& random) {
  bool by_nvlink = !random.one_in(3), has_network = !random.one_in(4);
  for (int i = 0; i < gpus; ++i) {
    Gpu gpu{.pci_address = fmt::format("0000:{:02x}:00.0", i), .numa_node = i % 2};
    if (by_nvlink) gpu.nvlinks = {{.to_switch = true, .links = 4, .bytes_per_s = {20'000'000'000, Origin::kSpec}}};
    host.gpus.push_back(gpu);
    if (has_network) host.nics.push_back({.name = fmt::format("mlx5_{}", i), .speed_mbps = 100'000, .up = true});
    if (has_network) host.nics.back().rdma = true;
  }
}

// Where a rank is: on which host, and on which of its GPUs.
using At = std::pair<int, int>;

// As many ranks on each GPU of each host, or as many as it happens; ordered by host, dealt out, or without any order.
std::vector<At> places(int hosts, int gpus, int most_per_gpu, Random& random) {
  int ranks_per_gpu = 1 + random.below(most_per_gpu);
  bool is_regular = !random.one_in(3);
  std::vector<At> all;
  for (int host = 0; host < hosts; ++host) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      int ranks = is_regular ? ranks_per_gpu : random.below(most_per_gpu + 1);
      if (gpu == 0) ranks = std::max(ranks, 1);
      for (int i = 0; i < ranks; ++i) all.emplace_back(host, gpu);
    }
  }
  int order = random.below(3);
  if (order == 1) std::stable_sort(all.begin(), all.end(), [](At a, At b) { return a.second < b.second; });
  if (order == 2 && random.one_in(2)) random.shuffle(all);
  return all;
}

// Up to 24 ranks.
Topology anywhere(Random& random) {
  int hosts = 1 + random.below(6), gpus = 1 + random.below(24 / hosts);
  std::vector<At> at = places(hosts, gpus, std::max(1, 24 / hosts / gpus), random);
  Topology topology = test::make_topology(hosts, 1);
  bool on_gpus = !random.one_in(4), is_mixed = random.one_in(8), in_fabrics = random.one_in(2);
  for (TopologyHost& host : topology.hosts) {
    host.ranks.clear();
    add_devices(host.inventory, gpus, random);
    if (!in_fabrics) continue;
    host.inventory.fabric = random.any_of<std::string>({"", "a", "a", "b"});
    if (random.one_in(2)) host.inventory.fabric_bytes_per_s = {1'000'000'000, Origin::kUser};
  }
  topology.ranks.clear();
  for (auto [host, gpu] : at) {
    TopologyRank rank{.host = host, .local_rank = static_cast<int>(topology.hosts[host].ranks.size()), .pid = 1};
    rank.pid += rank.local_rank;
    rank.identity = topology.hosts[host].inventory.identity;
    if (on_gpus && !(is_mixed && random.one_in(3))) rank.gpu = gpu;
    topology.hosts[host].ranks.push_back(topology.nranks());
    topology.ranks.push_back(std::move(rank));
  }
  return topology;
}

Request anything(const Topology& topology, Random& random) {
  auto collective = static_cast<Collective>(TUTTI_ALL_REDUCE + random.below(TUTTI_BARRIER - TUTTI_ALL_REDUCE + 1));
  int nranks = topology.nranks();
  Request request{.collective = collective, .datatype = TUTTI_UINT32};
  if (has_root(collective)) request.root = random.below(nranks);
  auto n = static_cast<uint64_t>(nranks);
  request.count = random.any_of<uint64_t>({0, 1, 2, n - 1, n, n + 1, 64, 1000, 5000, 20'000});
  if (chunks_of(collective, nranks) > 0) request.count = std::min<uint64_t>(request.count, 1000) * n;
  if (collective == TUTTI_BARRIER) request.count = 0;
  return request;
}

Tuning any_tuning(Random& random) {
  Tuning tuning;
  tuning.channels = random.any_of({0, 0, 1, 2, 3});
  tuning.slice_bytes = random.any_of<uint64_t>({0, 448, 4096});
  tuning.workers = random.below(3);
  return tuning;
}

// Each chunk of blocks has a place of its own in every rank's buffers, so that what a rank should not have is seen.
Partition partition_of(const PlanShape& shape, uint64_t count) {
  if (chunks_of(shape.collective, shape.nranks) == 0) {
    return {count, sizeof(uint32_t), shape.channels, shape.chunks, shape.slice_bytes};
  }
  Blocks blocks{.modulo = shape.chunks};
  return {count / static_cast<uint64_t>(shape.nranks), sizeof(uint32_t), shape.channels, shape.slice_bytes, blocks,
          blocks, 0};
}

// Runs all parts of a plan, whose values are numbers.
class Numbers {
 public:
  Numbers(const Plan& plan, uint64_t count, Random& random)
      : shape_(plan.shape()), partition_(partition_of(shape_, count)), size_(count) {
    if (chunks_of(shape_.collective, shape_.nranks) > 0) size_ = count / shape_.nranks * shape_.chunks;
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      inputs_.push_back(input_of(rank));
      outputs_.emplace_back(size_, kGarbage);
    }
    for (int channel = 0; channel < shape_.channels; ++channel) run(plan, channel, random);
  }

  // "" or which value is not what it should be.
  std::string fault() const {
    if (left_over_ > 0) return fmt::format("{} messages that nobody takes", left_over_);
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      Values expected = output_of(rank);
      auto [is, should] = std::mismatch(outputs_[rank].begin(), outputs_[rank].end(), expected.begin());
      if (is == outputs_[rank].end()) continue;
      return fmt::format("rank {}, element {}: {} instead of {}", rank, is - outputs_[rank].begin(), *is, *should);
    }
    return "";
  }

 private:
  static constexpr uint32_t kGarbage = 0xdeadbeef;

  struct Running {
    std::map<int, Values> temps, arrivals;
  };

  Values input_of(int rank) const {
    Values values(size_);
    for (size_t i = 0; i < size_; ++i) values[i] = static_cast<uint32_t>((i * 97 + 1) * (rank * 2 + 1));
    return values;
  }

  // The plain loop.
  Values output_of(int rank) const {
    Values values(size_, kGarbage);
    bool has_blocks = chunks_of(shape_.collective, shape_.nranks) > 0;
    for (size_t i = 0; i < size_; ++i) {
      int chunk = has_blocks ? static_cast<int>(i / (size_ / shape_.chunks)) : 0;
      if (shape_.collective == TUTTI_BARRIER || !in_output(shape_, rank, chunk)) continue;
      int from = contributor(shape_, chunk);
      if (from != kAllRanks) values[i] = inputs_[from][i];
      if (from != kAllRanks) continue;
      values[i] = 0;
      for (const Values& input : inputs_) values[i] += input[i];
    }
    return values;
  }

  void run(const Plan& plan, int channel, Random& random) {
    std::vector<RankPlan> parts;
    std::vector<PartFacts> facts;
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      parts.push_back(plan.part(rank, channel));
      facts.push_back(std::move(resolve(shape_, parts.back(), rank, channel)).value());
    }
    std::vector<Cursor> cursors;
    for (int rank = 0; rank < shape_.nranks; ++rank) {
      cursors.emplace_back(parts[rank], facts[rank], [&](int chunk) { return partition_.slices(channel, chunk); });
    }
    running_.assign(shape_.nranks, {});
    std::vector<int> busy(shape_.nranks);
    for (int rank = 0; rank < shape_.nranks; ++rank) busy[rank] = rank;
    auto is_done = [&](int rank) { return cursors[rank].done(); };
    while (std::erase_if(busy, is_done), !busy.empty()) {
      random.shuffle(busy);
      bool moved = false;
      for (int rank : busy) {
        while (!is_done(rank) && step(rank, channel, cursors[rank], facts[rank])) moved = true;
      }
      REQUIRE(moved);
    }
    for (const auto& [ends, messages] : streams_) left_over_ += messages.size();
  }

  bool step(int rank, int channel, Cursor& cursor, const PartFacts& facts) {
    const Step& step = cursor.step();
    int chunk = facts[cursor.section()].steps[cursor.step_index()].chunk;
    Piece piece = chunk == kNoChunk ? Piece() : partition_.input(channel, chunk, cursor.slice());
    if (step.kind == StepKind::kPut) {
      streams_[{rank, step.peer}].push_back(step.sources.empty() ? Values() : read(rank, step.sources[0], piece));
    } else if (step.kind == StepKind::kWait) {
      auto& stream = streams_[{step.peer, rank}];
      if (stream.empty()) return false;
      if (step.into == kNoChunk) running_[rank].arrivals[step.peer] = stream.front();
      if (step.into != kNoChunk) write(rank, output(step.into), piece, stream.front());
      stream.pop_front();
    } else {
      Values sum = read(rank, step.sources[0], piece);
      for (size_t s = 1; s < step.sources.size(); ++s) {
        Values other = read(rank, step.sources[s], piece);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
      }
      for (const Place& to : step.destinations) write(rank, to, piece, sum);
    }
    cursor.advance();
    return true;
  }

  Values read(int rank, const Place& place, const Piece& piece) {
    if (place.space == Space::kTemp) return running_[rank].temps.at(place.index);
    if (place.space == Space::kArrival) return running_[rank].arrivals.at(place.index);
    const Values& from = place.space == Space::kInput ? inputs_[rank] : outputs_[rank];
    auto begin = from.begin() + static_cast<ptrdiff_t>(piece.offset_bytes / sizeof(uint32_t));
    return {begin, begin + static_cast<ptrdiff_t>(piece.size_bytes / sizeof(uint32_t))};
  }

  void write(int rank, const Place& place, const Piece& piece, const Values& values) {
    if (values.size() * sizeof(uint32_t) != piece.size_bytes) FAIL("a message of another size");
    if (place.space == Space::kTemp) {
      running_[rank].temps[place.index] = values;
    } else {
      auto at = outputs_[rank].begin() + static_cast<ptrdiff_t>(piece.offset_bytes / sizeof(uint32_t));
      std::copy(values.begin(), values.end(), at);
    }
  }

  PlanShape shape_;
  Partition partition_;
  size_t size_;
  size_t left_over_ = 0;
  std::vector<Values> inputs_, outputs_;
  std::vector<Running> running_;
  std::map<std::pair<int, int>, std::deque<Values>> streams_;
};

std::string described(const Topology& topology, const Request& request, const PlanShape& shape) {
  std::string text = fmt::format("{} by {} of {} elements to {}, {} channels of {}, groups", name_of(shape.collective),
                                 shape.algorithm, request.count, request.root, shape.channels, shape.slice_bytes);
  for (int ranks : shape.groups) text += fmt::format(" {}", ranks);
  text += "; host.gpu:";
  for (const TopologyRank& rank : topology.ranks) text += fmt::format(" {}.{}", rank.host, rank.gpu);
  return text;
}

}  // namespace

TEST_CASE("plans for ranks placed anywhere do what a plain loop does") {
  for (uint64_t seed = 1; seed <= kTrials; ++seed) {
    Random random(seed);
    Topology topology = anywhere(random);
    Request request = anything(topology, random);
    Tuning tuning = any_tuning(random);
    for (const Algorithm* algorithm : algorithms()) {
      if (algorithm->collective != request.collective || !algorithm->admit(topology, request).empty()) continue;
      tuning.algorithm = algorithm->name;
      Plan plan = must_choose(topology, request, tuning).plan;
      INFO("seed " << seed << ": " << described(topology, request, plan.shape()));
      CheckOptions options{.slices = 1 + seed % 4, .equal_slices = seed % 3 == 0};
      options.slots = 2 + random.below(2);
      options.in_place = random.any_of({InPlace::kNone, InPlace::kAll, InPlace::kSome});
      options.use_permissions = random.one_in(2);
      options.seed = seed;
      Status status = check_symbolically(plan, options);
      INFO(status.message());
      REQUIRE(status.ok());
      REQUIRE(Numbers(plan, request.count, random).fault() == "");
    }
  }
}

TEST_CASE("ranks that read the same facts have the same plan") {
  for (uint64_t seed = 1; seed <= kTrials; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Topology topology = anywhere(random);
    Request request = anything(topology, random);
    Result<Topology> read = parse_topology(to_json(topology));
    INFO(read.status().message());
    REQUIRE(read.ok());
    CHECK(*read == topology);
    Choice mine = must_choose(topology, request), theirs = must_choose(*read, request);
    CHECK(mine.plan.digest() == theirs.plan.digest());
    CHECK(mine.predicted_ns == theirs.predicted_ns);
  }
}

TEST_CASE("what wires carry goes over the links that the topology has") {
  for (uint64_t seed = 1; seed <= kTrials; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Topology topology = anywhere(random);
    if (random.one_in(4)) topology.forced_transport = "tcp";
    WireLoad wires(topology);
    for (int from = 0; from < topology.nranks(); ++from) {
      for (int to = 0; to < topology.nranks(); ++to) {
        if (from != to) CHECK(wires.link(from, to) == topology.link(from, to));
      }
    }
  }
}

}  // namespace tutti
