// The speed of reduce() as a share of what loads and stores allow: a table of types and operations over sizes and
// numbers of buffers. Arguments: names of the datatypes to measure; all when there are none.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/bench/limits.h"
#include "kernels/kernels.h"

namespace tutti {
namespace {

constexpr double kEnough = 0.9;
constexpr double kBatchUs = 30;  // short enough to fit between two interruptions

struct Operation {
  const char* name;
  ReduceOp op;
  uint32_t divisor;
};

constexpr Datatype kDatatypes[] = {TUTTI_FLOAT32,     TUTTI_FLOAT64,     TUTTI_BFLOAT16, TUTTI_FLOAT16,
                                   TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2, TUTTI_INT8,     TUTTI_UINT8,
                                   TUTTI_INT32,       TUTTI_UINT32,      TUTTI_INT64,    TUTTI_UINT64};
constexpr Operation kOperations[] = {{"sum", TUTTI_SUM, 0},  {"prod", TUTTI_PROD, 0},   {"max", TUTTI_MAX, 0},
                                     {"min", TUTTI_MIN, 0},  {"avg / 4", TUTTI_AVG, 4}, {"avg / 3", TUTTI_AVG, 3},
                                     {"and", TUTTI_BAND, 0}, {"or", TUTTI_BOR, 0},      {"xor", TUTTI_BXOR, 0}};

// Of one buffer: three of them fit into the level-1 cache, into the level-2 cache, into the last one, into none.
struct Size {
  const char* name;
  size_t bytes;
  Store store;
  int pairs;  // of measurements
};

constexpr Size kSizes[] = {{"8K", 8 << 10, Store::kCached, 51},
                           {"128K", 128 << 10, Store::kCached, 51},
                           {"1M", 1 << 20, Store::kCached, 31},
                           {"64M", 64 << 20, Store::kStreaming, 9}};

struct Shape {
  size_t sources;
  size_t destinations;
};

constexpr Shape kShapes[] = {{2, 1}, {4, 1}, {2, 2}};

constexpr size_t kLargest = std::end(kSizes)[-1].bytes;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Buffers of one size, one behind the other. Between them is some room: the level-1 caches of some processors take
// lines for the same that are a large power of two apart.
class Memory {
 public:
  Memory() : begin_(static_cast<std::byte*>(std::aligned_alloc(kRoom, kMostBuffers * (kLargest + kRoom)))) {
    // In every type a number whose fourth power is normal.
    memset(begin_.get(), 0x3c, kMostBuffers * (kLargest + kRoom));
  }

  std::vector<std::byte*> buffers(size_t first, size_t count, size_t size_bytes) const {
    std::vector<std::byte*> buffers;
    for (size_t i = first; i < first + count; ++i) buffers.push_back(begin_.get() + i * (size_bytes + kRoom));
    return buffers;
  }

 private:
  static constexpr size_t kMostBuffers = 5;
  static constexpr size_t kRoom = 1024;

  std::unique_ptr<std::byte, Free> begin_;
};

using Kernel = void(const ReduceArgs&);

// The processor's time, which other processes do not lengthen.
double run_us(Kernel* kernel, const ReduceArgs& args, int calls) {
  timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (int i = 0; i < calls; ++i) kernel(args);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) * 1e6 + static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e3;
}

// The speed of reduce() as a share of `limit`'s: the median over pairs of batches, one right after the other.
double share(Kernel* limit, const ReduceArgs& args, int pairs) {
  int calls = 1;
  while (run_us(limit, args, calls) < kBatchUs) calls *= 2;
  std::vector<double> shares;
  for (int i = 0; i < pairs; ++i) {
    const double limit_us = run_us(limit, args, calls);
    shares.push_back(limit_us / run_us(reduce, args, calls));
  }
  const auto median = shares.begin() + pairs / 2;
  std::nth_element(shares.begin(), median, shares.end());
  return *median;
}

class Table {
 public:
  Table(const char* title, Kernel* limit, const Memory& memory) : limit_(limit), memory_(memory) {
    fmt::print("\n{}\n\n{:20}", title, "");
    for (const Shape& shape : kShapes) fmt::print("|{:>14} -> {:<10}", shape.sources, shape.destinations);
    fmt::print("\n{:<12}{:<8}", "type", "op");
    for (size_t i = 0; i < std::size(kShapes); ++i) {
      fmt::print("|");
      for (const Size& size : kSizes) fmt::print("{:>6} ", size.name);
    }
    fmt::print("\n");
  }

  void row(Datatype datatype, const Operation& operation) const {
    fmt::print("{:<11} {:<7} ", name_of(datatype), operation.name);
    for (const Shape& shape : kShapes) {
      fmt::print("|");
      for (const Size& size : kSizes) {
        const double seen = cell(datatype, operation, shape, size);
        fmt::print("{:>6.2f}{}", seen, seen < kEnough - 0.005 ? '*' : ' ');
        fflush(stdout);
      }
    }
    fmt::print("\n");
  }

 private:
  double cell(Datatype datatype, const Operation& operation, const Shape& shape, const Size& size) const {
    const auto sources = memory_.buffers(0, shape.sources, size.bytes);
    const auto destinations = memory_.buffers(shape.sources, shape.destinations, size.bytes);
    const std::vector<const std::byte*> const_sources(sources.begin(), sources.end());
    return share(limit_,
                 {.datatype = datatype,
                  .op = operation.op,
                  .sources = const_sources,
                  .destinations = destinations,
                  .count = size.bytes / size_of(datatype),
                  .divisor = operation.divisor,
                  .streamed = size.store == Store::kStreaming ? destinations.size() : 0},
                 size.pairs);
  }

  Kernel* limit_;
  const Memory& memory_;
};

bool is_narrow(Datatype datatype) { return !is_integer(datatype) && size_of(datatype) <= 2; }
// What is combined in float32. Minima and maxima of the same types are compared as they are.
bool is_converted(Datatype datatype, const Operation& operation) {
  bool is_compared = operation.op == TUTTI_MIN || operation.op == TUTTI_MAX;
  return is_defined_for(operation.op, datatype) && !is_compared;
}

void run(std::span<const Datatype> datatypes) {
  fmt::print("{}; sources -> destinations, bytes of each; * is below {}\n", kernel_target(), kEnough);
  const Memory memory;
  const Table moving("Speed as a share of loading and storing:", move, memory);
  for (const Datatype datatype : datatypes) {
    for (const Operation& operation : kOperations) {
      if (is_defined_for(operation.op, datatype)) moving.row(datatype, operation);
    }
  }
  if (std::none_of(datatypes.begin(), datatypes.end(), is_narrow)) return;
  const Table converting("Speed as a share of loading, converting to float32 and back, and storing:", convert, memory);
  for (const Datatype datatype : datatypes) {
    if (!is_narrow(datatype)) continue;
    for (const Operation& operation : kOperations) {
      if (is_converted(datatype, operation)) converting.row(datatype, operation);
    }
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const std::vector<std::string_view> names(argv + 1, argv + argc);
  std::vector<tutti::Datatype> datatypes;
  for (const tutti::Datatype datatype : tutti::kDatatypes) {
    const bool named = std::find(names.begin(), names.end(), tutti::name_of(datatype)) != names.end();
    if (names.empty() || named) datatypes.push_back(datatype);
  }
  if (datatypes.size() < names.size()) {
    std::fputs("bench_kernels: the arguments are types, such as float32 and bfloat16, each once\n", stderr);
    return 2;
  }
  tutti::run(datatypes);
}
