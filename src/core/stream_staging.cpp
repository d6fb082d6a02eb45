// The host memory by which calls on streams reach what devices have: what is copied there before a call, and back.
#include <algorithm>
#include <cstring>

#include "core/communicator.h"
#include "core/joined_calls.h"
#include "core/staged.h"
#include "core/stream_pieces.h"

namespace tutti {
namespace {

// A part of a buffer.
struct Range {
  uint64_t begin = 0;
  uint64_t size_bytes = 0;
};

// What a call stores into its output: gaps between blocks are the caller's.
std::vector<Range> stored_ranges(const tutti_request& request, int nranks) {
  const Geometry& geometry = request.geometry;
  if (geometry.output.counts == nullptr) return {{0, geometry.output_bytes}};
  uint64_t element = size_of(request.arguments.datatype);
  std::vector<Range> ranges;
  for (int i = 0; i < nranks; ++i) {
    if (geometry.output.counts[i] == 0) continue;
    ranges.push_back({geometry.output.displacements[i] * element, geometry.output.counts[i] * element});
  }
  return ranges;
}

// A buffer of the caller, and where its bytes are for the call.
struct Buffer {
  std::byte* at = nullptr;
  uint64_t size_bytes = 0;
  bool is_staged = false;
  uint64_t offset = 0;  // in the staging memory

  std::byte* end() const { return at + size_bytes; }
  bool overlaps(const Buffer& other) const {
    return size_bytes > 0 && other.size_bytes > 0 && at < other.end() && other.at < end();
  }
};

// Whether peers may put into all ranks' outputs, and from their inputs, what the collective is about.
bool only_moves(Collective collective, const Geometry& geometry) {
  switch (collective) {
    case TUTTI_BROADCAST:
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
    case TUTTI_SCATTER: return true;
    case TUTTI_ALL_TO_ALL: return !geometry.in_place;
    default: return false;
  }
}

// What a rank's input and output both hold, of a collective that only moves.
StreamCopy own_block(const tutti_request& request, int rank, int nranks) {
  const CallArguments& arguments = request.arguments;
  uint64_t input_bytes = request.geometry.input_bytes, output_bytes = request.geometry.output_bytes;
  bool is_between_pairs = arguments.collective == TUTTI_ALL_TO_ALL;
  uint64_t block = is_between_pairs ? input_bytes / nranks : std::min(input_bytes, output_bytes);
  auto at = [&](uint64_t bytes) { return bytes > block ? block * rank : 0; };
  return {arguments.output + at(output_bytes), arguments.input + at(input_bytes), block};
}

uint64_t aligned(uint64_t size_bytes) {
  constexpr uint64_t kAlignment = 256;
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

// A graph's calls go through the host's memory: it may be launched when the program has freed what it had.
Result<bool> StreamCalls::is_left_on_devices(tutti_request& request, Communicator& communicator, const Staged& staged,
                                             DeviceModule& module) {
  const CallArguments& arguments = request.arguments;
  const Geometry& geometry = request.geometry;
  DeviceRegions& regions = communicator.device_regions();
  bool is_message = is_point_to_point(arguments.collective);
  uint64_t size_bytes = std::max(geometry.input_bytes, geometry.output_bytes);
  bool may_stay = is_message ? regions.takes_message(arguments.peer, size_bytes)
                             : only_moves(arguments.collective, geometry) &&
                                   regions.takes_collective(arguments.count * size_of(arguments.datatype));
  if (staged.is_captured || !may_stay) return false;
  using Use = std::shared_ptr<DeviceRegions::Use>;
  auto use = [&](const std::byte* data, uint64_t bytes) -> Result<Use> {
    if (TUTTI_TRY(module.place_of(data)).kind != MemoryKind::kDevice) return Use();
    return regions.use(module, {const_cast<std::byte*>(data), bytes}, staged.streams.front().context);
  };
  bool reads = geometry.input_bytes > 0, stores = geometry.output_bytes > 0;
  Use input = reads ? TUTTI_TRY(use(arguments.input, geometry.input_bytes)) : nullptr;
  Use output = stores ? TUTTI_TRY(use(arguments.output, geometry.output_bytes)) : nullptr;
  if ((reads && input == nullptr) || (stores && output == nullptr)) return false;
  request.input_device = std::move(input);
  request.output_device = std::move(output);
  return true;
}

// Gives all calls host memory for what they have on devices, and says what is copied there and back.
Status StreamCalls::stage(Staged& staged, DeviceModule& module) {
  struct Pair {
    Buffer input;
    Buffer output;
  };
  std::vector<Pair> pairs;
  uint64_t total = 0;
  auto place = [&](Buffer& buffer) {
    buffer.offset = total;
    total += aligned(buffer.size_bytes);
  };
  for (const Staged::Member& member : staged.members) {
    Pair pair;
    if (member.parts.size() > 1) {
      uint64_t bytes = 0;
      for (const Part& part : member.parts) bytes += vector_bytes(*part.request);
      pair.input = {.size_bytes = bytes, .is_staged = true};
      place(pair.input);
      pairs.push_back(pair);
      continue;
    }
    tutti_request& request = *member.request;
    bool stays = TUTTI_TRY(is_left_on_devices(request, *member.communicator, staged, module));
    staged.flushes |= request.output_device && !request.output_device->region().sees_writes();
    auto look = [&](const std::byte* data, uint64_t size_bytes) -> Result<Buffer> {
      auto kind = size_bytes > 0 ? TUTTI_TRY(module.place_of(data)).kind : MemoryKind::kHost;
      return Buffer{const_cast<std::byte*>(data), size_bytes, size_bytes > 0 && !is_for_host(kind) && !stays};
    };
    pair.input = TUTTI_TRY(look(request.arguments.input, request.geometry.input_bytes));
    pair.output = TUTTI_TRY(look(request.arguments.output, request.geometry.output_bytes));
    if (pair.input.is_staged && pair.input.overlaps(pair.output)) {
      // What is in place for the caller is in place for the call.
      std::byte* begin = std::min(pair.input.at, pair.output.at);
      Buffer both{begin, static_cast<uint64_t>(std::max(pair.input.end(), pair.output.end()) - begin), true};
      place(both);
      pair.input.offset = both.offset + static_cast<uint64_t>(pair.input.at - begin);
      pair.output.offset = both.offset + static_cast<uint64_t>(pair.output.at - begin);
    } else {
      if (pair.input.is_staged) place(pair.input);
      if (pair.output.is_staged) place(pair.output);
    }
    pairs.push_back(pair);
  }
  // What is sent from there is the caller's again as soon as it has been copied. A graph's is written anew by its next
  // launch.
  bool are_staged_sends = true;
  for (size_t i = 0; i < pairs.size(); ++i) {
    bool is_staged = pairs[i].input.is_staged || pairs[i].input.size_bytes == 0;
    are_staged_sends = are_staged_sends && staged.members[i].sequence == Sequence::kSends && is_staged;
  }
  staged.is_held = staged.is_captured || !are_staged_sends;
  if (total > 0) staged.memory.emplace(TUTTI_TRY(staging_.take(total)));
  auto for_call = [&](const Buffer& buffer) {
    return buffer.is_staged ? staged.memory->data() + buffer.offset : buffer.at;
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    Staged::Member& member = staged.members[i];
    const auto& [input, output] = pairs[i];
    std::byte* at = for_call(input);
    if (member.parts.size() > 1) {
      std::vector<tutti_request*> joined;
      for (const Part& part : member.parts) joined.push_back(part.request.get());
      join(*member.request, joined, at);
      TUTTI_TRY(member.communicator->admit(*member.request));
      for (const Part& part : member.parts) {
        const CallArguments& arguments = part.request->arguments;
        uint64_t bytes = vector_bytes(*part.request);
        bool reads = part.request->geometry.input_bytes > 0, stores = part.request->geometry.output_bytes > 0;
        if (reads && part.stream) staged.before.front().push_back({at, arguments.input, bytes});
        if (reads && !part.stream) std::memcpy(at, arguments.input, bytes);
        if (stores) (part.stream ? staged.after.front() : staged.to_host).push_back({arguments.output, at, bytes});
        at += bytes;
      }
      continue;
    }
    tutti_request& request = *member.request;
    if (request.input_device && request.output_device) {
      StreamCopy own = own_block(request, member.communicator->rank(), member.nranks);
      if (own.to != own.from) staged.before.front().push_back(own);
    }
    std::byte* output_of_call = for_call(output);
    request.arguments.input = at;
    request.arguments.output = output_of_call;
    if (input.is_staged) staged.before.front().push_back({at, input.at, input.size_bytes});
    if (!output.is_staged) continue;
    // A message may be shorter than the buffer, whose rest stays as it is.
    bool is_receive = request.arguments.collective == TUTTI_RECV;
    if (is_receive) staged.before.front().push_back({output_of_call, output.at, output.size_bytes});
    for (const Range& range : stored_ranges(request, member.nranks)) {
      staged.after.front().push_back({output.at + range.begin, output_of_call + range.begin, range.size_bytes});
    }
  }
  return {};
}

// Of a batch that is one call, and not repeated by a graph.
void StreamCalls::cut_into_pieces(Staged& staged) const {
  const Staged::Member& member = staged.members.front();
  tutti_request& request = *member.request;
  bool is_on_devices = request.input_device || request.output_device;
  bool is_alone = staged.members.size() == 1 && member.parts.size() == 1 && !staged.is_captured && !is_on_devices;
  if (!is_alone || !may_be_cut(request, staged.before.front(), staged.after.front())) return;
  auto shape = member.communicator->shape_now(request);
  if (!shape) return;
  int rank = member.communicator->rank();
  auto cut = cut_call(request, *shape, rank, staged.before.front(), staged.after.front());
  if (!cut) return;
  staged.before = std::move(cut->before);
  staged.after = std::move(cut->after);
  staged.slices_per_piece = cut->slices_per_piece;
  staged.flow.emplace(
      shape->channels,
      [](void* which, uint64_t finished) { static_cast<Staged*>(which)->finished(finished); }, &staged);
  request.flow = &*staged.flow;
}

}  // namespace tutti
