// reduce() on every instruction set against reduce_scalar(), bit for bit.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cases.h"

namespace tutti {
namespace {

constexpr size_t kSourceCounts[] = {1, 2, 3, 4, 7, 8, 16};
constexpr size_t kDestinationCounts[] = {1, 2, 3, 8};
constexpr uint64_t kCounts[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 4097};

// Ends where its allocation ends, so that the address sanitizer sees a read beyond it.
struct Source {
  Source(size_t size, size_t misalignment) : storage(std::make_unique<std::byte[]>(misalignment + size)), size(size) {
    data = storage.get() + misalignment;
  }

  std::unique_ptr<std::byte[]> storage;
  std::byte* data;
  size_t size;
};

struct Sources {
  Sources(Datatype datatype, uint64_t count, size_t how_many, std::mt19937_64& random) {
    for (size_t j = 0; j < how_many; ++j) {
      buffers.emplace_back(count * size_of(datatype), random() % 64);
      fill_with_values({buffers.back().data, buffers.back().size}, datatype, random);
      pointers.push_back(buffers.back().data);
    }
  }

  std::vector<Source> buffers;
  std::vector<const std::byte*> pointers;
};

struct Destinations {
  // Half of the time all at the same place of their cache lines, as page-aligned buffers are.
  Destinations(size_t size, size_t how_many, std::mt19937_64& random) {
    const size_t common = random() % 64;
    const bool same = random() & 1;
    for (size_t j = 0; j < how_many; ++j) {
      buffers.emplace_back(size, same ? common : random() % 64);
      pointers.push_back(buffers.back().data());
    }
  }

  bool hold(std::span<const std::byte> expected) {
    return std::all_of(buffers.begin(), buffers.end(), [&](GuardedBuffer& buffer) {
      const bool equal = expected.empty() || memcmp(expected.data(), buffer.data(), expected.size()) == 0;
      return equal && buffer.guards_intact();
    });
  }

  std::vector<GuardedBuffer> buffers;
  std::vector<std::byte*> pointers;
};

std::vector<std::byte> scalar_result(ReduceArgs args) {
  std::vector<std::byte> result(args.count * size_of(args.datatype));
  std::byte* const destination = result.data();
  args.destinations = {&destination, 1};
  reduce_scalar(args);
  return result;
}

void check_on_target(ReduceArgs args, std::span<const std::byte> expected, size_t how_many, size_t streamed,
                     std::mt19937_64& random) {
  Destinations destinations(expected.size(), how_many, random);
  args.destinations = destinations.pointers;
  args.streamed = streamed;
  reduce(args);
  if (!destinations.hold(expected)) FAIL_CHECK(describe(args));
}

// On every target, with every number of destinations and with none, one and all of them past the caches.
void check_everywhere(const ReduceArgs& args, std::mt19937_64& random) {
  const std::vector<std::byte> expected = scalar_result(args);
  for (const size_t how_many : kDestinationCounts) {
    for_each_target([&] {
      check_on_target(args, expected, how_many, 0, random);
      if (how_many > 1) check_on_target(args, expected, how_many, 1, random);
      check_on_target(args, expected, how_many, how_many, random);
    });
  }
}

uint32_t some_divisor(ReduceOp op, size_t sources, std::mt19937_64& random) {
  if (op != TUTTI_AVG) return 0;
  const uint32_t choices[] = {0, 1, 3, 8, 100, 1u << 31, UINT32_MAX, static_cast<uint32_t>(sources)};
  return choices[random() % std::size(choices)];
}

void check_all_operations(const Sources& sources, Datatype datatype, uint64_t count, std::mt19937_64& random) {
  for (const ReduceOp op : ops_of(datatype)) {
    for (const size_t k : kSourceCounts) {
      check_everywhere({.datatype = datatype,
                        .op = op,
                        .sources = std::span(sources.pointers).first(k),
                        .count = count,
                        .divisor = some_divisor(op, k, random)},
                       random);
    }
  }
}

TEST_CASE("all types, operations, sources and destinations give the scalar bits on every target") {
  std::mt19937_64 random(1);
  for (const Datatype datatype : kDatatypes) {
    for (const uint64_t count : kCounts) {
      check_all_operations(Sources(datatype, count, 16, random), datatype, count, random);
    }
  }
}

TEST_CASE("every number of bytes in a tail is written exactly") {
  std::mt19937_64 random(2);
  for (uint64_t count = 0; count <= 600; ++count) {
    const Sources sources(TUTTI_UINT8, count, 2, random);
    check_everywhere({.datatype = TUTTI_UINT8, .op = TUTTI_SUM, .sources = sources.pointers, .count = count}, random);
  }
}

// Into source `aliased` and, with two destinations, another buffer.
void check_in_place(Datatype datatype, uint64_t count, size_t k, size_t aliased, size_t written, size_t streamed,
                    std::mt19937_64& random) {
  const Sources sources(datatype, count, k, random);
  ReduceArgs args{.datatype = datatype, .op = TUTTI_SUM, .sources = sources.pointers, .count = count};
  const std::vector<std::byte> expected = scalar_result(args);
  GuardedBuffer other(expected.size(), random() % 64);
  std::byte* const destinations[] = {sources.buffers[aliased].data, other.data()};
  args.destinations = std::span(destinations).first(written);
  args.streamed = streamed;
  reduce(args);
  const bool equal = std::all_of(args.destinations.begin(), args.destinations.end(), [&](std::byte* destination) {
                       return std::equal(expected.begin(), expected.end(), destination);
                     }) && other.guards_intact();
  if (!equal) FAIL_CHECK(describe(args) << ", in place of source " << aliased);
}

TEST_CASE("a destination may be any of the sources") {
  std::mt19937_64 random(3);
  for_each_target([&] {
    for (const Datatype datatype : kDatatypes) {
      for (const uint64_t count : {1, 3, 17, 65, 1003}) {
        for (const size_t k : {1, 2, 4, 5}) {
          for (size_t aliased = 0; aliased < k; ++aliased) {
            for (const size_t streamed : {0, 1, 2}) check_in_place(datatype, count, k, aliased, 2, streamed, random);
            for (const size_t streamed : {0, 1}) check_in_place(datatype, count, k, aliased, 1, streamed, random);
          }
        }
      }
    }
  });
}

TEST_CASE("all sources may be destinations at once") {
  std::mt19937_64 random(4);
  for_each_target([&] {
    for (const size_t streamed : {0, 3, 8}) {
      const Sources sources(TUTTI_BFLOAT16, 5001, 8, random);
      ReduceArgs args{.datatype = TUTTI_BFLOAT16,
                      .op = TUTTI_SUM,
                      .sources = sources.pointers,
                      .count = 5001,
                      .streamed = streamed};
      const std::vector<std::byte> expected = scalar_result(args);
      std::vector<std::byte*> destinations;
      for (const Source& source : sources.buffers) destinations.push_back(source.data);
      args.destinations = destinations;
      reduce(args);
      for (const std::byte* destination : destinations) {
        CHECK(std::equal(expected.begin(), expected.end(), destination));
      }
    }
  });
}

void check_average(const Sources& sources, Datatype datatype, uint64_t count, uint32_t divisor,
                   std::mt19937_64& random) {
  const ReduceArgs args{
      .datatype = datatype, .op = TUTTI_AVG, .sources = sources.pointers, .count = count, .divisor = divisor};
  const std::vector<std::byte> expected = scalar_result(args);
  for_each_target([&] { check_on_target(args, expected, 1, 0, random); });
}

TEST_CASE("integer averages truncate towards zero for any divisor") {
  std::mt19937_64 random(5);
  for (const Datatype datatype : {TUTTI_INT8, TUTTI_UINT8, TUTTI_INT32, TUTTI_UINT32, TUTTI_INT64, TUTTI_UINT64}) {
    const Sources sources(datatype, 500, 2, random);
    for (uint32_t divisor = 1; divisor <= 300; ++divisor) {
      check_average(sources, datatype, 500, divisor, random);
    }
    for (const uint32_t divisor :
         {641u, 32767u, 65535u, 65536u, 65537u, (1u << 31) - 1, 1u << 31, (1u << 31) + 1, UINT32_MAX}) {
      check_average(sources, datatype, 500, divisor, random);
    }
  }
}

TEST_CASE("the fastest target of this processor is in use and has a name") {
  std::vector<std::string> names;
  for_each_target([&] { names.push_back(kernel_target()); });
  REQUIRE(!names.empty());
  CHECK(kernel_target() == names.front());
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

}  // namespace
}  // namespace tutti
