#include "core/stream_calls.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "base/guard.h"
#include "core/communicator.h"
#include "core/joined_calls.h"
#include "core/stream_pieces.h"

namespace tutti {
namespace {

constexpr int64_t kLookMs = 100;  // how often who waits looks whether a communicator has failed

bool is_for_host(MemoryKind kind) { return kind == MemoryKind::kHost || kind == MemoryKind::kPinned; }

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

uint64_t aligned(uint64_t size_bytes) {
  constexpr uint64_t kAlignment = 256;
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

// ---- What is on streams

// A batch of calls on its way through the host. The stream uses it until it has passed, a captured graph as long as
// that lives; `on_streams_` has it until then, and whoever waits for its host parts.
struct StreamCalls::Staged {
  struct Member {
    std::shared_ptr<StreamEntry> entry;
    Communicator* communicator = nullptr;    // for its caller alone: what is on streams may outlive it
    int nranks = 0;
    Sequence sequence = Sequence::kCollectives;
    std::unique_ptr<tutti_request> request;  // of the call, which may be a joined one
    std::vector<Part> parts;                 // of a joined call; else one, for its stream
    bool is_announced_late = false;          // to ranks that meet on GPUs: once a stream has reached it

    Alone alone() const { return {entry, communicator, nranks, request->arguments, request->geometry}; }
  };
  StreamCalls& pool;
  std::vector<Member> members;
  std::vector<DeviceModule::Stream> streams;
  std::optional<StagingPool::Memory> memory;
  Words* words = nullptr;
  std::vector<StreamWork::Piece> before{1};
  std::vector<StreamWork::Piece> after{1};
  std::vector<StreamCopy> to_host;       // for callers on the host, once all is done
  bool has_host_parts = false;
  bool is_held = true;                   // the stream waits until the calls are complete
  std::optional<SliceFlow> flow;         // of a call whose data comes and goes in pieces
  uint64_t slices_per_piece = 0;         // then
  size_t pieces_reached = 0;             // then; of what comes
  std::atomic<size_t> left{0};
  std::atomic<bool> is_expected{false};  // by the entries
  std::atomic<bool> has_failed{false};
  bool is_captured = false;
  std::optional<Offer> offer;            // the ranks' GPUs do it, each time that the stream reaches it
  std::atomic<bool> graph_has_ended{false};
  std::mutex mutex;                      // for host parts
  std::condition_variable completed;
  bool is_complete = false;

  explicit Staged(StreamCalls& calls) : pool(calls) {}
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged();

  void add(Member member) {
    member.request->staged = this;
    member.request->completed = [](tutti_request& request) { static_cast<Staged*>(request.staged)->complete(request); };
    members.push_back(std::move(member));
  }
  void expect();
  void expect_no_more() noexcept;
  void reached() noexcept {
    if (offer) return reached_on_gpus();
    if (flow) return reached_piece();
    reached_on_host();
  }
  void reached_piece() noexcept;
  void finished(uint64_t slices) noexcept;
  void open(uint32_t pieces) noexcept;
  void reached_on_gpus() noexcept;
  void reached_on_host() noexcept;
  void complete(tutti_request& request) noexcept;
  bool is_over() const {
    if (is_captured) return graph_has_ended.load(std::memory_order_acquire);
    bool has_passed = std::atomic_ref(words->passed).load(std::memory_order_acquire) == 1;
    return has_passed && (is_held || std::atomic_ref(words->gate).load(std::memory_order_acquire) == 1);
  }
};

StreamCalls::Staged::~Staged() {
  if (memory && has_failed) memory->abandon();  // a peer may still store there
  if (words == nullptr) return;
  // GpuCalls opens it again and again after a failure: it may be nobody else's gate.
  if (offer && members.front().entry->loses_gates()) return;
  std::lock_guard lock(pool.mutex_);
  pool.free_words_.push_back(words);
}

void StreamCalls::Staged::expect() {
  is_expected.store(true, std::memory_order_release);
  for (const Member& member : members) member.entry->expect(member.sequence);
}

void StreamCalls::Staged::expect_no_more() noexcept {
  if (!is_expected.exchange(false, std::memory_order_acq_rel)) return;
  for (const Member& member : members) member.entry->reached(member.sequence);
}

// What the stream has reached may pass, and be reached again, before this returns: then nothing here may be there.
void StreamCalls::Staged::reached_on_gpus() noexcept {
  bool was_expected = is_expected.exchange(false, std::memory_order_acq_rel);
  std::shared_ptr<StreamEntry> entry = members.front().entry;
  DeviceWatch& watch = pool.watch_;
  uint32_t* gate = &words->gate;
  // Where it turns out that a rank has its buffers elsewhere.
  auto go_through_host = [&calls = pool, like = members.front().alone()](const DeviceModule::Stream& stream,
                                                                        const WordValue& begins_at,
                                                                        const WordValue& ends_with) {
    return calls.put_alone(like, stream, begins_at, ends_with);
  };
  if (!entry->post_on_gpus(*offer, gate, std::move(go_through_host))) {
    std::atomic_ref(*gate).store(1, std::memory_order_release);
  }
  watch.add(entry);
  if (was_expected) entry->reached(Sequence::kCollectives);
}

// The last call to complete opens the gate, and the stream goes on: from then on nothing here may be there any more.
void StreamCalls::Staged::reached_on_host() noexcept {
  bool was_expected = is_expected.exchange(false, std::memory_order_acq_rel);
  std::vector<std::pair<std::shared_ptr<StreamEntry>, Sequence>> entries;
  for (const Member& member : members) entries.emplace_back(member.entry, member.sequence);
  left.store(members.size(), std::memory_order_release);
  const Member* each = members.data();
  for (const auto& [entry, sequence] : entries) {
    bool is_new = each->is_announced_late;
    tutti_request& request = *(each++)->request;
    request.result = {};
    request.done.store(false, std::memory_order_relaxed);
    if (!entry->post(request, is_new)) complete(request);
  }
  if (!was_expected) return;
  for (const auto& [entry, sequence] : entries) entry->reached(sequence);
}

// On whichever thread made progress.
void StreamCalls::Staged::complete(tutti_request& request) noexcept {
  if (!request.result.ok()) {
    has_failed.store(true, std::memory_order_relaxed);
    request.communicator->break_down(request.result);
  }
  if (left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (has_host_parts) {
    std::lock_guard lock(mutex);  // whoever waits holds a share of this
    is_complete = true;
    completed.notify_all();
  }
  open(static_cast<uint32_t>(after.size()));
}

// One piece after another, behind the first of which the call begins.
void StreamCalls::Staged::reached_piece() noexcept {
  std::shared_ptr<StreamEntry> entry = members.front().entry;
  bool is_first = pieces_reached++ == 0;
  bool is_last = pieces_reached == before.size();
  flow->arrive(is_last ? SliceFlow::kAll : pieces_reached * slices_per_piece);
  is_first ? reached_on_host() : entry->wake();
}

// The last piece goes when the call is complete, since nothing here may be there any more then.
void StreamCalls::Staged::finished(uint64_t slices) noexcept {
  uint64_t pieces = std::min<uint64_t>(slices / slices_per_piece, after.size() - 1);
  open(static_cast<uint32_t>(pieces));
}

void StreamCalls::Staged::open(uint32_t pieces) noexcept {
  std::atomic_ref gate(words->gate);
  uint32_t now = gate.load(std::memory_order_relaxed);
  while (now < pieces && !gate.compare_exchange_weak(now, pieces, std::memory_order_release)) {
  }
}

Status StreamCalls::HostParts::wait() {
  if (staged_ == nullptr || !staged_->has_host_parts) return {};
  auto failure = [&]() -> Status {
    for (const auto& member : staged_->members) TUTTI_TRY(member.communicator->status());
    return {};
  };
  std::unique_lock lock(staged_->mutex);
  while (!staged_->completed.wait_for(lock, std::chrono::milliseconds(kLookMs), [&] { return staged_->is_complete; })) {
    // What a stream will never reach, since its device has failed.
    if (staged_->is_expected.load(std::memory_order_acquire)) TUTTI_TRY(failure());
  }
  for (const auto& member : staged_->members) {
    if (!member.request->result.ok()) return member.request->result;
  }
  for (const StreamCopy& copy : staged_->to_host) std::memcpy(copy.to, copy.from, copy.size_bytes);
  return {};
}

// ---- StreamCalls

StreamCalls::StreamCalls(MemoryRegistry& registry)
    : staging_(registry, {.begin =
                              [this](std::span<std::byte> memory) {
                                return (*devices_.if_used()).pin(memory, context_.load(std::memory_order_relaxed));
                              },
                          .end =
                              [this](std::byte* memory) {
                                return (*devices_.if_used()).unpin(memory, context_.load(std::memory_order_relaxed));
                              }}) {}

Result<StreamCalls::Uses> StreamCalls::uses_of(const CallArguments& arguments, const Geometry& geometry) {
  DeviceModule* module = devices_.if_used();
  Uses uses;
  if (module == nullptr) return uses;
  auto look = [&](const std::byte* buffer, uint64_t size_bytes, const char* name) -> Status {
    if (size_bytes == 0) return {};
    MemoryKind kind = TUTTI_TRY(module->place_of(buffer)).kind;
    if (kind == MemoryKind::kHost) uses.host_alone = name;
    uses.devices = uses.devices || !is_for_host(kind);
    return {};
  };
  TUTTI_TRY(look(arguments.input, geometry.input_bytes, "send_buffer"));
  TUTTI_TRY(look(arguments.output, geometry.output_bytes, "recv_buffer"));
  return uses;
}

Result<StreamCalls::Words*> StreamCalls::take_words() {
  constexpr uint64_t kBytes = 64 * 1024;
  std::unique_lock lock(mutex_);
  if (free_words_.empty()) {
    lock.unlock();
    StagingPool::Memory memory = TUTTI_TRY(staging_.take(kBytes));
    lock.lock();
    auto* words = reinterpret_cast<Words*>(memory.data());
    for (size_t i = 0; i < kBytes / sizeof(Words); ++i) free_words_.push_back(new (words + i) Words);
    word_memory_.push_back(std::move(memory));
  }
  Words* words = free_words_.back();
  free_words_.pop_back();
  std::atomic_ref(words->gate).store(0, std::memory_order_relaxed);
  std::atomic_ref(words->passed).store(0, std::memory_order_relaxed);
  return words;
}

// What the parts' streams are. The default one may be that of a buffer's device.
Status StreamCalls::find_streams(Staged& staged, DeviceModule& module) const {
  for (const auto& member : staged.members) {
    for (const Part& part : member.parts) {
      if (!part.stream) continue;
      const tutti_request& request = part.request ? *part.request : *member.request;
      int device = -1;
      const CallArguments& arguments = request.arguments;
      if (arguments.input != nullptr) device = TUTTI_TRY(module.place_of(arguments.input)).device;
      if (device < 0 && arguments.output != nullptr) device = TUTTI_TRY(module.place_of(arguments.output)).device;
      auto stream = TUTTI_TRY(module.stream_of(*part.stream, device));
      auto& streams = staged.streams;
      if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
    }
  }
  TUTTI_CHECK(!staged.streams.empty());
  return {};
}

// A graph's calls go through the host's memory: it may be launched when the program has freed what it had.
bool StreamCalls::is_left_on_device(tutti_request& request, Communicator& communicator, const Staged& staged,
                                    DeviceModule& module) {
  if (staged.is_captured || !is_point_to_point(request.arguments.collective)) return false;
  bool is_send = request.arguments.collective == TUTTI_SEND;
  auto* data = is_send ? const_cast<std::byte*>(request.arguments.input) : request.arguments.output;
  uint64_t size_bytes = is_send ? request.geometry.input_bytes : request.geometry.output_bytes;
  auto place = module.place_of(data);
  if (!place.ok() || place->kind != MemoryKind::kDevice) return false;
  request.device = communicator.device_regions().use(module, request.arguments.peer, {data, size_bytes},
                                                     staged.streams.front().context);
  return request.device != nullptr;
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
    bool stays = is_left_on_device(request, *member.communicator, staged, module);
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
  bool is_alone = staged.members.size() == 1 && member.parts.size() == 1 && !staged.is_captured;
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

// Takes back what streams have passed, and graphs that have ended do not need any more.
void StreamCalls::collect() {
  std::vector<std::shared_ptr<Staged>> over;  // ends after the lock
  std::lock_guard lock(mutex_);
  auto first_over = std::stable_partition(on_streams_.begin(), on_streams_.end(),
                                          [](const auto& staged) { return !staged->is_over(); });
  over.assign(std::make_move_iterator(first_over), std::make_move_iterator(on_streams_.end()));
  on_streams_.erase(first_over, on_streams_.end());
}

Result<StreamCalls::HostParts> StreamCalls::enqueue(std::vector<Call> calls) {
  DeviceModule* module = devices_.if_used();
  TUTTI_CHECK(module != nullptr);
  collect();
  auto staged = std::make_shared<Staged>(*this);
  std::vector<Communicator*> communicators;
  for (Call& call : calls) {
    Staged::Member member{call.communicator->stream_entry(), call.communicator, call.communicator->nranks(),
                          sequence_of(call.parts.front().request->arguments.collective)};
    for (const Part& part : call.parts) staged->has_host_parts = staged->has_host_parts || !part.stream;
    bool is_joined = call.parts.size() > 1;
    member.request = is_joined ? std::make_unique<tutti_request>() : std::move(call.parts.front().request);
    member.parts = std::move(call.parts);
    communicators.push_back(call.communicator);
    staged->add(std::move(member));
  }
  Status status = guarded([&] { return put(staged, *module); });
  if (!status.ok()) {
    // What the program did wrong it can mend: nothing was put on the streams. Anything else keeps the others waiting.
    bool is_usage = status.code() == Code::kInvalidUsage || status.code() == Code::kInvalidArgument;
    for (Communicator* communicator : communicators) {
      if (!is_usage) communicator->break_down(status);
    }
    return status;
  }
  HostParts parts;
  parts.staged_ = std::move(staged);
  return parts;
}

Status StreamCalls::put(const std::shared_ptr<Staged>& staged, DeviceModule& module) {
  TUTTI_TRY(find_streams(*staged, module));
  context_.store(staged->streams.front().context, std::memory_order_relaxed);
  staged->is_captured = TUTTI_TRY(module.are_captured(staged->streams));
  if (staged->is_captured && staged->has_host_parts) {
    return error(Code::kInvalidUsage,
                 "a group in a capture has calls on buffers of the host, which a graph cannot repeat; make them "
                 "outside of it");
  }
  auto on_gpu = TUTTI_TRY(put_on_gpus(staged, module));
  if (on_gpu.state == OnGpu::kPut) return {};
  TUTTI_TRY(stage(*staged, module));
  cut_into_pieces(*staged);
  if (on_gpu.state == OnGpu::kNo) TUTTI_TRY(announce(*staged));
  return put_in_order(staged, module, on_gpu.ends_with);
}

Status StreamCalls::put_in_order(const std::shared_ptr<Staged>& staged, DeviceModule& module,
                                 const WordValue& ends_with) {
  // All threads lock them in one order.
  std::set<std::mutex*> mutexes;
  for (const auto& member : staged->members) mutexes.insert(&member.entry->of(member.sequence).mutex);
  std::vector<std::unique_lock<std::mutex>> locks;
  for (std::mutex* mutex : mutexes) locks.emplace_back(*mutex);
  Orders orders;
  for (const auto& member : staged->members) {
    StreamOrder* order = &member.entry->order_of(member.sequence, module);
    auto& its = member.sequence == Sequence::kCollectives ? orders.to_end : orders.to_begin;
    if (std::find(its.begin(), its.end(), order) == its.end()) its.push_back(order);
  }
  return put_staged(staged, module, orders, {.ends_with = ends_with});
}

// Where the ranks' GPUs do calls among themselves, and this rank's buffers are on its one.
Result<StreamCalls::PutOnGpus> StreamCalls::put_on_gpus(const std::shared_ptr<Staged>& staged, DeviceModule& module) {
  bool is_single = staged->members.size() == 1 && staged->members.front().parts.size() == 1;
  if (!is_single) {
    for (const Staged::Member& each : staged->members) {
      bool is_collective = each.sequence == Sequence::kCollectives;
      GpuCalls* its = is_collective ? each.communicator->gpu_calls() : nullptr;
      if (its != nullptr) its->tell_why_not("a group of several calls");
    }
    return PutOnGpus{};
  }
  Staged::Member& member = staged->members.front();
  GpuCalls* gpu = member.communicator->gpu_calls();
  if (gpu == nullptr || member.sequence != Sequence::kCollectives) return PutOnGpus{};
  bool is_late = staged->is_captured || gpu->has_captures();
  if (is_late && gpu->programs() == nullptr) {
    gpu->tell_why_not("a capture, now or before");
    return PutOnGpus{};
  }
  DeviceModule::Stream stream = staged->streams.front();
  auto offer = TUTTI_TRY(gpu->offer(*member.request, stream));
  if (!offer) return PutOnGpus{};
  staged->words = TUTTI_TRY(take_words());  // now, since pinning may wait for streams
  if (is_late) {
    gpu->begin_captures();
    staged->offer = *offer;
    TUTTI_TRY(put_in_order(staged, module));
    return PutOnGpus{OnGpu::kPut};
  }
  std::lock_guard lock(member.entry->of(Sequence::kCollectives).mutex);
  StreamOrder& order = member.entry->order_of(Sequence::kCollectives, module);
  auto go_through_host = [this, staged, &module](const DeviceModule::Stream& other, const WordValue& begins_at,
                                                 const WordValue& ends_with) -> Status {
    staged->streams = {other};
    TUTTI_TRY(stage(*staged, module));
    // What waited in the driver may come when the call has failed, and its buffers are the caller's again.
    TUTTI_TRY(staged->members.front().communicator->status());
    return put_staged(staged, module, {}, {begins_at, ends_with});
  };
  auto put = TUTTI_TRY(gpu->put(*offer, stream, order, std::move(go_through_host)));
  watch_.add(member.entry);
  return PutOnGpus{put.is_done ? OnGpu::kPut : OnGpu::kAnnounced, put.ends_with};
}

// A call that GPUs were to do when a stream had reached it, through the host.
Status StreamCalls::put_alone(const Alone& call, const DeviceModule::Stream& stream, const WordValue& begins_at,
                              const WordValue& ends_with) {
  DeviceModule& module = *devices_.if_used();
  auto staged = std::make_shared<Staged>(*this);
  Staged::Member member{call.entry, call.communicator, call.nranks};
  member.request = std::make_unique<tutti_request>();
  member.request->communicator = call.communicator;
  member.request->arguments = call.arguments;
  member.request->geometry = call.geometry;
  member.parts.emplace_back();
  staged->add(std::move(member));
  staged->streams = {stream};
  TUTTI_TRY(stage(*staged, module));
  TUTTI_TRY(call.communicator->status());
  return put_staged(staged, module, {}, {begins_at, ends_with});
}

// Tells the ranks that meet on GPUs, if they do, that these calls go through the host here. What is in a graph is
// told with each launch, and what comes after it then, too.
Status StreamCalls::announce(Staged& staged) const {
  for (Staged::Member& member : staged.members) {
    GpuCalls* gpu = member.communicator->gpu_calls();
    if (gpu == nullptr || is_point_to_point(member.request->arguments.collective)) continue;
    if (staged.is_captured) gpu->begin_captures();
    member.is_announced_late = gpu->has_captures();
    if (!member.is_announced_late) TUTTI_TRY(gpu->announce(*member.request));
  }
  return {};
}

Status StreamCalls::put_staged(const std::shared_ptr<Staged>& staged, DeviceModule& module, const Orders& orders,
                               const Between& between) {
  if (staged->words == nullptr) staged->words = TUTTI_TRY(take_words());
  {
    std::lock_guard lock(mutex_);
    on_streams_.push_back(staged);
  }
  if (!staged->is_captured) {
    staged->expect();
    for (const auto& member : staged->members) watch_.add(member.entry);
  }
  StreamWork work{.begins_at = between.begins_at,
                  .before = staged->before,
                  .reached = [](void* argument) { static_cast<Staged*>(argument)->reached(); },
                  .argument = staged.get(),
                  .gate = staged->is_held ? &staged->words->gate : nullptr,
                  .after = staged->after,
                  .passed = &staged->words->passed,
                  .ends_with = between.ends_with};
  Status put = module.enqueue({staged->streams, orders.to_end, orders.to_begin}, work, [](void* argument) {
    static_cast<Staged*>(argument)->graph_has_ended.store(true, std::memory_order_release);
  });
  if (!put.ok()) staged->expect_no_more();  // part of it may be on the stream, so `on_streams_` keeps it
  return put;
}

}  // namespace tutti
