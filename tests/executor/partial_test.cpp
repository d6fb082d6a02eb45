// Partial results of 8- and 16-bit floats: every algorithm rounds its result once, whichever way it came.
#include <catch2/catch.hpp>

#include "executor/collective.h"
#include "kernels/ops.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSlotBytes = 1024;

// How one of the types lies in memory.
struct Format {
  Datatype datatype;
  float (*load)(const std::byte* from);
  void (*store)(std::byte* to, float value);
};

template <class Element>
Format format_of(Datatype datatype) {
  using Storage = typename Element::Storage;
  return {datatype,
          [](const std::byte* from) {
            Storage stored;
            std::memcpy(&stored, from, sizeof stored);
            return static_cast<float>(Element::load(stored));
          },
          [](std::byte* to, float value) {
            Storage stored = Element::store(value);
            std::memcpy(to, &stored, sizeof stored);
          }};
}

const Format kFormats[] = {format_of<ops::Float16>(TUTTI_FLOAT16), format_of<ops::Bfloat16>(TUTTI_BFLOAT16),
                           format_of<ops::Float8E4m3>(TUTTI_FLOAT8_E4M3), format_of<ops::Float8E5m2>(TUTTI_FLOAT8_E5M2),
                           format_of<ops::Plain<float>>(TUTTI_FLOAT32)};

struct Sum {
  const Algorithm* algorithm;
  Collective collective;
  Format format;
  ReduceOp op = TUTTI_SUM;
  int nranks = 2;
  int root = -1;
  int channels = 1;
  uint64_t count = 0;   // of the vector, or of the largest block
  bool in_place = false;
  bool shared = false;  // memory that peers can map

  bool scatters() const { return without_counts(collective) == TUTTI_REDUCE_SCATTER; }
  uint64_t block(int rank) const {
    bool listed = collective == TUTTI_REDUCE_SCATTER_V;
    return listed ? count * static_cast<uint64_t>(rank % 3) / 2 : count;
  }
  uint64_t begin_of(int rank) const {
    uint64_t begin = 0;
    for (int r = 0; r < rank; ++r) begin += block(r);
    return begin;
  }
  uint64_t input_count() const { return scatters() ? begin_of(nranks) : count; }
  uint64_t output_count(int rank) const { return scatters() ? block(rank) : count; }
  // Among the elements of the input.
  uint64_t output_begin(int rank) const { return scatters() ? begin_of(rank) : 0; }

  std::string text() const {
    return fmt::format("{} {} {} of {} {}, {} ranks, {} channels, in place {}, shared {}", name_of(collective),
                       algorithm->name, name_of(op), count, name_of(format.datatype), nranks, channels, in_place,
                       shared);
  }
};

// Values whose sums and products are exact in float32, in any order, while partial ones would overflow or lose their
// last bits in the datatype.
float contribution(const Sum& which, int rank, uint64_t index) {
  bool multiplies = which.op == TUTTI_PROD;
  float large = 0;
  switch (which.format.datatype) {
    case TUTTI_FLOAT16: large = multiplies ? 16384 : 65504; break;
    case TUTTI_FLOAT8_E4M3: large = multiplies ? 256 : 448; break;
    case TUTTI_FLOAT8_E5M2: large = multiplies ? 16384 : 57344; break;
    default: large = multiplies ? 0x1p30F : 1024;
  }
  uint64_t turn = (index + static_cast<uint64_t>(rank)) % static_cast<uint64_t>(which.nranks);
  if (multiplies) return turn == 0 || turn == 1 ? large : turn == 2 ? -1.5F / large : 1;
  if (turn == 0 || turn == 1) return large;
  if (turn == 2) return -large;
  return turn % 2 == 0 ? 1.25F : -0.5F * static_cast<float>(index % 3);
}

constexpr float kFactor = 0.75F;  // of every rank, where contributions are multiplied first

float rounded(const Format& format, float value) {
  std::byte stored[8];
  format.store(stored, value);
  return format.load(stored);
}

float expected(const Sum& which, uint64_t index) {
  float all = which.op == TUTTI_PROD ? 1 : 0;
  for (int rank = 0; rank < which.nranks; ++rank) {
    float value = rounded(which.format, contribution(which, rank, index));
    if (which.op == kPreMulSum) value = rounded(which.format, value * kFactor);
    all = which.op == TUTTI_PROD ? all * value : all + value;
  }
  return rounded(which.format, which.op == TUTTI_AVG ? all / static_cast<float>(which.nranks) : all);
}

class Buffer {
 public:
  Buffer(Rank& rank, uint64_t size_bytes, bool shared) {
    if (shared) {
      shared_ = rank.allocate(std::max<uint64_t>(size_bytes, 1));
      window_ = rank.share(shared_);
    } else {
      plain_.resize(size_bytes + 1);  // so that an empty one is somewhere, too
    }
  }
  std::byte* data() { return window_ ? shared_.data() : plain_.data(); }
  Window window(uint64_t offset) const { return window_ ? Window{window_.memory_id, offset} : window_; }

 private:
  Rank::Shared shared_;
  std::vector<std::byte> plain_;
  Window window_;
};

Partition partition_of(const Sum& which, const PlanShape& shape, int rank, const std::vector<uint64_t>& counts,
                       const std::vector<uint64_t>& begins) {
  auto element = static_cast<uint32_t>(size_of(which.format.datatype));
  if (!which.scatters()) return Partition(which.count, element, shape.channels, shape.chunks, shape.slice_bytes);
  Blocks input{.modulo = which.nranks};
  if (which.collective == TUTTI_REDUCE_SCATTER_V) {
    input.counts = counts.data();
    input.displacements = begins.data();
  }
  return Partition(which.block(rank), element, shape.channels, shape.slice_bytes, input, Blocks{}, rank);
}

Status run_sum(Rank& self, const Sum& which, const Plan& plan, int number) {
  const int rank = self.rank();
  const uint64_t element = size_of(which.format.datatype);
  std::vector<uint64_t> counts, begins;
  for (int r = 0; r < which.nranks; ++r) {
    counts.push_back(which.block(r));
    begins.push_back(which.begin_of(r));
  }
  Buffer input(self, which.input_count() * element, which.shared);
  Buffer output(self, which.output_count(rank) * element, which.shared);
  for (uint64_t i = 0; i < which.input_count(); ++i) {
    which.format.store(input.data() + i * element, contribution(which, rank, i));
  }
  uint64_t offset = which.output_begin(rank) * element;
  OwnOp factor;
  which.format.store(factor.factor.data(), kFactor);

  Call call{.shape = &plan.shape(), .datatype = which.format.datatype, .op = which.op};
  call.own_op = which.op == kPreMulSum ? &factor : nullptr;
  call.input = input.data();
  call.output = which.in_place ? input.data() + offset : output.data();
  call.in_place = which.in_place;
  call.partition = partition_of(which, plan.shape(), rank, counts, begins);
  call.size_bytes = which.input_count() * element;
  call.streams = call.size_bytes >= 4096 && !which.in_place;
  call.signature = 1 + static_cast<uint64_t>(number);
  call.input_window = input.window(0);
  call.output_window = which.in_place ? input.window(offset) : output.window(0);
  call.announces_output = holds(plan.shape().deliver_directly, which.in_place) && call.output_window;
  call.options = {
      .pull_min_bytes = 256,
      .spread = {.least_bytes = 64, .bytes = 1 << 16}};
  TUTTI_TRY(self.run(programs_of(plan, rank), call));

  if (which.root >= 0 && rank != which.root) return {};
  for (uint64_t i = 0; i < which.output_count(rank); ++i) {
    float got = which.format.load(call.output + i * element), want = expected(which, which.output_begin(rank) + i);
    if (got != want) return error(Code::kInternal, "rank {}: element {} is {} and should be {}", rank, i, got, want);
  }
  return {};
}

Plan plan_for(const Sum& which) {
  Request request{.collective = which.collective,
                  .datatype = which.format.datatype,
                  .op = which.op,
                  .root = which.root,
                  .count = 100'000};
  Tuning tuning{.channels = which.channels, .slice_bytes = kSlotBytes, .max_slice_bytes = kSlotBytes};
  return Plan(which.algorithm->shape(topology_of(which.nranks), request, tuning), which.algorithm->generate);
}

void run_sums(const std::vector<Sum>& sums, int nranks, const std::string& over) {
  Ranks ranks({.nranks = nranks, .channels = kMostChannels, .slots = 3, .slot_bytes = kSlotBytes}, fabric(over).make);
  auto statuses = ranks.each([&](int rank) -> Status {
    for (size_t number = 0; number < sums.size(); ++number) {
      Status status = run_sum(ranks[rank], sums[number], plan_for(sums[number]), static_cast<int>(number));
      if (status.ok()) continue;
      ranks[rank].abort();
      return std::move(status).within(sums[number].text());
    }
    return {};
  });
  for (const Status& status : statuses) CHECK(status.message() == "");
}

std::vector<Sum> sums_of(Chance& chance, const Algorithm& algorithm, int nranks) {
  std::vector<Sum> sums;
  for (const Format& format : kFormats) {
    for (ReduceOp op : {TUTTI_SUM, TUTTI_PROD, TUTTI_AVG, kPreMulSum}) {
      Sum sum{.algorithm = &algorithm, .collective = algorithm.collective, .format = format, .op = op};
      if (sum.scatters()) sum.collective = chance.one_of({TUTTI_REDUCE_SCATTER, TUTTI_REDUCE_SCATTER_V});
      sum.nranks = nranks;
      if (has_root(sum.collective)) sum.root = chance.between(0, nranks - 1);
      sum.channels = chance.between(1, 2);
      sum.count = static_cast<uint64_t>(chance.one_of({0, 1, 4, 9, 20, 700, chance.between(1, 3000)}));
      sum.shared = chance.between(0, 1) == 1;
      sum.in_place = !has_root(sum.collective) && chance.between(0, 1) == 1;
      sums.push_back(sum);
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("8- and 16-bit floats are rounded once by every algorithm that reduces") {
  const std::string over = GENERATE("loopback", "shm", "tcp");
  for (int nranks : {3, 4, 5, 8}) {
    if (nranks > 4 && over != "loopback") continue;
    Chance chance(20261121 + static_cast<uint64_t>(nranks));
    std::vector<Sum> sums;
    for (int round = 0; round < (over == "tcp" ? 2 : 6); ++round) {
      for (const Algorithm* algorithm : algorithms()) {
        if (!reduces(algorithm->collective)) continue;
        for (const Sum& sum : sums_of(chance, *algorithm, nranks)) sums.push_back(sum);
      }
    }
    INFO(nranks << " ranks over " << over);
    run_sums(sums, nranks, over);
  }
}

TEST_CASE("a message is a piece or a partial result of one; another size is an error") {
  constexpr uint64_t kCount = 100;
  struct Size {
    Format format;
    uint64_t times;  // as large as the piece
    bool is_right;
  };
  for (const Size& size : {Size{kFormats[0], 2, true}, {kFormats[0], 3, false}, {kFormats[0], 4, false},
                           {kFormats[2], 4, true}, {kFormats[2], 2, false}, {kFormats[4], 2, false}}) {
    INFO(name_of(size.format.datatype) << ", " << size.times << " times");
    Sum which{.algorithm = find_algorithm(TUTTI_ALL_REDUCE, "direct_one_shot"),
              .collective = TUTTI_ALL_REDUCE,
              .format = size.format,
              .count = kCount};
    Plan plan = plan_for(which);
    StreamLayout layout{.nranks = 2, .channels = 1, .slots = 4, .slot_bytes = kSlotBytes};
    Ranks ranks(layout, fabric("shm").make);
    uint64_t piece = kCount * size_of(size.format.datatype);
    Message message{.kind = MessageKind::kSlot, .size_bytes = piece * size.times, .chunk_bytes = piece};
    Link& link = ranks[1].link(0);
    Line line = encode(message, 1, 1, &message);
    REQUIRE(link.signal({link.find(1), layout.line_offset(1, 0, 0)}, line).ok());
    // The slot holds zeros, so what is accepted makes a sum that may be wrong.
    CHECK((run_sum(ranks[0], which, plan, 0).code() == Code::kRemote) == !size.is_right);
  }
}

}  // namespace tutti::test
