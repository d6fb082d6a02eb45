// The fused kernel's body, run by g++ thread for thread, against the plain loop of the host's kernels, bit for bit.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "kernels/cases.h"
#include "kernels/cuda/fused_bodies.h"
#include "kernels/cuda/launches.h"

namespace tutti::cuda {
namespace {

constexpr uint32_t kSourceCounts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 33, 64};

// One job with buffers of its own.
struct Case {
  Case(Datatype datatype, uint64_t count, uint32_t sources, uint32_t destinations, std::mt19937_64& random)
      : count(count) {
    size_t element = size_of(datatype), size = count * element;
    // Half of the time all lie alike; of the others some begin within an element.
    bool alike = random() & 1;
    size_t step = random() & 1 ? element : 1, common = random() % 16 / element * element;
    auto place = [&] { return alike ? common : random() % 64 / step * step; };
    for (uint32_t j = 0; j < sources; ++j) {
      inputs.emplace_back(size, place());
      fill_with_values(inputs.back().bytes(), datatype, random);
    }
    for (uint32_t j = 0; j < destinations; ++j) outputs.emplace_back(size, place());
  }

  // Into `in_place` inputs too, which are as large.
  void add_to(Launches& launches, uint32_t in_place) {
    std::vector<uint64_t> sources, destinations;
    for (GuardedBuffer& input : inputs) sources.push_back(reinterpret_cast<uint64_t>(input.data()));
    for (GuardedBuffer& output : outputs) destinations.push_back(reinterpret_cast<uint64_t>(output.data()));
    destinations.insert(destinations.end(), sources.begin(), sources.begin() + in_place);
    launches.add(count, sources, destinations);
  }

  std::vector<std::byte> expected(Datatype datatype, ReduceOp op, uint32_t divisor) {
    std::vector<const std::byte*> sources;
    for (GuardedBuffer& input : inputs) sources.push_back(input.data());
    std::vector<std::byte> result(count * size_of(datatype));
    if (sources.size() == 1) {
      std::copy_n(sources[0], result.size(), result.data());
      return result;
    }
    std::byte* destination = result.data();
    reduce_scalar({.datatype = datatype,
                   .op = op,
                   .sources = sources,
                   .destinations = {&destination, 1},
                   .count = count,
                   .divisor = divisor});
    return result;
  }

  bool holds(const std::vector<std::byte>& result, uint32_t in_place) {
    auto equals = [&](GuardedBuffer& buffer) {
      bool equal = result.empty() || std::memcmp(buffer.data(), result.data(), result.size()) == 0;
      return equal && buffer.guards_intact();
    };
    return std::all_of(outputs.begin(), outputs.end(), equals) &&
           std::all_of(inputs.begin(), inputs.begin() + in_place, equals);
  }

  uint64_t count;
  std::vector<GuardedBuffer> inputs;
  std::vector<GuardedBuffer> outputs;
};

void check(Datatype datatype, ReduceOp op, uint32_t sources, const std::vector<uint64_t>& counts,
           std::mt19937_64& random) {
  Launches launches(datatype, op, sources);
  FusedBody body = fused_body(launches.kernel());
  INFO(launches.kernel() << ", " << sources << " sources, " << name_of(datatype) << " " << name_of(op));
  REQUIRE(body != nullptr);
  auto divisor = static_cast<uint32_t>(op == TUTTI_AVG && sources > 1 ? sources : 0);
  auto in_place = static_cast<uint32_t>(random() % (sources + 1));
  std::vector<Case> cases;
  std::vector<std::vector<std::byte>> expected;
  for (uint64_t count : counts) {
    cases.emplace_back(datatype, count, sources, 1 + static_cast<uint32_t>(random() % 3), random);
    expected.push_back(cases.back().expected(datatype, op, divisor));
    cases.back().add_to(launches, in_place);
  }
  constexpr uint32_t kBlocks = 3, kFewThreads = 8;
  for (const FusedArgs& args : launches.all()) {
    for (uint32_t block = 0; block < kBlocks; ++block) {
      for (uint32_t thread = 0; thread < kFewThreads; ++thread) body(args, {block, kBlocks, thread, kFewThreads});
    }
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO("job " << i << " of " << counts[i] << " elements, " << in_place << " in place");
    CHECK(cases[i].holds(expected[i], in_place));
  }
}

}  // namespace

TEST_CASE("the fused kernel gives the bits of the host's, in any number of jobs") {
  std::mt19937_64 random(1);
  for (Datatype datatype : kDatatypes) {
    uint64_t tile = kTileBytes / size_of(datatype);
    for (ReduceOp op : ops_of(datatype)) {
      for (uint32_t sources : kSourceCounts) {
        check(datatype, op, sources, {0, 1, 2, 0, 15, 16, 17, 1000}, random);
        if (sources <= 4) check(datatype, op, sources, {tile - 1, 3, 2 * tile + 5}, random);
      }
    }
  }
}

TEST_CASE("jobs that do not fit into one launch go into several") {
  Launches launches(TUTTI_INT32, TUTTI_SUM, 3);
  const std::vector<uint64_t> sources = {64, 128, 192}, destinations = {256};
  launches.add(0, sources, destinations);
  launches.add(5, sources, {});
  CHECK(launches.all().empty());
  for (int i = 0; i < 61; ++i) launches.add(kTileBytes / 4, sources, destinations);
  REQUIRE(launches.all().size() == 2);  // 60 of them have 240 addresses
  CHECK(launches.all()[0].job_count == 60);
  CHECK(launches.all()[0].tiles == 120);  // a tile more each, for buffers that do not begin where a vector does
  CHECK(launches.all()[1].job_count == 1);
  CHECK(launches.all()[1].jobs[0].first_tile == 0);
}

TEST_CASE("a launch that is cancelled does nothing") {
  uint32_t cancelled = 1;
  std::vector<int32_t> in(100, 3), out(100, 7);
  Launches launches(TUTTI_INT32, TUTTI_SUM, 1);
  std::vector<uint64_t> from = {reinterpret_cast<uint64_t>(in.data())}, to = {reinterpret_cast<uint64_t>(out.data())};
  launches.add(in.size(), from, to);
  FusedArgs& args = launches.all().front();
  args.cancelled = &cancelled;
  FusedBody body = fused_body(launches.kernel());
  body(args, {});
  CHECK(out == std::vector<int32_t>(100, 7));
  cancelled = 0;
  body(args, {});
  CHECK(out == in);
}

}  // namespace tutti::cuda
