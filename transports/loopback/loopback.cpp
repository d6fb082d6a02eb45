#include "transports/loopback/loopback.h"

#include <algorithm>
#include <cstring>

#include "transports/common/export_table.h"
#include "transports/common/hello.h"
#include "transports/common/link_state.h"
#include "transports/common/mapped.h"
#include "transports/common/remote_table.h"
#include "transports/loopback/hub.h"

namespace tutti {
namespace {

constexpr LinkTraits kTraits{.mappable = true, .pullable = true};

// What the Links of one rank share; owned by its Transport, which outlives them.
struct Shared {
  TransportContext context;
  Token token{};
  std::shared_ptr<LoopbackHub> hub;
  ExportTable exports;
  BellRow bells;
};

class LoopbackLink final : public Link {
 public:
  LoopbackLink(Shared& shared, int peer)
      : shared_(shared),
        state_(shared.context.rank, peer, "loopback"),
        writer_(state_),
        mine_(std::make_shared<LoopbackEnd>()) {}
  ~LoopbackLink() override {
    leave();
    if (offered_) shared_.hub->withdraw(shared_.context.job, shared_.context.rank, peer(), mine_);
  }

  int peer() const override { return state_.peer(); }
  LinkTraits traits() const override { return kTraits; }
  Result<Progress> connect(std::span<const std::byte> peer_address) override;
  std::string connect_report() const override { return {}; }

  Status share(const LocalMemory& memory) override;
  const RemoteMemory* find(uint32_t id) override;

  Result<PutResult> put(RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line,
                        int /*channel*/) override {
    return writer_.put(to, from, signal, line);
  }
  Result<PutResult> signal(RemoteSlice signal, const Line& line) override { return writer_.signal(signal, line); }
  Status pull(std::span<std::byte> to, uint64_t from) override;
  Status push(std::span<const std::byte> from, uint64_t to) override;
  Status poll(uint64_t* puts_completed) override;
  bool needs_poll() const override { return false; }
  bool has_pending() const override { return false; }

  void arm(WaitSet& waits) override {
    if (offered_) mine_->bell->arm(waits);
  }
  void disarm() override {
    if (offered_) mine_->bell->disarm();
  }
  void abort() noexcept override;
  bool begin_access() noexcept override { return access_.begin(); }
  bool end_access() noexcept override { return access_.end(); }
  bool is_accessed() const noexcept override { return access_.peer_is_busy(); }
  void tell_cpu(int cpu) noexcept override { access_.tell_cpu(cpu); }
  int peer_cpu() const noexcept override { return access_.peer_cpu(); }

 private:
  void read_notes();
  void send(LoopbackEnd::Note note);
  void leave() noexcept;

  Shared& shared_;
  LinkState state_;
  MappedWriter writer_;
  MappedAccess access_;
  RemoteTable remote_;
  std::shared_ptr<LoopbackEnd> mine_;
  bool offered_ = false;                 // mine_ is known to the hub and has its bell
  std::shared_ptr<LoopbackEnd> theirs_;  // set once by connect()
  std::atomic<LoopbackEnd*> published_{nullptr};  // theirs_, for abort() on another thread
  std::vector<uint32_t> sent_;           // ids that the peer knows
  size_t removals_seen_ = 0;
};

// Both ends live in one address space, so there is no pattern to move: the hub's lock orders what each wrote.
Result<Progress> LoopbackLink::connect(std::span<const std::byte>) {
  TUTTI_TRY(state_.check());
  if (theirs_ != nullptr) return Progress::kDone;
  const auto& context = shared_.context;
  if (!offered_) {
    auto bell = Doorbell::create();
    if (!bell.ok()) return state_.fail(Code::kSystem, bell.status().message());
    mine_->bell = std::move(*bell);
    if (kFencesForAllThreads) mine_->bell->fence_for_signallers(Signallers::kThreads);
    mine_->token = shared_.token;
    shared_.bells.set(peer(), std::shared_ptr<Doorbell>(mine_, mine_->bell.get()));
    shared_.hub->offer(context.job, context.rank, peer(), mine_);
    offered_ = true;
    return Progress::kMoved;
  }
  auto theirs = shared_.hub->take(context.job, context.rank, peer());
  TUTTI_TRY(state_.check());
  if (theirs == nullptr) return Progress::kBlocked;
  if (theirs->token != mine_->token) return state_.fail(Code::kRemote, "wrong token: the peer belongs to another job");
  theirs->bell->bell().ring_if_asleep();  // it may sleep until this end is there
  Bell bell = theirs->bell->bell();
  bell.is_fenced_by_sleeper = kFencesForAllThreads;
  writer_.set_bell(bell);
  theirs_ = std::move(theirs);
  access_.connect(mine_->access, theirs_->access);
  published_.store(theirs_.get(), std::memory_order_seq_cst);
  if (state_.aborted()) theirs_->bell->bell().ring_if_asleep();  // abort() may have come before it could ring
  return Progress::kDone;
}

Status LoopbackLink::share(const LocalMemory& memory) {
  TUTTI_TRY(state_.check());
  sent_.push_back(memory.id);
  send({.id = memory.id, .bytes = memory.bytes, .owner = memory.owner});
  return {};
}

const RemoteMemory* LoopbackLink::find(uint32_t id) {
  if (mine_->has_notes.load(std::memory_order_acquire)) read_notes();
  return remote_.find(id);
}

void LoopbackLink::read_notes() {
  std::lock_guard lock(mine_->mutex);
  for (const LoopbackEnd::Note& note : mine_->notes) {
    if (note.released) {
      Status removed = remote_.remove(note.id);
      if (!removed.ok()) (void)state_.fail(removed.code(), removed.message());
    } else {
      remote_.add(note.id, note.bytes.size(), note.bytes.data(), note.owner);
    }
  }
  mine_->notes.clear();
  mine_->has_notes.store(false, std::memory_order_relaxed);
}

void LoopbackLink::send(LoopbackEnd::Note note) {
  {
    std::lock_guard lock(theirs_->mutex);
    theirs_->notes.push_back(std::move(note));
    theirs_->has_notes.store(true, std::memory_order_release);
  }
  theirs_->bell->bell().ring_if_asleep();
}

Status LoopbackLink::pull(std::span<std::byte> to, uint64_t from) {
  TUTTI_TRY(state_.check());
  if (!to.empty()) std::memcpy(to.data(), reinterpret_cast<const std::byte*>(from), to.size());
  return {};
}

Status LoopbackLink::push(std::span<const std::byte> from, uint64_t to) {
  TUTTI_TRY(state_.check());
  if (!from.empty()) std::memcpy(reinterpret_cast<std::byte*>(to), from.data(), from.size());
  return {};
}

Status LoopbackLink::poll(uint64_t* puts_completed) {
  TUTTI_TRY(state_.check());
  *puts_completed = writer_.puts();
  if (mine_->has_notes.load(std::memory_order_acquire)) read_notes();
  TUTTI_TRY(state_.check());
  if (size_t removals = shared_.exports.removals(); removals != removals_seen_) {
    for (uint32_t id : shared_.exports.removed_since(removals_seen_)) {
      if (std::erase(sent_, id) > 0) send({.id = id, .bytes = {}, .released = true});
    }
    removals_seen_ = removals;
  }
  if (theirs_->left.load(std::memory_order_acquire)) return state_.fail(Code::kRemote, "the peer has closed its end");
  return {};
}

void LoopbackLink::leave() noexcept {
  if (mine_->left.exchange(true)) return;
  if (const LoopbackEnd* theirs = published_.load()) theirs->bell->bell().ring_if_asleep();
}

void LoopbackLink::abort() noexcept {
  access_.leave();
  if (!state_.abort()) return;
  leave();
  shared_.bells.ring();
}

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(const TransportContext& context, std::shared_ptr<LoopbackHub> hub)
      : shared_{.context = context, .hub = std::move(hub), .exports = {}, .bells = BellRow(context.nranks)} {}

  std::string_view name() const override { return "loopback"; }
  std::optional<LinkTraits> reach(const Inventory&, const Inventory&, bool same_process) const override {
    return same_process ? std::optional(kTraits) : std::nullopt;
  }
  Status listen() override {
    TransportContext& context = shared_.context;
    shared_.token =
        TUTTI_TRY(make_identity(Wire::kLoopback, context.job, context.rank, context.nranks, context.token)).token;
    context.token = {};  // the caller's bytes are not ours to keep
    return {};
  }
  Blob address() const override { return {}; }
  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd,
                                           std::shared_ptr<const void> owner) override {
    return shared_.exports.add(memory, fd, std::move(owner));
  }
  void release(const LocalMemory* memory) override { shared_.exports.remove(memory); }
  std::unique_ptr<Link> open(int peer) override { return std::make_unique<LoopbackLink>(shared_, peer); }

 private:
  Shared shared_;
};

}  // namespace

std::unique_ptr<Transport> make_loopback_transport(const TransportContext& context, std::shared_ptr<LoopbackHub> hub) {
  return std::make_unique<LoopbackTransport>(context, std::move(hub));
}

}  // namespace tutti
