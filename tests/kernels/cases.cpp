#include "kernels/cases.h"

#include <fmt/format.h>

#include <cstring>

#include "kernels/instruction_set.h"
#include "kernels/ops.h"

namespace tutti {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kGuard{0xa5};

template <class T>
void put(std::span<std::byte> bytes, const std::function<T()>& next) {
  for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    const T value = next();
    memcpy(bytes.data() + at, &value, sizeof value);
  }
}

}  // namespace

void for_each_target(const std::function<void()>& body) {
  const InstructionSet best = instruction_set_in_use();
  for (const InstructionSet set : instruction_sets()) {
    use_instruction_set(set);
    body();
  }
  use_instruction_set(best);
}

GuardedBuffer::GuardedBuffer(size_t size, size_t misalignment)
    : storage_(kGuardBytes + 64 + misalignment + size + kGuardBytes, kGuard), size_(size) {
  const auto guarded = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
  begin_ = kGuardBytes + (-guarded % 64) + misalignment;
}

bool GuardedBuffer::guards_intact() const {
  const std::vector<std::byte> guards(kGuardBytes, kGuard);
  return memcmp(storage_.data() + begin_ - kGuardBytes, guards.data(), kGuardBytes) == 0 &&
         memcmp(storage_.data() + begin_ + size_, guards.data(), kGuardBytes) == 0;
}

void fill_with_values(std::span<std::byte> bytes, Datatype datatype, std::mt19937_64& random) {
  std::uniform_real_distribution<double> magnitude(0.25, 4.0);
  const auto real = [&] { return random() & 1 ? magnitude(random) : -magnitude(random); };
  switch (datatype) {
    case TUTTI_FLOAT32: return put<float>(bytes, [&] { return static_cast<float>(real()); });
    case TUTTI_FLOAT64: return put<double>(bytes, real);
    case TUTTI_FLOAT16: return put<uint16_t>(bytes, [&] { return ops::Float16::store(static_cast<float>(real())); });
    case TUTTI_BFLOAT16: return put<uint16_t>(bytes, [&] { return ops::Bfloat16::store(static_cast<float>(real())); });
    case TUTTI_FLOAT8_E4M3:
      return put<uint8_t>(bytes, [&] { return ops::Float8E4m3::store(static_cast<float>(real())); });
    case TUTTI_FLOAT8_E5M2:
      return put<uint8_t>(bytes, [&] { return ops::Float8E5m2::store(static_cast<float>(real())); });
    default: return put<uint8_t>(bytes, [&] { return static_cast<uint8_t>(random()); });
  }
}

std::vector<ReduceOp> ops_of(Datatype datatype) {
  std::vector<ReduceOp> ops(std::begin(kOps), std::end(kOps));
  if (is_integer(datatype)) ops.insert(ops.end(), std::begin(kBitwiseOps), std::end(kBitwiseOps));
  return ops;
}

std::vector<uint32_t> divisors_of(ReduceOp op) {
  if (op == TUTTI_SUM || op == TUTTI_AVG) return {0, 3, 4};
  return {0};
}

std::string describe(const ReduceArgs& args) {
  return fmt::format("{} {} of {} elements, {} sources, {} destinations, {} of them past the caches, divisor {}, {}",
                     name_of(args.datatype), name_of(args.op), args.count, args.sources.size(),
                     args.destinations.size(), args.streamed, args.divisor,
                     kernel_target());
}

}  // namespace tutti
