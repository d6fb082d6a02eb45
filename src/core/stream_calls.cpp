#include "core/stream_calls.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "base/guard.h"
#include "core/communicator.h"
#include "core/staged.h"

namespace tutti {
namespace {

constexpr int64_t kLookMs = 100;  // how often who waits looks whether a communicator has failed

}  // namespace

// ---- What is on streams

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
                                                                        const GpuCalls::Staged& as) {
    return calls.put_alone(like, stream, as);
  };
  if (!entry->post_on_gpus(*members.front().request, *offer, gate, std::move(go_through_host))) {
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
  if (on_gpu.state == OnGpu::kAnnounced) staged->members.front().is_numbered(on_gpu.staged.number);
  return put_in_order(staged, module, on_gpu.staged.ends_with);
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
  if (is_late && !gpu->takes_late()) {
    gpu->tell_why_not("a capture, now or before, by ranks that are threads of one process");
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
  auto go_through_host = [this, staged, &module](const DeviceModule::Stream& other,
                                                 const GpuCalls::Staged& as) -> Status {
    staged->streams = {other};
    staged->members.front().is_numbered(as.number);
    TUTTI_TRY(stage(*staged, module));
    // What waited in the driver may come when the call has failed, and its buffers are the caller's again.
    TUTTI_TRY(staged->members.front().communicator->status());
    return put_staged(staged, module, {}, {as.begins_at, as.ends_with});
  };
  auto put = TUTTI_TRY(gpu->put(*member.request, *offer, stream, order, std::move(go_through_host)));
  watch_.add(member.entry);
  return PutOnGpus{put.is_done ? OnGpu::kPut : OnGpu::kAnnounced, put.staged};
}

// A call that GPUs were to do when a stream had reached it, through the host.
Status StreamCalls::put_alone(const Alone& call, const DeviceModule::Stream& stream, const GpuCalls::Staged& as) {
  DeviceModule& module = *devices_.if_used();
  auto staged = std::make_shared<Staged>(*this);
  Staged::Member member{call.entry, call.communicator, call.nranks};
  member.request = std::make_unique<tutti_request>();
  member.request->communicator = call.communicator;
  member.request->arguments = call.arguments;
  member.request->geometry = call.geometry;
  member.is_numbered(as.number);
  member.parts.emplace_back();
  staged->add(std::move(member));
  staged->streams = {stream};
  TUTTI_TRY(stage(*staged, module));
  TUTTI_TRY(call.communicator->status());
  return put_staged(staged, module, {}, {as.begins_at, as.ends_with});
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
                  .flushes = staged->flushes,
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
