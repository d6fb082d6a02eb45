#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "planner/choices.h"
#include "planner/explain.h"
#include "planner/planner.h"
#include "planner/topologies.h"
#include "tests/topology/nccl_samples.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;

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

TEST_CASE("absurd figures still give a choice, and the same one every time") {
  auto with_figures = [](uint64_t value, int cpus) {
    Topology topology = test::make_topology(2, 4, cpus);
    for (TopologyHost& host : topology.hosts) {
      host.inventory.caches.push_back({3, 32 << 20, 1, 4});
      Costs& costs = host.inventory.costs;
      for (Figure* figure :
           {&costs.copy_bytes_per_s, &costs.reduce_bytes_per_s, &costs.cached_bytes_per_s,
            &costs.last_level_bytes_per_s, &costs.cached_copy_bytes_per_s, &costs.last_level_copy_bytes_per_s,
            &costs.memory_bytes_per_s, &costs.cache_line_ns, &costs.slot_store_bytes_per_s,
            &costs.slot_load_bytes_per_s, &costs.small_slot_store_bytes_per_s, &costs.small_slot_load_bytes_per_s,
            &costs.slot_settle_ns, &costs.pull_ns, &costs.pull_bytes_per_s, &costs.yield_ns, &costs.tcp_ns,
            &costs.tcp_send_ns, &costs.tcp_receive_ns, &costs.tcp_bytes_per_s, &costs.tcp_both_bytes_per_s,
            &costs.large_tcp_bytes_per_s, &costs.large_tcp_both_bytes_per_s}) {
        figure->value = value;
      }
    }
    return topology;
  };
  for (uint64_t value : {uint64_t{1}, uint64_t{1'000'000'000'000'000}}) {
    for (int cpus : {2, 4}) {
      Topology topology = with_figures(value, cpus);
      for (uint64_t size_bytes : {uint64_t{8}, uint64_t{1} << 20, uint64_t{1} << 40}) {
        Choice choice = must_choose(topology, bytes(size_bytes));
        CHECK(choice.predicted_ns > 0);
        CHECK(choice.plan.digest() == must_choose(topology, bytes(size_bytes)).plan.digest());
      }
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

