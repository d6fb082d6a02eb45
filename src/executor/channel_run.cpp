#include "executor/channel_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plan/partial.h"

namespace tutti {
namespace {

constexpr size_t kMostFrames = 64;  // longer Programs are those of large calls, or of many ranks
// Of what is longer the receiver would take lines away while its sender still writes others.
constexpr uint64_t kMostFetchedAheadBytes = 512;
constexpr uint64_t kMostRoundsAtOnce = 16;

Status malformed(const Peer& from, const Message& message) {
  return error(Code::kRemote, "rank {} sent a malformed message (kind {}, {} bytes)", from.rank(),
               static_cast<int>(message.kind), message.size_bytes);
}

}  // namespace

void ChannelRun::prepare(const Program& program) {
  temps_.resize(std::max<size_t>(temps_.size(), program.temps));
  frames_.resize(std::max(frames_.size(), std::min(program.ops.size(), kMostFrames) + 1));
  chunks_.resize(std::max(chunks_.size(), program.ops.size()));
  size_t actions = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    actions += 4 + op.sources.count + op.destinations.count + size_t{4} * op.sends.count + op.releases.count;
    Frame& frame = frames_[std::min(i, frames_.size() - 1)];
    frame.sources.reserve(op.sources.count);
    frame.widths.reserve(op.sources.count);
    frame.destinations.reserve(op.destinations.count + op.sends.count);
    frame.deliveries.reserve(op.sends.count);
    most_sources_ = std::max<size_t>(most_sources_, op.sources.count);
  }
  if (program.ops.size() <= kMostFrames) repeat_.reserve(actions, program.ops.size());
}

void ChannelRun::start(const Program& program, const Call& call, Peers& peers, int channel) {
  program_ = &program;
  call_ = &call;
  peers_ = &peers;
  channel_ = channel;
  ++starts_;
  growth_ = partial_growth(call.shape->collective, call.datatype, call.op);
  peer_outputs_.resize(std::max(peer_outputs_.size(), peers.size()));
  ahead_.resize(std::max(ahead_.size(), peers.size()));
  tells_by_chunk_.resize(std::max(tells_by_chunk_.size(), peers.size()));
  chunk_arrivals_.resize(std::max(chunk_arrivals_.size(), peers.size()));
  one_slice_ = call.partition.first_is_largest() && call.partition.slices(channel, 0) == 1;
  with_counts_ = has_counts(call.shape->collective);
  by_chunk_ = call.shape->by_chunk && !one_slice_ && !with_counts_;
  // A line with a payload has no room for the size of a block whose rest is on other channels.
  bool has_room = !with_counts_ || call.shape->channels == 1;
  // After a rendezvous even the last few bytes are put where they go: the host may not reach it. Results go by chunk
  // where messages have said so.
  inline_bytes_ = has_room && !call.shape->rendezvous && !by_chunk_ ? kInlineBytes : 0;
  bool is_short = call.size_bytes > inline_bytes_ && call.size_bytes <= kMostFetchedAheadBytes;
  fetched_ahead_bytes_ = is_short ? call.size_bytes : 0;
  diverts_ = may_divert();
  repeats_ = false;
  has_fallen_back_ = false;
  begin();
}

// Whether results go to where inputs lie that are still to be sent.
bool ChannelRun::output_is_input() const { return call_->in_place && replaces_input(call_->shape->collective); }

// Whether payloads may come over sockets to where results go, as soon as this rank waits for them: where nothing lies
// there that is to be sent.
bool ChannelRun::may_divert() const {
  constexpr uint64_t kLeast = 64 * 1024;  // of less the copy takes no longer than saying so
  if (call_->size_bytes < kLeast || output_is_input() || call_->is_on_devices()) return false;
  auto lands = [this](int32_t rank) { return (*peers_)[rank]->lands(); };
  return std::any_of(program_->peers.begin(), program_->peers.end(), lands);
}

// Whoever has fallen back in a call no longer knew all outputs of its peers there: what is to be repeated is seen in
// the next one.
void ChannelRun::start_again() {
  bool may_note = !std::exchange(has_fallen_back_, false) && !has_other_slots_;
  if (repeat_of_ != starts_ && may_note) note_repeat();
  repeats_ = repeat_of_ == starts_ && !repeat_.empty();
  if (!repeats_) return begin();
  waiting_for_ = -1;
  foreign_signature_ = 0;
  repeat_.start();
}

void ChannelRun::begin() {
  waiting_for_ = -1;
  awaited_ = nullptr;
  awaited_release_ = nullptr;
  foreign_signature_ = 0;
  take_scratch();
  has_other_slots_ = awaits_common_ = false;
  if (call_->own_op != nullptr) prepare_own_op();
  for (int32_t rank : program_->peers) {
    peer_outputs_[rank] = {};
    ahead_[rank] = {};
    tells_by_chunk_[rank] = 0;
    chunk_arrivals_[rank] = {};
  }
  if (by_chunk_) std::fill_n(chunks_.begin(), program_->ops.size(), nullptr);
  section_ = 0;
  enter_section();
}

void ChannelRun::take_scratch() {
  auto temps = static_cast<size_t>(program_->temps);
  if (temps == 0) return;
  uint64_t value_bytes = call_->shape->slice_bytes * growth_;
  scratch_ = BufferPool::of_process().take(temps * value_bytes);
  for (size_t i = 0; i < temps; ++i) temps_[i] = {scratch_.data() + i * value_bytes, 0};
}

void ChannelRun::give_back_scratch() {
  scratch_ = {};
  multiplied_ = {};
}

// Memory that few calls need.
void ChannelRun::prepare_own_op() {
  by_function_.prepare(most_sources_);
  if (multiplies_first()) multiplied_ = BufferPool::of_process().take(call_->shape->slice_bytes);
}

void ChannelRun::enter_section() {
  round_ = 0;
  op_ = 0;
  computed_ = false;
  if (section_ == program_->sections.size()) return;
  const ProgramSection& section = program_->sections[section_];
  rounds_ = one_slice_ ? uint64_t{1} + section.most_lag : rounds_of(section);
}

uint64_t ChannelRun::slices_of(const Op& op) const {
  return one_slice_ || op.chunk == kNoChunk ? 1 : call_->partition.slices(channel_, op.chunk);
}

uint64_t ChannelRun::chunk_bytes(const Op& op) const {
  if (op.chunk == kNoChunk) return 0;
  const Partition& partition = call_->partition;
  return with_counts_ ? partition.block_bytes(op.chunk) : partition.size_bytes(channel_, op.chunk);
}

uint64_t ChannelRun::rounds_of(const ProgramSection& section) const {
  uint64_t rounds = 0;
  for (uint32_t i = section.ops.first; i < section.ops.first + section.ops.count; ++i) {
    rounds = std::max(rounds, slices_of(program_->ops[i]) + program_->ops[i].lag);
  }
  return rounds;
}

bool ChannelRun::runs_in_round(const Op& op) const { return round_ >= op.lag && round_ - op.lag < slices_of(op); }

// What all ops of the last section have passed nobody stores to any more.
void ChannelRun::tell_finished() {
  if (section_ + 1 < program_->sections.size()) return;
  uint64_t lag = program_->sections[section_].most_lag;
  if (round_ >= rounds_) {
    call_->flow->finish(channel_, SliceFlow::kAll);
  } else if (round_ > lag) {
    call_->flow->finish(channel_, round_ - lag);
  }
}

void ChannelRun::next_round() {
  op_ = 0;
  ++round_;
  if (call_->flow != nullptr) tell_finished();
  if (round_ < rounds_) return;
  ++section_;
  enter_section();
}

Result<Progress> ChannelRun::advance() {
  bool moved = false;
  uint64_t rounds_done = 0;
  Step step = Step::kDone;
  awaited_ = nullptr;
  awaited_release_ = nullptr;
  if (repeats_) {
    size_t before = repeat_.position();
    step = walk_repeat();
    moved = !repeats_ || repeat_.position() != before;
  }
  while (!repeats_ && section_ < program_->sections.size()) {
    if (awaits_input()) {
      waiting_for_ = -1;
      step = Step::kWaits;
      break;
    }
    Span ops = program_->sections[section_].ops;
    bool all_run = one_slice_ && rounds_ == 1;
    for (; op_ < ops.count; ++op_) {
      const Op& op = program_->ops[ops.first + op_];
      if (!all_run && !runs_in_round(op)) continue;
      step = run(op, round_ - op.lag);
      if (step != Step::kDone) break;
      computed_ = false;
      moved = true;
    }
    if (step != Step::kDone) break;
    next_round();
    // One that nobody makes wait comes back now and then all the same.
    if (++rounds_done == kMostRoundsAtOnce) {
      waiting_for_ = -1;
      return Progress::kMoved;
    }
  }
  if (step == Step::kDone) step = settle();
  if (step != Step::kWaits) give_back_scratch();
  if (step == Step::kFailed) return std::move(failure_);
  if (step == Step::kDone) return Progress::kDone;
  return moved ? Progress::kMoved : Progress::kBlocked;
}

ChannelRun::Step ChannelRun::fail(Status why) {
  failure_ = std::move(why);
  return Step::kFailed;
}

ChannelRun::Step ChannelRun::wait_for(const Peer& peer) {
  waiting_for_ = peer.rank();
  return peer.is_broken() ? fail(peer.broken()) : Step::kWaits;
}

// The caller's buffers are his again once nobody reads them and every sender has been told.
ChannelRun::Step ChannelRun::settle() {
  for (int32_t rank : program_->peers) peer(rank).recv_stream(channel_).release();
  for (int32_t rank : program_->peers) {
    Peer& from = peer(rank);
    bool is_here = from.sent_all() && !from.recv_stream(channel_).owes();
    bool is_released = from.send_stream(channel_).references_released();
    if (is_here && is_released) continue;
    awaited_release_ = is_here ? &from.send_stream(channel_) : nullptr;
    awaited_from_ = &from;
    return wait_for(from);
  }
  waiting_for_ = -1;
  return Step::kDone;
}

ChannelRun::Step ChannelRun::run_wait(const Op& op, uint64_t slice) {
  Peer& from = peer(op.peer);
  RecvStream& stream = from.recv_stream(channel_);
  stream.release();
  if (by_chunk_ && is_spoken_for(op, slice)) return take_spoken(op, slice);
  if (!stream.ready()) {
    if (diverts_ && op.into != kNoChunk && !stream.is_diverted() && from.lands()) {
      stream.divert(output_piece(op.into, slice));
    }
    awaited_ = &stream;
    awaited_from_ = &from;
    return wait_for(from);
  }
  const Line& line = stream.next_line();
  Message message = decode(line);
  frame_ = &frame_of(op);
  uint64_t signature = line.words[1];
  const Message& before = frame_->message;
  bool is_as_before = frame_->stays_in == starts_ && signature == call_->signature && before.kind == message.kind &&
                      before.size_bytes == message.size_bytes && before.chunk_bytes == message.chunk_bytes &&
                      before.with_rest == message.with_rest;
  if (!is_as_before) {
    if (Step admitted = admit(message, signature, op, slice, from); admitted != Step::kDone) return admitted;
  }
  frame_->message = message;
  if (message.output) peer_outputs_[op.peer] = message.output;
  if (message.by_chunk) tells_by_chunk_[op.peer] = 1;
  chunk_arrivals_[op.peer] = {};
  Step accepted = accept(op, slice, stream);
  if (accepted == Step::kDone && op.release) release_from(op.peer, op, slice);
  return accepted;
}

// Whether the message is the one that this call waits for. The frame keeps what was found.
ChannelRun::Step ChannelRun::admit(const Message& message, uint64_t signature, const Op& op, uint64_t slice,
                                   const Peer& from) {
  frame_->stays_in = 0;
  if (signature != call_->signature) {
    foreign_signature_ = signature;
    return fail(error(Code::kInvalidUsage, "rank {} makes a different call than this rank", from.rank())
                    .at({.rank = -1, .peer = from.rank(), .link = {}}));
  }
  if (Status form = check_form(message, op, slice, from); !form.ok()) {
    return fail(std::move(form).at({.rank = -1, .peer = from.rank(), .link = {}}));
  }
  frame_->into = op.into == kNoChunk ? nullptr : output_piece(op.into, slice).data();
  bool stays = one_slice_ && !with_counts_ && frame_ != &frames_.back();
  frame_->stays_in = stays ? starts_ : 0;
  return Step::kDone;
}

Status ChannelRun::check_form(const Message& message, const Op& op, uint64_t slice,
                              const Peer& from) const {
  bool is_inline = message.kind == MessageKind::kInline;
  uint64_t mine = chunk_bytes(op);
  bool is_whole = mine == 0 || (one_slice_ && !with_counts_);
  uint64_t expected = is_whole ? mine : call_->partition.slice_bytes(channel_, op.chunk, slice);
  bool is_partial = growth_ > 1 && op.into == kNoChunk && message.size_bytes == expected * growth_;
  uint64_t piece = is_partial ? expected : message.size_bytes;
  uint64_t theirs = is_inline ? piece : message.chunk_bytes;
  // Counts that only some ranks know are no part of the signature.
  if (slice == 0 && mine != theirs && with_counts_) {
    uint64_t element = size_of(call_->datatype);
    return error(Code::kInvalidUsage,
                 "rank {} sends {} elements to rank {} in {}, which expects {} elements; both must name one count",
                 from.rank(), theirs / element, from.self(), name_of(call_->shape->collective), mine / element);
  }
  bool well_formed = message.kind <= MessageKind::kDirect && piece == expected &&
                     (is_inline ? message.size_bytes <= inline_bytes_ : theirs == mine) &&
                     (op.into != kNoChunk || message.kind != MessageKind::kDirect);
  if (message.kind == MessageKind::kSignal) well_formed = well_formed && expected == 0;
  if (message.kind == MessageKind::kReference && message.with_rest) {
    well_formed = well_formed && by_chunk_ && slice == 0 && op.into == kNoChunk && message.size_bytes == expected;
  }
  bool speaks_for_others = by_chunk_ && op.into != kNoChunk && slice > 0 && takes_by_chunk(from);
  if (speaks_for_others) well_formed = well_formed && message.kind == MessageKind::kDirect;
  if (well_formed) return {};
  return malformed(from, message);
}

ChannelRun::Step ChannelRun::accept(const Op& op, uint64_t slice, RecvStream& stream) {
  Peer& from = peer(op.peer);
  const Message& message = frame_->message;
  std::byte* const into = frame_->into;
  const std::byte* payload = nullptr;
  Lent lent = Lent::kNo;
  bool is_diverted = diverts_ && stream.divert_no_more();
  switch (message.kind) {
    case MessageKind::kSignal:
    case MessageKind::kDirect:
      break;
    case MessageKind::kInline:
      payload = reinterpret_cast<const std::byte*>(&stream.next_line().words[3]);
      break;
    case MessageKind::kSlot:
      payload = stream.payload_in_slot(message);
      if (payload == nullptr) return fail(malformed(from, message));
      break;
    case MessageKind::kShort:
      payload = stream.payload_beside_line(message);
      if (payload == nullptr) return fail(malformed(from, message));
      break;
    case MessageKind::kCommon:
      payload = stream.payload_in_arena(message);
      if (payload == nullptr) return fail(malformed(from, message));
      break;
    case MessageKind::kReference: {
      const RemoteMemory* memory = from.find(message.payload.memory_id);
      if (memory == nullptr) {  // under way, unless it could not be mapped here
        if (from.needs_poll()) from.poll();
        return wait_for(from);
      }
      uint64_t lent_bytes = message.with_rest ? message.chunk_bytes : message.size_bytes;
      bool inside = memory->mapped != nullptr && message.payload.offset <= memory->size_bytes &&
                    lent_bytes <= memory->size_bytes - message.payload.offset;
      if (!inside) return fail(error(Code::kRemote, "rank {} refers to memory that it has not shared", from.rank()));
      payload = memory->mapped + message.payload.offset;
      if (message.with_rest) {
        chunks_[index_of(op)] = payload;
        chunk_arrivals_[op.peer] = {payload, message.size_bytes};
        break;
      }
      lent = Lent::kInPlace;
      if (into == nullptr) break;
      Step read = in_memory_of(from, [&] { return deliver(into, payload, message.size_bytes); });
      if (read != Step::kDone) return read;
      payload = into;
      lent = Lent::kRead;
      break;
    }
    case MessageKind::kPull: {
      std::byte* to = into != nullptr ? into : stream.slot(message.size_bytes);
      Step read = pull(from, message, to, there_with(message, op, slice));
      if (read != Step::kDone) return read;
      payload = to;
      lent = Lent::kRead;
      break;
    }
  }
  if (is_diverted && payload != nullptr) payload = into;
  if (into != nullptr && payload != nullptr && payload != into) {
    if (Status delivered = deliver(into, payload, message.size_bytes); !delivered.ok()) {
      return fail(std::move(delivered));
    }
  }
  stream.take(message.kind, payload, message.size_bytes, lent);
  bool lends_chunk = chunk_arrivals_[op.peer].data != nullptr;
  if (lends_chunk) stream.release();  // the message; the chunk is released for itself
  return Step::kDone;
}

// How much of the sender's memory from the payload on goes here from where the payload goes on, and may be there before
// its messages are taken.
uint64_t ChannelRun::there_with(const Message& message, const Op& op, uint64_t slice) const {
  // A sender that hears of it meanwhile stores the rest there itself.
  bool is_announced = call_->announces_output && call_->output_window;
  if (!message.with_rest || !op.is_result || output_is_input() || is_announced) return message.size_bytes;
  const Partition& partition = call_->partition;
  uint64_t before = partition.output(channel_, op.into, slice).offset_bytes -
                    partition.output(channel_, op.into, 0).offset_bytes;
  return partition.size_bytes(channel_, op.into) - before;
}

// The kernel takes a microsecond for each pull, whatever its size.
ChannelRun::Step ChannelRun::pull(Peer& from, const Message& message, std::byte* to, uint64_t there_bytes) {
  constexpr uint64_t kMostAtOnce = 1 << 20;  // between two looks at everything else
  Ahead& ahead = ahead_[from.rank()];
  bool is_here = ahead.from == message.address && ahead.to == to && ahead.size_bytes >= message.size_bytes;
  if (!is_here) {
    uint64_t messages = std::max<uint64_t>(1, kMostAtOnce / std::max<uint64_t>(1, message.size_bytes));
    uint64_t size = std::min(there_bytes, messages * message.size_bytes);
    Step read = in_memory_of(from, [&] { return from.link().pull({to, size}, message.address); });
    if (read != Step::kDone) return read;
    ahead.size_bytes = size;
  }
  ahead = {message.address + message.size_bytes, to + message.size_bytes, ahead.size_bytes - message.size_bytes};
  return Step::kDone;
}

template <typename Use>
ChannelRun::Step ChannelRun::in_memory_of(Peer& lender, Use&& use) {
  if (!lender.link().begin_access()) return fail(has_left(lender));
  Status used = use();
  if (!lender.link().end_access()) return fail(has_left(lender));
  return used.ok() ? Step::kDone : fail(std::move(used));
}

// The caller of a rank that gives a call up has its memory back at once.
Status ChannelRun::has_left(const Peer& lender) const {
  return error(Code::kRemote, "rank {} gave the call up while its memory was read", lender.rank())
      .at({.rank = -1, .peer = lender.rank(), .link = {}});
}

Status ChannelRun::deliver(std::byte* into, const std::byte* from, uint64_t size_bytes) const {
  return move(into, from, size_bytes, call_->streams ? Store::kStreaming : Store::kCached);
}

Status ChannelRun::move(std::byte* to, const std::byte* from, uint64_t size_bytes, Store store) const {
  if (call_->is_on_devices()) [[unlikely]] {
    if (const DeviceMemory* source = device_of(from)) return source->read({to, size_bytes}, from);
    if (const DeviceMemory* target = device_of(to)) return target->write(to, {from, size_bytes});
  }
  copy(to, from, size_bytes, store);
  return {};
}

const DeviceMemory* ChannelRun::device_of(const std::byte* data) const {
  for (const DeviceMemory* device : {call_->input_device, call_->output_device}) {
    if (device != nullptr && device->holds(data)) return device;
  }
  return nullptr;
}

}  // namespace tutti
