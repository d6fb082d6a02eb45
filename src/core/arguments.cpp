#include "core/arguments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "planner/planner.h"

namespace tutti {
namespace {

// What one of the caller's buffers holds.
enum class Holds : uint8_t {
  kNothing,
  kOne,     // `count` elements
  kAll,     // a block of `count` elements per rank
  kListed,  // a block per rank, as the arrays say
};

struct Sides {
  Holds input;
  Holds output;
};

Sides sides_of(Collective collective, bool is_root) {
  auto on_root = [is_root](Holds holds) { return is_root ? holds : Holds::kNothing; };
  switch (collective) {
    case TUTTI_ALL_REDUCE: return {Holds::kOne, Holds::kOne};
    case TUTTI_REDUCE: return {Holds::kOne, on_root(Holds::kOne)};
    case TUTTI_BROADCAST: return {on_root(Holds::kOne), Holds::kOne};
    case TUTTI_ALL_GATHER: return {Holds::kOne, Holds::kAll};
    case TUTTI_REDUCE_SCATTER: return {Holds::kAll, Holds::kOne};
    case TUTTI_ALL_TO_ALL: return {Holds::kAll, Holds::kAll};
    case TUTTI_GATHER: return {Holds::kOne, on_root(Holds::kAll)};
    case TUTTI_SCATTER: return {on_root(Holds::kAll), Holds::kOne};
    case TUTTI_BARRIER: return {Holds::kNothing, Holds::kNothing};
    case TUTTI_ALL_GATHER_V: return {Holds::kOne, Holds::kListed};
    case TUTTI_REDUCE_SCATTER_V: return {Holds::kListed, Holds::kOne};
    case TUTTI_ALL_TO_ALL_V: return {Holds::kListed, Holds::kListed};
    case TUTTI_GATHER_V: return {Holds::kOne, on_root(Holds::kListed)};
    case TUTTI_SCATTER_V: return {on_root(Holds::kListed), Holds::kOne};
    case TUTTI_SEND: return {Holds::kOne, Holds::kNothing};
    case TUTTI_RECV: return {Holds::kNothing, Holds::kOne};
  }
  return {Holds::kNothing, Holds::kNothing};
}

// Of a send or a receive.
Status check_ends(const CallArguments& arguments, int nranks) {
  bool receives = arguments.collective == TUTTI_RECV;
  bool is_rank = arguments.peer >= 0 && arguments.peer < nranks;
  if (!is_rank && !(receives && arguments.peer == TUTTI_ANY_SOURCE)) {
    return error(Code::kInvalidArgument, "{}: peer {} is no rank; ranks are 0 to {}{}", name_of(arguments.collective),
                 arguments.peer, nranks - 1, receives ? ", or TUTTI_ANY_SOURCE" : "");
  }
  if (arguments.tag < 0 && !(receives && arguments.tag == TUTTI_ANY_TAG)) {
    return error(Code::kInvalidArgument, "{}: tag {} is negative; tags are 0 to {}{}", name_of(arguments.collective),
                 arguments.tag, INT32_MAX, receives ? ", or TUTTI_ANY_TAG" : "");
  }
  return {};
}

Status check_kinds(const CallArguments& arguments, int nranks) {
  if (!is_valid(arguments.collective) && !is_point_to_point(arguments.collective)) {
    return error(Code::kInvalidArgument, "there is no collective with the number {}",
                 static_cast<int>(arguments.collective));
  }
  if (!is_valid(arguments.datatype)) {
    return error(Code::kInvalidArgument, "there is no datatype with the number {}",
                 static_cast<int>(arguments.datatype));
  }
  bool has_op = reduces(arguments.collective) && !is_own(arguments.op);
  if (has_op && !is_defined_for(arguments.op, arguments.datatype)) {
    return error(Code::kInvalidArgument, "{}: {} is for integers, not for {}; choose another operation or datatype",
                 name_of(arguments.collective), name_of(arguments.op), name_of(arguments.datatype));
  }
  if (has_root(arguments.collective) && (arguments.root < 0 || arguments.root >= nranks)) {
    return error(Code::kInvalidArgument, "{}: root {} is no rank; ranks are 0 to {}", name_of(arguments.collective),
                 arguments.root, nranks - 1);
  }
  return is_point_to_point(arguments.collective) ? check_ends(arguments, nranks) : Status();
}

Status too_large(const CallArguments& arguments, uint64_t count) {
  return error(Code::kInvalidArgument, "{} of {} elements does not fit into memory", name_of(arguments.collective),
               count);
}

// One side of the call while its geometry is worked out.
struct Side {
  Holds holds;
  const uint64_t* counts;
  const uint64_t* displacements;
  const std::byte* data;
  uint64_t bytes = 0;
  uint64_t own_bytes = 0;  // where the block lies that the other side has too, in place
};

Status measure(Side& side, const CallArguments& arguments, int rank, int nranks) {
  uint64_t element = size_of(arguments.datatype);
  uint64_t elements = 0, own = 0;
  bool wraps = false;
  switch (side.holds) {
    case Holds::kNothing: return {};
    case Holds::kOne: elements = arguments.count; break;
    case Holds::kAll:
      wraps = __builtin_mul_overflow(arguments.count, static_cast<uint64_t>(nranks), &elements);
      own = arguments.count * static_cast<uint64_t>(rank);
      break;
    case Holds::kListed:
      for (int r = 0; r < nranks; ++r) {
        uint64_t end = 0;
        wraps = wraps || __builtin_add_overflow(side.displacements[r], side.counts[r], &end);
        if (side.counts[r] > 0) elements = std::max(elements, end);
      }
      own = side.displacements[rank];
      break;
  }
  wraps = wraps || __builtin_mul_overflow(elements, element, &side.bytes);
  if (wraps || side.bytes > INT64_MAX) return too_large(arguments, elements);
  side.own_bytes = own * element;
  return {};
}

bool same_arrays(const CallArguments& arguments, int nranks) {
  auto bytes = static_cast<size_t>(nranks) * sizeof(uint64_t);
  return std::memcmp(arguments.send_counts, arguments.recv_counts, bytes) == 0 &&
         std::memcmp(arguments.send_displacements, arguments.recv_displacements, bytes) == 0;
}

bool is_in_place(const Side& in, const Side& out, const CallArguments& arguments, int nranks) {
  if (in.bytes == 0 || out.bytes == 0) return false;
  switch (without_counts(arguments.collective)) {
    case TUTTI_ALL_TO_ALL:
      return in.data == out.data && (in.holds != Holds::kListed || same_arrays(arguments, nranks));
    default: return in.data + in.own_bytes == out.data + out.own_bytes;
  }
}

// What this rank says about its own block twice must be the same.
Status check_own_count(const CallArguments& arguments, int rank, bool is_root) {
  uint64_t sent = arguments.count, received = arguments.count;
  switch (arguments.collective) {
    case TUTTI_ALL_GATHER_V: received = arguments.recv_counts[rank]; break;
    case TUTTI_ALL_TO_ALL_V:
      sent = arguments.send_counts[rank];
      received = arguments.recv_counts[rank];
      break;
    case TUTTI_GATHER_V:
      if (is_root) received = arguments.recv_counts[rank];
      break;
    case TUTTI_SCATTER_V:
      if (is_root) sent = arguments.send_counts[rank];
      break;
    default: return {};
  }
  if (sent == received) return {};
  return error(Code::kInvalidArgument, "{}: rank {} sends {} elements to itself but expects {}",
               name_of(arguments.collective), rank, sent, received);
}

Status count_elements(Geometry& geometry, const CallArguments& arguments, int nranks) {
  auto n = static_cast<uint64_t>(nranks);
  auto sum = [nranks](const uint64_t* counts) {
    uint64_t total = 0;
    for (int r = 0; r < nranks; ++r) total += counts[r];
    return total;
  };
  geometry.said_count = geometry.plan_count = arguments.count;
  switch (arguments.collective) {
    case TUTTI_BARRIER: geometry.said_count = geometry.plan_count = 0; break;
    case TUTTI_ALL_GATHER:
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_ALL_TO_ALL:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
      // The others' buffers may be larger than this rank's.
      if (__builtin_mul_overflow(arguments.count, n, &geometry.plan_count) || geometry.plan_count > INT64_MAX / 8) {
        return too_large(arguments, arguments.count);
      }
      break;
    case TUTTI_ALL_GATHER_V: geometry.said_count = geometry.plan_count = sum(arguments.recv_counts); break;
    case TUTTI_REDUCE_SCATTER_V: geometry.said_count = geometry.plan_count = sum(arguments.send_counts); break;
    case TUTTI_ALL_TO_ALL_V:
    case TUTTI_GATHER_V:
    case TUTTI_SCATTER_V:
      geometry.said_count = 0;
      geometry.plan_count = count_of_unknown_blocks(arguments.datatype, nranks);
      break;
    default: break;
  }
  return {};
}

Blocks blocks_of(const Side& side) {
  if (side.holds != Holds::kListed) return {};
  return {.counts = side.counts, .displacements = side.displacements};
}

}  // namespace

Status keep_counts(CallArguments& arguments, int rank, int nranks, std::vector<uint64_t>& storage) {
  if (!has_counts(arguments.collective)) return {};
  Collective collective = arguments.collective;
  if (collective == TUTTI_ALL_TO_ALL_V) arguments.count = 0;  // its counts are in the arrays
  // Its blocks are given as the counts to be received, and lie in the buffer to be sent.
  if (collective == TUTTI_REDUCE_SCATTER_V) {
    arguments.send_counts = std::exchange(arguments.recv_counts, nullptr);
    arguments.send_displacements = arguments.recv_displacements = nullptr;
  }
  Sides sides = sides_of(collective, rank == arguments.root);
  auto n = static_cast<size_t>(nranks);
  storage.resize(4 * n);
  auto keep = [&](Holds holds, const uint64_t*& counts, const uint64_t*& displacements, size_t at,
                  std::string_view name) -> Status {
    if (holds != Holds::kListed) return {};
    if (counts == nullptr) return error(Code::kInvalidArgument, "{}: {} is NULL", name_of(collective), name);
    uint64_t* kept = storage.data() + at;
    std::copy_n(counts, n, kept);
    if (displacements != nullptr) std::copy_n(displacements, n, kept + n);
    for (size_t r = 0; displacements == nullptr && r < n; ++r) kept[n + r] = r == 0 ? 0 : kept[n + r - 1] + kept[r - 1];
    // Nobody touches an empty block, but where it would lie may not be anywhere.
    for (size_t r = 0; r < n; ++r) kept[n + r] = kept[r] == 0 ? 0 : kept[n + r];
    counts = kept;
    displacements = kept + n;
    return {};
  };
  bool is_reduction = collective == TUTTI_REDUCE_SCATTER_V;
  TUTTI_TRY(keep(sides.input, arguments.send_counts, arguments.send_displacements, 0,
                 is_reduction ? "recv_counts" : "send_counts"));
  TUTTI_TRY(keep(sides.output, arguments.recv_counts, arguments.recv_displacements, 2 * n, "recv_counts"));
  if (is_reduction) arguments.count = arguments.send_counts[rank];
  return {};
}

Result<Geometry> geometry_of(const CallArguments& arguments, int rank, int nranks) {
  TUTTI_TRY(check_kinds(arguments, nranks));
  bool is_root = rank == arguments.root;
  Sides sides = sides_of(arguments.collective, is_root);
  Side in{sides.input, arguments.send_counts, arguments.send_displacements, arguments.input};
  Side out{sides.output, arguments.recv_counts, arguments.recv_displacements, arguments.output};
  TUTTI_TRY(measure(in, arguments, rank, nranks));
  TUTTI_TRY(measure(out, arguments, rank, nranks));
  TUTTI_TRY(check_own_count(arguments, rank, is_root));
  Geometry geometry;
  geometry.input_bytes = in.bytes;
  geometry.output_bytes = out.bytes;
  geometry.in_place = is_in_place(in, out, arguments, nranks);
  geometry.onto_input = !geometry.in_place && without_counts(arguments.collective) == TUTTI_REDUCE_SCATTER &&
                        in.data == out.data && in.bytes > 0 && out.bytes > 0;
  geometry.input = blocks_of(in);
  geometry.output = blocks_of(out);
  TUTTI_TRY(count_elements(geometry, arguments, nranks));
  return geometry;
}

Status check_buffers(const CallArguments& arguments, const Geometry& geometry) {
  bool lacks_input = geometry.input_bytes > 0 && arguments.input == nullptr;
  bool lacks_output = geometry.output_bytes > 0 && arguments.output == nullptr;
  if (lacks_input || lacks_output) {
    return error(Code::kInvalidArgument, "{}: {} is NULL", name_of(arguments.collective),
                 lacks_input ? "send_buffer" : "recv_buffer");
  }
  if (geometry.in_place || geometry.onto_input || geometry.input_bytes == 0 || geometry.output_bytes == 0) return {};
  auto from = reinterpret_cast<uintptr_t>(arguments.input), to = reinterpret_cast<uintptr_t>(arguments.output);
  if (from + geometry.input_bytes <= to || to + geometry.output_bytes <= from) return {};
  return error(Code::kInvalidArgument,
               "{}: the buffers overlap; use two separate ones, or one in place as tutti.h says for this call",
               name_of(arguments.collective));
}

Status check_apart(const CallArguments& send, const CallArguments& receive) {
  auto from = reinterpret_cast<uintptr_t>(send.input), to = reinterpret_cast<uintptr_t>(receive.output);
  uint64_t sent = send.count * size_of(send.datatype), received = receive.count * size_of(receive.datatype);
  if (sent == 0 || received == 0 || from + sent <= to || to + received <= from) return {};
  return error(Code::kInvalidArgument, "send_recv: the buffers overlap; use two separate ones");
}

Partition partition_of(const CallArguments& arguments, const Geometry& geometry, const PlanShape& shape, int rank) {
  auto element = static_cast<uint32_t>(size_of(arguments.datatype));
  Blocks input = geometry.input, output = geometry.output;
  switch (without_counts(arguments.collective)) {
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER: output.modulo = shape.nranks; break;
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCATTER: input.modulo = shape.nranks; break;
    case TUTTI_ALL_TO_ALL:
      input.modulo = output.modulo = shape.nranks;
      output.divide = shape.nranks;
      break;
    default: return Partition(arguments.count, element, shape.channels, shape.chunks, shape.slice_bytes);
  }
  return Partition(arguments.count, element, shape.channels, shape.slice_bytes, input, output, rank);
}

}  // namespace tutti
