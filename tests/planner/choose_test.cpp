#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <set>

#include "planner/explain.h"
#include "planner/planner.h"
#include "planner/topologies.h"
#include "tests/topology/nccl_samples.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;

Request bytes(uint64_t size_bytes) {
  Request request;
  request.count = size_bytes / 4;
  return request;
}

Choice must_choose(const Topology& topology, const Request& request, const Tuning& tuning = {}) {
  Result<Choice> choice = choose(topology, request, tuning);
  REQUIRE(choice.ok());
  return std::move(choice).value();
}

std::string name_chosen(const Topology& topology, uint64_t size_bytes) {
  return must_choose(topology, bytes(size_bytes)).plan.shape().algorithm;
}

uint64_t predicted(const Choice& choice, std::string_view algorithm) {
  for (const Candidate& candidate : choice.candidates) {
    if (candidate.algorithm == algorithm) return candidate.predicted_ns;
  }
  return 0;
}

std::vector<const Algorithm*> of_collective(Collective collective) {
  std::vector<const Algorithm*> found;
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective == collective) found.push_back(algorithm);
  }
  return found;
}

TEST_CASE("choosing is a pure function") {
  Topology topology = test::make_topology(3, 5, 2);
  for (uint64_t size_bytes : {8, 5000, 1 << 20, 1 << 28}) {
    Choice a = must_choose(topology, bytes(size_bytes)), b = must_choose(topology, bytes(size_bytes));
    REQUIRE(a.plan.digest() == b.plan.digest());
    REQUIRE(a.predicted_ns == b.predicted_ns);
    REQUIRE(a.reason == b.reason);
  }
}

TEST_CASE("all counts of a size class get the same plan") {
  Topology topology = test::make_topology(1, 4);
  for (uint64_t size_bytes = 64; size_bytes <= (1 << 24); size_bytes *= 2) {
    uint64_t digest = must_choose(topology, bytes(size_bytes)).plan.digest();
    REQUIRE(must_choose(topology, bytes(size_bytes / 2 + 4)).plan.digest() == digest);
    REQUIRE(must_choose(topology, bytes(size_bytes - size_bytes / 4)).plan.digest() == digest);
  }
}

TEST_CASE("size classes are powers of two that hold their sizes") {
  REQUIRE(size_class_bytes(0) == 64);
  REQUIRE(size_class_bytes(64) == 64);
  REQUIRE(size_class_bytes(65) == 128);
  REQUIRE(size_class_bytes(uint64_t{1} << 63) == uint64_t{1} << 63);
  REQUIRE(size_class_bytes((uint64_t{1} << 63) + 1) == UINT64_MAX);
  for (uint64_t size = 1; size < 100000; size = size * 3 + 1) {
    uint64_t size_class = size_class_bytes(size);
    REQUIRE(size_class >= size);
    REQUIRE((size_class == 64 || size_class / 2 < size));
  }
}

TEST_CASE("small messages take few hops, large ones little traffic") {
  for (int nranks : {2, 3, 4, 8}) {
    std::string small = name_chosen(test::make_topology(1, nranks), 8);
    CHECK((small == "direct_one_shot" || small == "recursive_doubling"));
    CHECK(name_chosen(test::make_topology(1, nranks), 64 << 20) == "direct_two_shot");
  }
  Topology cluster = test::make_topology(64, 8);
  CHECK(name_chosen(cluster, 8) == "recursive_doubling");
  std::string large = name_chosen(cluster, uint64_t{1} << 30);
  CHECK((large == "ring" || large == "double_binary_tree"));
}

TEST_CASE("a ring crosses each host's network once where all pairs would cross it for every rank") {
  Choice choice = must_choose(test::make_topology(4, 8), bytes(256 << 20));
  CHECK(predicted(choice, "ring") * 2 < predicted(choice, "direct_two_shot"));
  CHECK_THAT(choice.reason, Contains("network traffic"));
}

TEST_CASE("ranks that share a processor take turns") {
  for (uint64_t size_bytes : {64, 1 << 20, 64 << 20}) {
    Choice roomy = must_choose(test::make_topology(1, 8, 8), bytes(size_bytes));
    Choice crowded = must_choose(test::make_topology(1, 8, 2), bytes(size_bytes));
    for (const Candidate& candidate : roomy.candidates) {
      if (!candidate.admitted) continue;
      // Where the memory is the limit, it makes no difference, but for what is rounded.
      uint64_t crowded_ns = predicted(crowded, candidate.algorithm);
      CHECK(crowded_ns + crowded_ns / 100 > candidate.predicted_ns);
      if (size_bytes == 64) CHECK(crowded_ns > candidate.predicted_ns);
    }
  }
}

TEST_CASE("ranks share what the memory gives to all of them together") {
  auto predicted_with = [](uint64_t memory_bytes_per_s, int nranks) {
    Topology topology = test::make_topology(1, nranks);
    topology.hosts[0].inventory.costs.memory_bytes_per_s.value = memory_bytes_per_s;
    return must_choose(topology, bytes(64 << 20)).predicted_ns;
  };
  CHECK(predicted_with(8'000'000'000, 8) > 2 * predicted_with(64'000'000'000, 8));
  CHECK(predicted_with(8'000'000'000, 1) == predicted_with(64'000'000'000, 1));  // one core cannot take more
}

TEST_CASE("each measured cost slows down what it is the cost of, and nothing gets faster") {
  struct Dearer {
    Figure Costs::*figure;
    bool is_rate;
    uint64_t size_bytes;
    const char* transport;
  };
  constexpr uint64_t kTiny = 64, kCached = 64 << 10, kLarge = 64 << 20;
  const Dearer all[] = {
      {&Costs::copy_bytes_per_s, true, kLarge, ""},   {&Costs::reduce_bytes_per_s, true, kLarge, ""},
      {&Costs::memory_bytes_per_s, true, kLarge, ""}, {&Costs::slot_bytes_per_s, true, kLarge, ""},
      {&Costs::cached_bytes_per_s, true, kCached, ""}, {&Costs::last_level_bytes_per_s, true, 1 << 20, ""},
      {&Costs::cached_copy_bytes_per_s, true, kCached, ""}, {&Costs::last_level_copy_bytes_per_s, true, 1 << 20, ""},
      {&Costs::cache_line_ns, false, kTiny, ""},
      {&Costs::yield_ns, false, kTiny, ""},           {&Costs::tcp_ns, false, kTiny, "tcp"},
      {&Costs::tcp_call_ns, false, kTiny, "tcp"},     {&Costs::tcp_bytes_per_s, true, kLarge, "tcp"},
      {&Costs::tcp_both_bytes_per_s, true, kLarge, "tcp"}};
  for (const Dearer& dearer : all) {
    Topology topology = test::make_topology(1, 8, 4);
    topology.hosts[0].inventory.caches.push_back({3, 32 << 20, 1, 4});
    topology.forced_transport = dearer.transport;
    Choice before = must_choose(topology, bytes(dearer.size_bytes));
    uint64_t& value = (topology.hosts[0].inventory.costs.*dearer.figure).value;
    value = dearer.is_rate ? value / 16 : value * 16;
    Choice after = must_choose(topology, bytes(dearer.size_bytes));
    INFO("figure " << &dearer - all);
    CHECK(after.predicted_ns > before.predicted_ns);
    for (const Candidate& candidate : before.candidates) {
      CHECK(predicted(after, candidate.algorithm) >= candidate.predicted_ns);
    }
  }
}

// Of "direct" among two ranks of one host.
uint64_t predicted_of(const Topology& topology, Collective collective, uint64_t size_bytes) {
  Request request = bytes(size_bytes);
  request.collective = collective;
  request.root = has_root(collective) ? 0 : -1;
  return predicted(must_choose(topology, request), "direct");
}

TEST_CASE("a root copies its own block out of place, which it has read already where others get it too") {
  constexpr uint64_t kBytes = 64 << 10;
  Topology topology = test::make_topology(1, 2);
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.cached_copy_bytes_per_s.value = 1'000'000'000;  // a nanosecond each
  costs.slot_bytes_per_s.value = 100'000'000'000;
  auto about = [](uint64_t ns) { return Catch::Matchers::WithinRel(static_cast<double>(ns), 0.02); };
  // A half of the bytes is the root's, the other half comes or goes.
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_GATHER, kBytes)), about(kBytes));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_SCATTER, kBytes)), about(kBytes));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_BROADCAST, kBytes)), about(kBytes + kBytes / 2));
}

TEST_CASE("over sockets a rank sends while another one's message is on its way") {
  Topology topology = test::make_topology(1, 2);
  topology.forced_transport = "tcp";
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.tcp_ns.value = 10'000;
  costs.tcp_call_ns.value = 8'000;
  // Two calls, and what of the way is not the sender's.
  uint64_t all_ns = predicted_of(topology, TUTTI_ALL_GATHER, 64);
  CHECK(all_ns >= 18'000);
  CHECK(all_ns < 18'500);
  CHECK(predicted_of(topology, TUTTI_GATHER, 64) >= 18'000);
}

TEST_CASE("over sockets receiving costs what both directions at once take more than one, and memory comes on top") {
  Topology topology = test::make_topology(1, 2);
  topology.forced_transport = "tcp";
  topology.hosts[0].inventory.caches.push_back({3, 64 << 20, 1, 64});
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.tcp_bytes_per_s.value = 1'000'000'000;
  costs.tcp_both_bytes_per_s.value = 750'000'000;
  costs.cached_copy_bytes_per_s.value = costs.last_level_copy_bytes_per_s.value = 1'000'000'000'000;
  constexpr uint64_t kBytes = 4 << 20;
  auto in_ns = [](double bytes, double bytes_per_us) { return bytes / bytes_per_us * 1000; };
  auto all_gather_ns = [&] { return static_cast<double>(predicted_of(topology, TUTTI_ALL_GATHER, kBytes)); };
  double cached_ns = all_gather_ns();
  CHECK_THAT(cached_ns, Catch::Matchers::WithinRel(in_ns(kBytes / 2, 750), 0.05));
  costs.copy_bytes_per_s.value = 1'000'000'000;
  costs.memory_bytes_per_s.value = 2'000'000'000;
  topology.hosts[0].inventory.caches.clear();
  // Half a copy at each end, and half of one of the own block.
  CHECK_THAT(all_gather_ns() - cached_ns, Catch::Matchers::WithinRel(in_ns(kBytes / 2, 1000) * 1.5, 0.05));
}

TEST_CASE("over sockets a root that receives has time for its own block, since its peer's calls take longer") {
  Topology topology = test::make_topology(1, 2);
  topology.forced_transport = "tcp";
  topology.hosts[0].inventory.caches.push_back({3, 64 << 20, 1, 64});
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.tcp_bytes_per_s.value = 1'000'000'000;
  costs.tcp_both_bytes_per_s.value = 750'000'000;  // so receiving takes a third of a nanosecond
  costs.cached_copy_bytes_per_s.value = costs.last_level_copy_bytes_per_s.value = 2'000'000'000;
  constexpr uint64_t kBytes = 4 << 20;
  auto about = [](double ns) { return Catch::Matchers::WithinRel(ns, 0.05); };
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_GATHER, kBytes)), about(kBytes / 2));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_SCATTER, kBytes)), about(kBytes / 2 * 1.5));
}

TEST_CASE("ranks of one host that are made to use a network have one worker, as those of several hosts") {
  Topology topology = test::make_topology(1, 4);
  CHECK(workers_of(topology, {}) == 2);
  for (const char* transport : {"tcp", "verbs"}) {
    topology.forced_transport = transport;
    CHECK(workers_of(topology, {}) == 1);
  }
}

TEST_CASE("slices are shares of a core's cache, the largest where both ends of a socket are on one host") {
  auto slice_bytes = [](int hosts, const std::string& transport, uint64_t cache_bytes, uint64_t slot_bytes) {
    Topology topology = test::make_topology(hosts, 2 / hosts);
    topology.forced_transport = transport;
    for (TopologyHost& host : topology.hosts) host.inventory.caches = {{2, cache_bytes, 2, 1}};
    Tuning tuning;
    tuning.algorithm = "direct_two_shot";
    tuning.max_slice_bytes = slot_bytes;
    return must_choose(topology, bytes(64 << 20), tuning).plan.shape().slice_bytes;
  };
  constexpr uint64_t kKiB = 1024;
  CHECK(slice_bytes(1, "", 1024 * kKiB, 512 * kKiB) == 128 * kKiB);
  CHECK(slice_bytes(2, "tcp", 1024 * kKiB, 512 * kKiB) == 128 * kKiB);
  CHECK(slice_bytes(1, "tcp", 1024 * kKiB, 512 * kKiB) == 512 * kKiB);
  CHECK(slice_bytes(1, "tcp", 1024 * kKiB, 256 * kKiB) == 256 * kKiB);
  CHECK(slice_bytes(1, "tcp", 4096 * kKiB, 1024 * kKiB) == 1024 * kKiB);
  CHECK(slice_bytes(1, "tcp", 512 * kKiB, 512 * kKiB) == 256 * kKiB);
}

TEST_CASE("what sockets hold costs more where it exceeds the caches, and less goes around a ring at a time") {
  auto choose_with = [](uint64_t cache_bytes) {
    Topology topology = test::make_topology(1, 8, 2);
    topology.forced_transport = "tcp";
    topology.hosts[0].inventory.caches = {{2, cache_bytes, 2, 1}};
    Tuning tuning;
    tuning.slice_bytes = 128 << 10;
    return must_choose(topology, bytes(1 << 20), tuning);
  };
  Choice roomy = choose_with(16 << 20), crowded = choose_with(1 << 20);
  CHECK(predicted(crowded, "direct_two_shot") > predicted(roomy, "direct_two_shot"));
  CHECK(predicted(crowded, "ring") < predicted(crowded, "direct_two_shot"));
}

TEST_CASE("hops of a pipeline hold what is on the way at the same time") {
  auto tree_ns = [](uint64_t cache_bytes) {
    Topology topology = test::make_topology(1, 8, 2);
    topology.forced_transport = "tcp";
    topology.hosts[0].inventory.caches = {{2, cache_bytes, 2, 1}, {3, 1 << 30, 1, 2}};
    Costs& costs = topology.hosts[0].inventory.costs;
    // What the second-level cache holds besides is of no account.
    costs.last_level_copy_bytes_per_s = costs.cached_copy_bytes_per_s;
    costs.last_level_bytes_per_s = costs.cached_bytes_per_s;
    Tuning tuning;
    tuning.slice_bytes = 128 << 10;
    return predicted(must_choose(topology, bytes(4 << 20), tuning), "binomial_tree");
  };
  // 14 links with two slices each, for two processors.
  CHECK(tree_ns(1536 << 10) > tree_ns(2 << 20));
  CHECK(tree_ns(2 << 20) == tree_ns(16 << 20));
}

TEST_CASE("absurd figures still give a choice, and the same one every time") {
  for (uint64_t value : {uint64_t{1}, uint64_t{1'000'000'000'000'000}}) {
    Topology topology = test::make_topology(2, 4, 2);
    for (TopologyHost& host : topology.hosts) {
      host.inventory.caches.push_back({3, 32 << 20, 1, 4});
      Costs& costs = host.inventory.costs;
      for (Figure* figure :
           {&costs.copy_bytes_per_s, &costs.reduce_bytes_per_s, &costs.cached_bytes_per_s,
            &costs.last_level_bytes_per_s, &costs.cached_copy_bytes_per_s, &costs.last_level_copy_bytes_per_s,
            &costs.memory_bytes_per_s, &costs.cache_line_ns, &costs.slot_bytes_per_s,
            &costs.pull_ns, &costs.pull_bytes_per_s, &costs.yield_ns, &costs.tcp_ns, &costs.tcp_call_ns,
            &costs.tcp_bytes_per_s, &costs.tcp_both_bytes_per_s}) {
        figure->value = value;
      }
    }
    for (uint64_t size_bytes : {uint64_t{8}, uint64_t{1} << 20, uint64_t{1} << 40}) {
      Choice choice = must_choose(topology, bytes(size_bytes));
      CHECK(choice.predicted_ns > 0);
      CHECK(choice.plan.digest() == must_choose(topology, bytes(size_bytes)).plan.digest());
    }
  }
}

TEST_CASE("candidates come fastest first, and those not admitted last, with the reason") {
  Choice choice = must_choose(test::make_topology(1, 200), bytes(1 << 20));
  REQUIRE(choice.candidates.size() == of_collective(TUTTI_ALL_REDUCE).size());
  for (size_t i = 1; i < choice.candidates.size(); ++i) {
    const Candidate& before = choice.candidates[i - 1];
    const Candidate& candidate = choice.candidates[i];
    CHECK_FALSE(candidate.reason.empty());
    CHECK(before.admitted >= candidate.admitted);
    if (candidate.admitted) CHECK(before.predicted_ns <= candidate.predicted_ns);
  }
  CHECK_FALSE(choice.candidates.back().admitted);
  auto has_too_many_links = [](const Candidate& each) { return each.reason.find("199 ranks") != std::string::npos; };
  CHECK(std::any_of(choice.candidates.begin(), choice.candidates.end(), has_too_many_links));
}

TEST_CASE("every size and number of ranks has a choice that can be predicted") {
  for (int number = TUTTI_ALL_REDUCE; number <= TUTTI_SCATTER_V; ++number) {
    for (int nranks = 1; nranks <= 16; ++nranks) {
      for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, uint64_t{1} << 31, uint64_t{1} << 60}) {
        Request request;
        request.collective = static_cast<Collective>(number);
        if (has_root(request.collective)) request.root = nranks - 1;
        request.count = count;
        Choice choice = must_choose(test::make_topology(1 + nranks % 2, nranks), request);
        INFO(name_of(request.collective) << " of " << count << " on " << nranks);
        CHECK(choice.predicted_ns > 0);
        CHECK(choice.plan.shape().collective == request.collective);
        CHECK(choice.plan.shape().slice_bytes % 64 == 0);
      }
    }
  }
}

TEST_CASE("every algorithm of every collective wins somewhere") {
  std::set<const Algorithm*> winners;
  for (const Topology& topology :
       {test::make_topology(1, 2), test::make_topology(1, 8), test::make_topology(1, 64), test::make_topology(1, 300),
        test::make_topology(2, 1), test::make_topology(16, 1), test::make_topology(16, 8),
        test::make_topology(300, 1),
        placed(samples::nccl_host("eight-gpus-nvswitch"), {.nranks = 32, .hosts = 4, .on_gpus = true})}) {
    for (int number = TUTTI_ALL_REDUCE; number <= TUTTI_SCATTER_V; ++number) {
      for (uint64_t size_bytes = 8; size_bytes <= uint64_t{1} << 30; size_bytes *= 8) {
        Request request = bytes(size_bytes);
        request.collective = static_cast<Collective>(number);
        if (has_root(request.collective)) request.root = 0;
        for (bool deterministic : {false, true}) {
          Tuning tuning;
          tuning.deterministic = deterministic;
          Result<Choice> choice = choose(topology, request, tuning);
          if (choice.ok()) winners.insert(find_algorithm(request.collective, choice->plan.shape().algorithm));
        }
      }
    }
  }
  for (const Algorithm* algorithm : algorithms()) {
    INFO(name_of(algorithm->collective) << " by " << algorithm->name);
    CHECK(winners.contains(algorithm));
  }
}

TEST_CASE("deterministic reductions admit only the tree over rank indices") {
  Tuning tuning;
  tuning.deterministic = true;
  for (int nranks : {2, 3, 8, 200}) {
    for (Collective collective : {TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER}) {
      Request request = bytes(1 << 16);
      request.collective = collective;
      if (has_root(collective)) request.root = 1;
      Choice choice = must_choose(test::make_topology(1, nranks), request, tuning);
      for (const Candidate& candidate : choice.candidates) {
        const Algorithm* algorithm = find_algorithm(collective, candidate.algorithm);
        bool is_power = (nranks & (nranks - 1)) == 0;
        bool keeps = nranks == 2 || algorithm->traits.rank_tree == RankTree::kAlways ||
                     (algorithm->traits.rank_tree == RankTree::kPowersOfTwo && is_power);
        INFO(candidate.algorithm << " of " << nranks);
        if (!keeps) CHECK_FALSE(candidate.admitted);
      }
    }
  }
}

TEST_CASE("who asks for an algorithm of another collective is told which there are") {
  Request request = bytes(64);
  request.collective = TUTTI_BARRIER;
  Tuning tuning;
  tuning.algorithm = "ring";
  CHECK_THAT(std::string(choose(test::make_topology(1, 4), request, tuning).status().message()),
             Contains("barrier has no algorithm ring; it has di"));
}

TEST_CASE("the user's wishes are followed or refused with a reason") {
  Topology topology = test::make_topology(1, 200);
  Tuning tuning;
  tuning.algorithm = "ring";
  tuning.channels = 3;
  tuning.slice_bytes = 100;
  PlanShape shape = must_choose(topology, bytes(1 << 20), tuning).plan.shape();
  CHECK(shape.algorithm == "ring");
  CHECK(shape.channels == 3);
  CHECK(shape.slice_bytes == 128);
  tuning.slice_bytes = 1 << 30;
  CHECK(must_choose(topology, bytes(1 << 20), tuning).plan.shape().slice_bytes == tuning.max_slice_bytes);
  tuning.algorithm = "double_binary_tree";
  CHECK(must_choose(topology, bytes(1 << 20), tuning).plan.shape().channels == 4);

  auto refusal = [&](const std::string& algorithm) {
    tuning.algorithm = algorithm;
    return std::string(choose(topology, bytes(1 << 20), tuning).status().message());
  };
  CHECK_THAT(refusal("rnig"), Contains("did you mean \"ring\"?"));
  CHECK_THAT(refusal("something else"), Contains("there are direct_two_shot, "));
  CHECK_THAT(refusal("direct_one_shot"),
             Contains("direct_one_shot cannot run all_reduce here: every rank would hold a link"));
  CHECK_THAT(std::string(choose(Topology(), bytes(8), {}).status().message()), Contains("without ranks"));
}

TEST_CASE("partial results of 8- and 16-bit floats have room in a slot, and their size is counted") {
  const Topology topology = test::make_topology(4, 2);
  Tuning tuning;
  tuning.max_slice_bytes = 4096;
  for (auto [datatype, growth] : {std::pair{TUTTI_BFLOAT16, 2}, {TUTTI_FLOAT8_E4M3, 4}}) {
    for (Collective collective : {TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER}) {
      Request request = bytes(1 << 20);
      request.collective = collective;
      request.datatype = datatype;
      if (has_root(collective)) request.root = 1;
      Request narrow = request;
      narrow.op = TUTTI_MAX;  // loses nothing on its way
      Choice sum = must_choose(topology, request, tuning), maximum = must_choose(topology, narrow, tuning);
      for (const Algorithm* algorithm : of_collective(collective)) {
        INFO(name_of(collective) << " by " << algorithm->name << " of " << name_of(datatype));
        bool sends_partial_results = algorithm->name.find("direct") == std::string_view::npos;
        CHECK(algorithm->shape(topology, request, tuning).slice_bytes * growth <= tuning.max_slice_bytes);
        CHECK(algorithm->shape(topology, narrow, tuning).slice_bytes == tuning.max_slice_bytes);
        if (predicted(sum, algorithm->name) == 0) continue;  // not admitted on hosts without GPUs
        if (sends_partial_results) CHECK(predicted(sum, algorithm->name) > predicted(maximum, algorithm->name));
      }
    }
  }
}

TEST_CASE("8- and 16-bit floats run every algorithm, also where results must be deterministic") {
  for (int nranks : {3, 8, 200}) {
    for (Collective collective : {TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER}) {
      for (bool deterministic : {false, true}) {
        Request request = bytes(1 << 16);
        request.collective = collective;
        if (has_root(collective)) request.root = 1;
        Tuning tuning;
        tuning.deterministic = deterministic;
        std::set<std::string> admitted[2];
        for (Datatype datatype : {TUTTI_FLOAT32, TUTTI_FLOAT16}) {
          request.datatype = datatype;
          for (const Candidate& candidate : must_choose(test::make_topology(1, nranks), request, tuning).candidates) {
            if (candidate.admitted) admitted[datatype == TUTTI_FLOAT16].insert(candidate.algorithm);
          }
        }
        CHECK(admitted[0] == admitted[1]);
      }
    }
  }
}

TEST_CASE("the option algorithm names every one that there is") {
  auto all = options();
  auto option = std::find_if(all.begin(), all.end(), [](auto& each) { return each.name == "algorithm"; });
  REQUIRE(option != all.end());
  std::string meaning(option->meaning);
  for (const Algorithm* each : algorithms()) CHECK_THAT(meaning, Contains(std::string(each->name)));
}

TEST_CASE("the reason names the runner-up and what bounds the time") {
  Choice choice = must_choose(test::make_topology(1, 8), bytes(64));
  CHECK_THAT(choice.reason,
             Contains(choice.plan.shape().algorithm) && Contains(" % ") && Contains(choice.candidates[1].algorithm));
  Tuning tuning;
  tuning.algorithm = "ring";
  choice = must_choose(test::make_topology(1, 8), bytes(64), tuning);
  CHECK_THAT(choice.reason, Contains("the user asked for ring") && Contains("would be faster"));
}

TEST_CASE("a thousand ranks are planned without visiting all pairs") {
  Topology cluster = test::make_topology(125, 8);
  const Algorithm* tree_of_blocks = find_algorithm(TUTTI_REDUCE_SCATTER, "binomial_tree");
  // Counted, not timed: what one rank generates is linear in its own steps.
  for (const Algorithm* algorithm : algorithms()) {
    Request request = bytes(1 << 20);
    request.collective = algorithm->collective;
    if (has_root(request.collective)) request.root = 3;
    PlanShape shape = algorithm->shape(cluster, request, {});
    for (int rank : {0, 1, 511, 999}) {
      size_t steps = 0;
      for (int channel = 0; channel < shape.channels; ++channel) {
        for (const Section& section : algorithm->generate(shape, rank, channel).sections) steps += section.steps.size();
      }
      INFO(algorithm->name << ", rank " << rank);
      CHECK(steps > 0);
      size_t most = algorithm == tree_of_blocks ? 21'000 : 5'000;  // 10 ranks send the first rank all blocks
      CHECK(steps <= most * static_cast<size_t>(shape.channels));
    }
  }
  Choice choice = must_choose(cluster, bytes(1 << 20));
  CHECK(choice.plan.part(999, 0).sections.size() == 1);
}

TEST_CASE("explanations name the choice, its shape and every candidate") {
  Topology topology = test::make_topology(1, 8);
  Request request = bytes(1 << 20);
  Choice choice = must_choose(topology, request);
  std::string text = to_text(topology, request, choice, {.candidates = true, .steps = true});
  CHECK_THAT(text, Contains("all_reduce of 1 MiB (262144 float32), sum, 8 ranks on 1 host"));
  for (const Algorithm* each : of_collective(TUTTI_ALL_REDUCE)) CHECK_THAT(text, Contains(std::string(each->name)));
  CHECK_THAT(text, Contains("Rank 7, channel 0:") &&
                       Contains("put output[7] -> rank 0 (into output[7]), lag 1"));
  std::string json = to_json(topology, request, choice, {});
  CHECK_THAT(json, Contains("\"format\": \"tutti.choice\"") && Contains("\"predicted_ns\"") && !Contains("\"parts\""));
}

TEST_CASE("explanations say that the predicted rate is algbw, a rank's bytes per time") {
  Topology topology = test::make_topology(1, 8);
  Choice choice = must_choose(topology, bytes(1'000'000));
  choice.predicted_ns = 500'000;
  CHECK_THAT(to_text(topology, bytes(1'000'000), choice, {}),
             Contains("predicted  500 us, algbw 2.1 GB/s for its size class, 1 MiB\n"));
}

TEST_CASE("explanations for one rank say that it copies") {
  Topology topology = test::make_topology(1, 1);
  Choice choice = must_choose(topology, bytes(1 << 20));
  std::string text = to_text(topology, bytes(1 << 20), choice, {.candidates = true, .steps = true});
  CHECK_THAT(text, Contains("1 rank on 1 host\n  choice     copy: one rank has nobody to exchange with; --ranks N"));
  std::string json = to_json(topology, bytes(1 << 20), choice, {.candidates = true, .steps = true});
  CHECK_THAT(json, Contains("\"algorithm\": \"copy\"") && Contains("\"predicted_ns\": 0,") &&
                       Contains("\"candidates\": []") && Contains("\"plan\": null"));
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->name != "direct") CHECK_THAT(text + json, !Contains(std::string(algorithm->name)));
  }
}

}  // namespace
}  // namespace tutti
