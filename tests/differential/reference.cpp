#include "reference.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "mpi_collective.h"

namespace differential {
namespace {

// ---- Integers, and whatever is only moved: bytes ----

template <class T>
void divide_all(std::byte* elements, uint64_t count, int ranks) {
  for (uint64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, elements + i * sizeof value, sizeof value);
    value = static_cast<T>(value / static_cast<T>(ranks));
    std::memcpy(elements + i * sizeof value, &value, sizeof value);
  }
}

void divide_all(std::byte* elements, uint64_t count, const Datatype& type, int ranks) {
  bool is_signed = type.kind == Kind::kSigned;
  switch (type.size) {
    case 1: return is_signed ? divide_all<int8_t>(elements, count, ranks) : divide_all<uint8_t>(elements, count, ranks);
    case 4:
      return is_signed ? divide_all<int32_t>(elements, count, ranks) : divide_all<uint32_t>(elements, count, ranks);
    default:
      return is_signed ? divide_all<int64_t>(elements, count, ranks) : divide_all<uint64_t>(elements, count, ranks);
  }
}

void multiply_all(std::vector<std::byte>& elements, size_t size, uint64_t factor) {
  for (size_t at = 0; at < elements.size(); at += size) {
    uint64_t value = 0;
    std::memcpy(&value, elements.data() + at, size);
    value *= factor;
    std::memcpy(elements.data() + at, &value, size);
  }
}

// MPI stores straight into the picture of the memory that is wanted.
void ask_for_bytes(LocalCall& local, const Job& job) {
  const Call& call = local.call;
  const Datatype& type = *call.datatype;
  std::vector<std::byte> sent;
  if (local.send_memory != nullptr) sent.assign(local.send(), local.send() + local.layout.send.extent() * type.size);
  if (call.collective->reduces && call.operation->multiplies()) multiply_all(sent, type.size, local.factor);
  std::byte* recv = local.recv_holder() == nullptr ? nullptr : local.wanted().data() + local.recv_begin();
  // Of a sum of signed integers that wraps around, MPI says nothing; unsigned ones have the same bits.
  MPI_Datatype moved = call.operation->selects() && call.collective->reduces ? type.mpi : mpi_unsigned(type.size);
  run_mpi(call, local.layout, job, sent.data(), recv, moved, call.operation->mpi);
  if (!call.collective->reduces || !call.operation->divides()) return;
  divide_all(recv, local.layout.recv.extent(), type, job.ranks);
}

// ---- Floats ----

// This rank's contribution for an element that is sent.
double contribution(double value, const LocalCall& local) {
  if (!local.call.operation->multiplies()) return value;
  FloatFormat format = local.call.datatype->format;
  // Of two floats the product is exact in doubles, that of doubles is rounded here.
  return rounded(value * decoded(local.factor, format), format);
}

// MPI's result in T of what `value_of` makes of each contribution, in doubles.
template <class T, class ValueOf>
std::vector<double> reduced(LocalCall& local, const Job& job, MPI_Datatype mpi, ValueOf value_of) {
  const Datatype& type = *local.call.datatype;
  std::vector<T> sent(local.layout.send.extent());
  for (size_t i = 0; i < sent.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, local.send() + i * type.size, type.size);
    sent[i] = static_cast<T>(value_of(contribution(decoded(bits, type.format), local)));
  }
  std::vector<T> received(local.layout.recv.extent());
  run_mpi(local.call, local.layout, job, sent.data(), received.data(), mpi, local.call.operation->mpi);
  return {received.begin(), received.end()};
}

// How far n roundings change a value at most, as a part of it; each is by a factor of at most 1 + u (Higham, Accuracy
// and Stability of Numerical Algorithms, section 3.1).
double growth(int n, double unit_roundoff) { return std::expm1(n * std::log1p(unit_roundoff)); }

// How far tutti's accumulator and MPI's result may be from each other, as a part of the sum or product of the absolute
// values. In whatever order n values are combined, each takes part in n - 1 operations; an average divides once more.
double relative_error(const Datatype& type, const Job& job) {
  double accumulator = type.size < sizeof(double) ? kSingle.unit_roundoff() : kDouble.unit_roundoff();
  double mpi = type.size == sizeof(float) ? kSingle.unit_roundoff() : kDouble.unit_roundoff();
  constexpr double kOfMagnitude = 1e-12;  // the magnitude itself is rounded too
  return (growth(job.ranks, accumulator) + growth(job.ranks, mpi)) * (1 + kOfMagnitude);
}

// The accumulator is rounded to the datatype once. Rounding keeps the order of numbers: where the accumulator lies
// between two bounds, the result lies between the rounded bounds.
Interval interval_of(double result, double magnitude, const Call& call, const Job& job) {
  const Datatype& type = *call.datatype;
  double divisor = call.operation->divides() ? job.ranks : 1;
  double value = result / divisor;
  if (call.exact || call.operation->selects()) {
    // The quotient is rounded to the accumulator's type first. That of two floats is not changed by doubles in between.
    if (type.size < sizeof(double)) value = rounded(value, kSingle);
    value = rounded(value, type.format);
    return {value, value};
  }
  double error = relative_error(type, job) * magnitude / divisor;
  return {rounded(value - error, type.format), rounded(value + error, type.format)};
}

void ask_for_floats(LocalCall& local, const Job& job) {
  const Call& call = local.call;
  const Datatype& type = *call.datatype;
  auto same = [](double value) { return value; };
  auto absolute = [](double value) { return std::fabs(value); };
  bool may_differ = !call.exact && !call.operation->selects();
  std::vector<double> results = type.mpi == MPI_FLOAT ? reduced<float>(local, job, MPI_FLOAT, same)
                                                      : reduced<double>(local, job, MPI_DOUBLE, same);
  std::vector<double> magnitudes = results;
  if (may_differ) magnitudes = reduced<double>(local, job, MPI_DOUBLE, absolute);
  for (size_t i = 0; i < results.size(); ++i) {
    Interval allowed = interval_of(results[i], magnitudes[i], call, job);
    if (may_differ) local.recv_allowed.push_back(allowed);
    uint64_t bits = encoded(allowed.low, type.format);
    std::memcpy(local.wanted().data() + local.recv_begin() + i * type.size, &bits, type.size);
  }
}

}  // namespace

void ask_mpi(LocalCall& local, const Job& job) {
  if (local.call.reduces_floats()) return ask_for_floats(local, job);
  ask_for_bytes(local, job);
}

bool has_bits_of_rank_0(LocalCall& local, const Job& job) {
  std::vector<std::byte> first(local.call.count * local.call.datatype->size);
  if (job.rank == 0 && !first.empty()) std::memcpy(first.data(), local.recv(), first.size());
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_BYTE, 0, job.mpi);
  return first.empty() || std::memcmp(first.data(), local.recv(), first.size()) == 0;
}

bool waited_for_all(const LocalCall& local) {
  int64_t last_ns = 0;
  MPI_Allreduce(&local.entered_ns, &last_ns, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return local.left_ns >= last_ns;
}

}  // namespace differential
