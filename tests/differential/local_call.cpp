#include "local_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace differential {
namespace {

// Factors of contributions are less than 2 to the power of this.
constexpr int kFactorBits = 2;

// x in +- 2^least .. 2^(most + 1).
struct Exponents {
  int least;
  int most;
};

// Such that nothing overflows or loses bits to underflow in what combines them: float32, or the type itself where it is
// wider.
Exponents exponents_of(const Call& call) {
  constexpr int kMost = 14;
  FloatFormat format = call.datatype->format;
  bool is_product = call.operation->id == TUTTI_PROD;
  int most = std::min(kMost, format.largest_exponent() - 1);
  if (call.operation->multiplies()) most -= kFactorBits;
  // Also subnormal numbers of the formats that have few exponents; their products would be too small for float32.
  return {is_product ? -most : 1 - most - format.mantissa_bits, most};
}

double drawn_to_round(Random& own, FloatFormat format, Exponents exponents) {
  uint64_t mantissa = own.next() >> (64 - format.mantissa_bits);
  double magnitude = 1 + std::ldexp(static_cast<double>(mantissa), -format.mantissa_bits);
  auto range = static_cast<uint64_t>(exponents.most - exponents.least + 1);
  int exponent = exponents.least + static_cast<int>(own.below(range));
  double value = rounded(std::ldexp(magnitude, exponent), format);
  return own.one_in(2) ? -value : value;
}

// Sums of all ranks are whole numbers that the mantissa holds; products are powers of two.
double drawn_exact(Random& own, const Call& call, int ranks) {
  if (call.operation->id == TUTTI_PROD) return own.one_of({1.0, -1.0, 2.0, -2.0, 0.5, -0.5});
  int bits = call.datatype->format.mantissa_bits + 1;
  auto most = static_cast<uint64_t>(std::min(std::ldexp(1, bits) / ranks, 1000.0));
  double magnitude = static_cast<double>(1 + own.below(std::max<uint64_t>(most, 1)));
  return own.one_in(2) ? -magnitude : magnitude;
}

// Of integers any bits.
uint64_t drawn_factor(Random& own, const Call& call) {
  if (!call.reduces_floats()) return own.next();
  double size = call.exact ? 2.0 : own.one_of({0.75, 1.25, 1.5, 3.0});
  return encoded(own.one_in(2) ? -size : size, call.datatype->format);
}

// Random bytes are integers and things to copy already.
void fill_with_floats(LocalCall& local, const Job& job, Random& own) {
  const Datatype& type = *local.call.datatype;
  Exponents exponents = exponents_of(local.call);
  const Blocks& blocks = local.layout.send;
  for (size_t b = 0; b < blocks.counts.size(); ++b) {
    std::byte* to = local.send() + blocks.displacements[b] * type.size;
    for (uint64_t i = 0; i < blocks.counts[b]; ++i) {
      double value = local.call.exact ? drawn_exact(own, local.call, job.ranks)
                                      : drawn_to_round(own, type.format, exponents);
      uint64_t bits = encoded(value, type.format);
      std::memcpy(to + i * type.size, &bits, type.size);
    }
  }
}

std::vector<std::byte> bytes_of(Buffer* buffer) {
  if (buffer == nullptr) return {};
  return {buffer->all().begin(), buffer->all().end()};
}

}  // namespace

std::byte* LocalCall::send() {
  return send_memory == nullptr ? nullptr : send_memory->data() + layout.send_at * call.datatype->size;
}

std::byte* LocalCall::recv() {
  return recv_holder() == nullptr ? nullptr : recv_holder()->data() + layout.recv_at * call.datatype->size;
}

size_t LocalCall::recv_begin() { return recv_holder()->data_at() + layout.recv_at * call.datatype->size; }

std::unique_ptr<LocalCall> local_part(const Call& call, const Job& job) {
  Random own{call.seed, static_cast<uint64_t>(job.rank)};
  auto local = std::make_unique<LocalCall>();
  local->call = call;
  local->layout = layout_of(call, job, own);
  local->op = call.operation->id;
  local->factor = drawn_factor(own, call);
  auto memory_for = [&](uint64_t elements) -> std::unique_ptr<Buffer> {
    // Also of what is not used: the call must leave it alone.
    if (elements == 0 && own.one_in(2)) return nullptr;
    Memory memory = own.one_of({Memory::kMalloc, Memory::kTutti});
    return std::make_unique<Buffer>(memory, elements * call.datatype->size, call.datatype->size, own);
  };
  if (local->layout.in_place) {
    local->send_memory = memory_for(local->layout.extent());
  } else {
    local->send_memory = memory_for(local->layout.send.extent());
    local->recv_memory = memory_for(local->layout.recv.extent());
  }
  return local;
}

void fill(LocalCall& local, const Job& job, int round) {
  Random own{local.call.seed, static_cast<uint64_t>(job.rank), static_cast<uint64_t>(round)};
  if (local.send_memory != nullptr) local.send_memory->fill(own);
  if (local.recv_memory != nullptr) local.recv_memory->fill(own);
  if (local.call.reduces_floats()) fill_with_floats(local, job, own);
  local.send_wanted = bytes_of(local.send_memory.get());
  local.recv_wanted = bytes_of(local.recv_memory.get());
  local.recv_allowed.clear();
}

std::string described(const LocalCall& local) {
  auto text = [](const char* name, const std::unique_ptr<Buffer>& buffer) {
    if (buffer == nullptr) return fmt::format("{} NULL", name);
    return fmt::format("{} {} + {}", name, buffer->memory() == Memory::kTutti ? "tutti_mem_alloc" : "malloc",
                       buffer->data_at());
  };
  if (local.layout.in_place) return text("in place in", local.send_memory);
  return text("send", local.send_memory) + text(", recv", local.recv_memory);
}

}  // namespace differential
