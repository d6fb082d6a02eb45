// reduce_partial(): a reduction in parts, whose partial results are float32, has the bits of the whole one.
#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cases.h"
#include "kernels/ops.h"

namespace tutti {
namespace {

constexpr Datatype kNarrowFloats[] = {TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2};
constexpr uint64_t kCounts[] = {0, 1, 3, 7, 15, 16, 17, 31, 63, 64, 65, 130, 511, 512, 513, 1500};

std::vector<const std::byte*> pointers_to(const std::vector<std::vector<std::byte>>& buffers) {
  std::vector<const std::byte*> pointers;
  for (const auto& buffer : buffers) pointers.push_back(buffer.data());
  return pointers;
}

ReduceArgs args_of(Datatype datatype, ReduceOp op, uint64_t count, uint32_t divisor) {
  return {.datatype = datatype, .op = op, .sources = {}, .destinations = {}, .count = count, .divisor = divisor};
}

std::vector<std::byte> whole(ReduceArgs args, const std::vector<std::vector<std::byte>>& inputs) {
  std::vector<std::byte> result(args.count * size_of(args.datatype));
  auto sources = pointers_to(inputs);
  std::byte* to = result.data();
  args.sources = sources;
  args.destinations = {&to, 1};
  reduce_scalar(args);
  return result;
}

// The tree over positions, each node a reduction of its own; inputs that `random` says so are widened beforehand.
std::vector<std::byte> in_parts(const ReduceArgs& args, const std::vector<std::vector<std::byte>>& inputs, size_t first,
                                size_t number, bool last, Width& width, std::mt19937_64& random) {
  if (number == 1 && !last) {
    width = random() % 2 == 0 ? Width::kNarrow : Width::kWide;
    if (width == Width::kNarrow) return inputs[first];
    std::vector<std::byte> wide(args.count * sizeof(float));
    widen(args.datatype, reinterpret_cast<float*>(wide.data()), inputs[first].data(), args.count);
    return wide;
  }
  std::vector<std::vector<std::byte>> halves;
  std::vector<Width> widths(number == 1 ? 1 : 2);
  const size_t left = number == 1 ? 1 : std::bit_floor(number - 1);
  halves.push_back(in_parts(args, inputs, first, left, false, widths[0], random));
  if (number > 1) halves.push_back(in_parts(args, inputs, first + left, number - left, false, widths[1], random));
  width = last ? Width::kNarrow : Width::kWide;
  const size_t size = args.count * (last ? size_of(args.datatype) : sizeof(float));
  GuardedBuffer a(size, last ? 1 : 4), b(size, 8);
  std::byte* const to[] = {a.data(), b.data()};
  auto sources = pointers_to(halves);
  ReduceArgs part = args;
  part.sources = sources;
  part.destinations = to;
  part.divisor = last ? args.divisor : 0;
  reduce_partial(part, widths, width);
  CHECK((a.guards_intact() && b.guards_intact()));
  CHECK((size == 0 || memcmp(a.data(), b.data(), size) == 0));
  return {a.bytes().begin(), a.bytes().end()};
}

std::vector<std::vector<std::byte>> random_inputs(Datatype datatype, size_t number, uint64_t count, bool any_bits,
                                                  std::mt19937_64& random) {
  std::vector<std::vector<std::byte>> inputs(number, std::vector<std::byte>(count * size_of(datatype)));
  for (auto& input : inputs) fill_with_values(input, any_bits ? TUTTI_UINT8 : datatype, random);
  return inputs;
}

TEST_CASE("a reduction in parts that stay float32 has the bits of one that combines everything at once") {
  std::mt19937_64 random(1);
  for (const Datatype datatype : kNarrowFloats) {
    for (const ReduceOp op : {TUTTI_SUM, TUTTI_PROD, TUTTI_AVG}) {
      for (const uint64_t count : kCounts) {
        for (const size_t number : {1, 2, 3, 4, 5, 8, 11}) {
          for (const bool any_bits : {false, true}) {
            const auto inputs = random_inputs(datatype, number, count, any_bits, random);
            const uint32_t divisor = op == TUTTI_AVG ? static_cast<uint32_t>(number) : 0;
            const ReduceArgs args = args_of(datatype, op, count, divisor);
            const auto expected = whole(args, inputs);
            for_each_target([&] {
              INFO(describe(args) << ", " << number << " inputs, any bits " << any_bits);
              Width width{};
              CHECK((in_parts(args, inputs, 0, number, true, width, random) == expected));
            });
          }
        }
      }
    }
  }
}

TEST_CASE("one reduction of many sources of both widths keeps the tree") {
  std::mt19937_64 random(2);
  for (const size_t number : {5, 6, 9, 16, 33, 70, 300}) {
    constexpr uint64_t kCount = 700;
    const auto inputs = random_inputs(TUTTI_FLOAT16, number, kCount, false, random);
    const ReduceArgs args = args_of(TUTTI_FLOAT16, TUTTI_SUM, kCount, 0);
    auto mixed = inputs;
    std::vector<Width> widths(number);
    for (size_t i = 0; i < number; i += 1 + random() % 2) {
      widths[i] = Width::kWide;
      mixed[i].resize(kCount * sizeof(float));
      widen(TUTTI_FLOAT16, reinterpret_cast<float*>(mixed[i].data()), inputs[i].data(), kCount);
    }
    auto sources = pointers_to(mixed);
    std::byte* to = mixed[0].data();  // a source, too
    ReduceArgs part = args;
    part.sources = sources;
    part.destinations = {&to, 1};
    reduce_partial(part, widths, Width::kWide);
    std::vector<std::byte> result(kCount * sizeof(uint16_t));
    narrow(TUTTI_FLOAT16, result.data(), reinterpret_cast<const float*>(to), kCount);
    INFO(number << " sources");
    CHECK((result == whole(args, inputs)));
  }
}

template <class Element>
void check_every_value(Datatype datatype) {
  using Storage = typename Element::Storage;
  std::vector<Storage> all(size_t{1} << 8 * sizeof(Storage));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Storage>(i);
  for_each_target([&] {
    std::vector<float> wide(all.size());
    std::vector<Storage> back(all.size());
    widen(datatype, wide.data(), reinterpret_cast<const std::byte*>(all.data()), all.size());
    narrow(datatype, reinterpret_cast<std::byte*>(back.data()), wide.data(), all.size());
    size_t wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const float expected = Element::load(all[i]);
      const bool nan = expected != expected;
      if (nan ? wide[i] == wide[i] : ops::bits_as<uint32_t>(wide[i]) != ops::bits_as<uint32_t>(expected)) ++wrong;
      if (back[i] != Element::store(expected)) ++wrong;
    }
    INFO(name_of(datatype) << " on " << kernel_target());
    CHECK(wrong == 0);
  });
}

TEST_CASE("every 8- and 16-bit float is widened exactly and comes back") {
  check_every_value<ops::Float16>(TUTTI_FLOAT16);
  check_every_value<ops::Bfloat16>(TUTTI_BFLOAT16);
  check_every_value<ops::Float8E4m3>(TUTTI_FLOAT8_E4M3);
  check_every_value<ops::Float8E5m2>(TUTTI_FLOAT8_E5M2);
}

}  // namespace
}  // namespace tutti
