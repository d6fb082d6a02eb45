// scale() against one multiplication per element, on every instruction set.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "kernels/cases.h"
#include "kernels/ops.h"

namespace tutti {
namespace {

// The factor is passed from an odd address.
template <class T>
std::vector<T> scaled(Datatype datatype, const std::vector<T>& from, T factor) {
  std::byte unaligned[1 + sizeof(T)];
  memcpy(unaligned + 1, &factor, sizeof factor);
  GuardedBuffer to(from.size() * sizeof(T), 3);
  scale(datatype, to.data(), reinterpret_cast<const std::byte*>(from.data()), from.size(), unaligned + 1);
  CHECK(to.guards_intact());
  std::vector<T> result(from.size());
  if (!result.empty()) memcpy(result.data(), to.data(), to.size());
  std::vector<T> in_place = from;
  auto* bytes = reinterpret_cast<std::byte*>(in_place.data());
  scale(datatype, bytes, bytes, in_place.size(), unaligned + 1);
  CHECK((in_place == result));
  return result;
}

template <class T, class Multiply>
void check_scale(Datatype datatype, const Multiply& multiply) {
  std::mt19937_64 random(1);
  for (const size_t count : {0, 1, 3, 16, 17, 100, 511, 512, 513, 4095, 4096, 4097, 20'001}) {
    std::vector<T> from(count + 1);  // one more for the factor
    fill_with_values({reinterpret_cast<std::byte*>(from.data()), from.size() * sizeof(T)}, datatype, random);
    const T factor = from.back();
    from.pop_back();
    std::vector<T> expected(count);
    std::transform(from.begin(), from.end(), expected.begin(), [&](T x) { return multiply(x, factor); });
    for_each_target([&] {
      INFO(name_of(datatype) << ", " << count << " elements on " << kernel_target());
      CHECK((scaled(datatype, from, factor) == expected));
    });
  }
}

template <class T>
void check_integers(Datatype datatype) {
  check_scale<T>(datatype, [](T x, T factor) {
    return static_cast<T>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(factor));
  });
}

template <class Element>
void check_narrow(Datatype datatype) {
  using T = typename Element::Storage;
  check_scale<T>(datatype, [](T x, T factor) { return Element::store(Element::load(x) * Element::load(factor)); });
}

TEST_CASE("integers are scaled and wrap around") {
  check_integers<int8_t>(TUTTI_INT8);
  check_integers<uint8_t>(TUTTI_UINT8);
  check_integers<int32_t>(TUTTI_INT32);
  check_integers<uint32_t>(TUTTI_UINT32);
  check_integers<int64_t>(TUTTI_INT64);
  check_integers<uint64_t>(TUTTI_UINT64);
}

TEST_CASE("floats are scaled in their accumulation type and rounded once") {
  check_scale<float>(TUTTI_FLOAT32, [](float x, float factor) { return x * factor; });
  check_scale<double>(TUTTI_FLOAT64, [](double x, double factor) { return x * factor; });
  check_narrow<ops::Float16>(TUTTI_FLOAT16);
  check_narrow<ops::Bfloat16>(TUTTI_BFLOAT16);
  check_narrow<ops::Float8E4m3>(TUTTI_FLOAT8_E4M3);
  check_narrow<ops::Float8E5m2>(TUTTI_FLOAT8_E5M2);
}

TEST_CASE("scaling gives the one quiet NaN") {
  const std::vector<uint32_t> from = {0x7f800001, 0xffc00000, 0x7f800000, 0x3f800000};
  for_each_target([&] {
    const std::vector<uint32_t> by_zero = scaled<uint32_t>(TUTTI_FLOAT32, from, 0);
    CHECK(by_zero == std::vector<uint32_t>{ops::kQuietNan32, ops::kQuietNan32, ops::kQuietNan32, 0});
    CHECK(scaled<uint32_t>(TUTTI_FLOAT32, from, 0xff800123) == std::vector<uint32_t>(4, ops::kQuietNan32));
  });
}

}  // namespace
}  // namespace tutti
