// The interpreter of a rank's Program on its GPU. A block of threads walks one channel; for every peer one of its
// threads owns the streams to and from it: it waits for messages and for room, sends, and keeps the counters. What a
// message brings is seen by all threads behind the next barrier.
//
// Env is the GPU, or a test's simulation of one:
//   uint32_t block(), thread(), threads()
//   Load load<Load>(address), store(address, value)       data, of any GPU
//   uint64_t load_acquire(address, Order)                 words that GPUs write for each other, in the order that all
//   void store_release(address, value, Order)             GPUs see
//   void sync(Barrier)                                    none of the block goes on before all are there
//   bool sync_or(bool, Barrier)                           the same, and gives all of them whether any says so
//   bool is_cancelled(word), uint64_t now_ns(), void say_late(word, value)
#pragma once

#include "kernels/cuda/gpu_program.h"
#include "kernels/cuda/piece.h"

namespace tutti::cuda {

// The places where threads wait for each other, and GPUs.
enum class Barrier : uint8_t {
  kReady,   // what the op waits for is there
  kPlaced,  // and all know where it is
  kStored,  // results are, and sources are not needed any more
};
enum class Order : uint8_t { kMessage, kFreed };

// What the threads of a block share.
struct ProgramBlock {
  uint64_t arrivals[kMostGpus];         // by peer: the word of its last message
  uint64_t next[kMostGpus];             // by peer: the number of the next message to it
  bool temp_is_wide[kMostGpuTemps];
  PieceLists lists;
};

template <class Env, class Element>
class ProgramRun {
 public:
  TUTTI_HOST_DEVICE ProgramRun(const ProgramArgs& args, Env& env, ProgramBlock& shared)
      : args_(args),
        env_(env),
        shared_(shared),
        channel_(env.block()),
        operands_(args.program->table<GpuOperand>(args.program->operands)),
        sends_(args.program->table<GpuSend>(args.program->sends)),
        releases_(args.program->table<int32_t>(args.program->releases)) {
    const uint32_t stride = env.threads() / args.ranks;
    owned_ = env.thread() % stride == 0 && env.thread() / stride < args.ranks ? env.thread() / stride : kNobody;
    slices_ = (size_of_chunk(0) + args.slice_elements - 1) / args.slice_elements;  // no chunk is larger
    if (slices_ == 0) slices_ = 1;
  }

  TUTTI_HOST_DEVICE void run() {
    // The buffers may be their callers' again.
    const bool is_cancelled = env_.thread() == 0 && env_.is_cancelled(args_.cancelled);
    if (env_.sync_or(is_cancelled, Barrier::kReady)) return;
    uint64_t* counters = nullptr;
    if (owned_ != kNobody) {
      counters = reinterpret_cast<uint64_t*>(own_arena() + args_.arena.counters(owned_, channel_));
      sent_ = counters[0];
      received_ = counters[1];
    }
    if (!walk()) return;
    // The caller's buffers are his again once nobody reads them.
    if (lent_ > 0) await_freed(lent_);
    if (has_failed_ || counters == nullptr) return;
    counters[0] = sent_;
    counters[1] = received_;
  }

 private:
  static constexpr uint32_t kNobody = ~0U;
  static constexpr uint32_t kSize = sizeof(typename Element::Storage);
  // How a message brings its payload; the lowest bits of its word, below a bit that says whether it is wide.
  enum class Way : uint8_t { kNothing, kSlot, kInput, kOutput };
  static constexpr uint64_t kWide = 4;
  static constexpr int kNumberShift = 3;
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // ---- The walk. All threads take the same steps. False: given up.

  TUTTI_HOST_DEVICE bool walk() {
    const GpuSpan sections = args_.program->channels[channel_];
    for (uint32_t s = sections.first; s < sections.first + sections.count; ++s) {
      const GpuSection& section = args_.program->table<GpuSection>(args_.program->sections)[s];
      const GpuOp* ops = args_.program->table<GpuOp>(args_.program->ops) + section.ops.first;
      for (uint64_t round = 0; round < slices_ + section.most_lag; ++round) {
        for (uint32_t i = 0; i < section.ops.count; ++i) {
          const GpuOp& op = ops[i];
          // Chunks that are smaller have empty slices: their messages go all the same.
          const uint64_t slices = op.chunk == kNoGpuChunk ? 1 : slices_;
          if (round < op.lag || round - op.lag >= slices) continue;
          if (!op.is_wait) {
            if (!compute(op, round - op.lag)) return false;
          } else if (owns(op.peer)) {
            receive(op);
          }
        }
      }
    }
    return true;
  }

  // ---- Messages, by the owner of a peer's streams.

  TUTTI_HOST_DEVICE bool owns(int32_t peer) const { return owned_ == static_cast<uint32_t>(peer); }
  TUTTI_HOST_DEVICE uint64_t own_arena() const { return args_.of[args_.rank].arena; }

  TUTTI_HOST_DEVICE void receive(const GpuOp& op) {
    const uint64_t number = ++received_;
    const uint64_t line = own_arena() + args_.arena.line(owned_, channel_, number);
    const uint64_t word =
        await(line, Order::kMessage, [&](uint64_t now) { return now >> kNumberShift == number; });
    shared_.arrivals[owned_] = word;
    if (op.release && !has_failed_) release();
  }

  TUTTI_HOST_DEVICE void release() {
    const uint64_t freed = args_.of[owned_].arena + args_.arena.freed(args_.rank, channel_);
    env_.store_release(freed, received_, Order::kFreed);
  }

  TUTTI_HOST_DEVICE void await_freed(uint64_t number) {
    const uint64_t freed = own_arena() + args_.arena.freed(owned_, channel_);
    await(freed, Order::kFreed, [&](uint64_t now) { return now >= number; });
  }

  TUTTI_HOST_DEVICE void await_room() {
    if (sent_ >= kMessageSlots) await_freed(sent_ + 1 - kMessageSlots);
    shared_.next[owned_] = sent_ + 1;
  }

  TUTTI_HOST_DEVICE void send(Way way, bool is_wide) {
    const uint64_t number = ++sent_;
    if (way == Way::kInput || way == Way::kOutput) lent_ = number;
    const uint64_t line = args_.of[owned_].arena + args_.arena.line(args_.rank, channel_, number);
    const uint64_t word = number << kNumberShift | (is_wide ? kWide : 0) | static_cast<uint64_t>(way);
    env_.store_release(line, word, Order::kMessage);
  }

  // Until is_there(word), or the call is cancelled, or that takes too long.
  template <class IsThere>
  TUTTI_HOST_DEVICE uint64_t await(uint64_t address, Order order, const IsThere& is_there) {
    constexpr uint32_t kLooksBetween = 64;  // at the host's memory, which is far away
    uint64_t begun_ns = 0;
    for (uint32_t looks = 1; !has_failed_; ++looks) {
      const uint64_t word = env_.load_acquire(address, order);
      if (is_there(word)) return word;
      if (looks % kLooksBetween != 0) continue;
      const uint64_t now_ns = env_.now_ns();
      if (begun_ns == 0) begun_ns = now_ns;
      const bool is_late = now_ns - begun_ns > args_.limit_ns;
      if (is_late) env_.say_late(args_.late, owned_ + 1);
      has_failed_ = is_late || env_.is_cancelled(args_.cancelled);
    }
    return 0;
  }

  // ---- Computing, by all threads.

  TUTTI_HOST_DEVICE bool compute(const GpuOp& op, uint64_t slice) {
    for (uint32_t i = 0; i < op.sends.count; ++i) {
      if (owns(sends_[op.sends.first + i].peer)) await_room();
    }
    if (env_.sync_or(has_failed_, Barrier::kReady)) return false;
    const PieceShape shape = shape_of(op, slice);
    if (has_stores(op) && shape.elements > 0) {
      place(op, slice, shape.is_wide);
      env_.sync(Barrier::kPlaced);
      Piece<Env, Element>(env_, shared_.lists, shape, args_.op).run();
      env_.sync(Barrier::kStored);
    }
    for (uint32_t i = 0; i < op.sends.count; ++i) {
      const GpuSend& each = sends_[op.sends.first + i];
      if (owns(each.peer)) send(way_of(op, each), shape.is_wide);
    }
    for (uint32_t i = 0; i < op.releases.count; ++i) {
      if (owns(releases_[op.releases.first + i])) release();
    }
    return true;
  }

  TUTTI_HOST_DEVICE PieceShape shape_of(const GpuOp& op, uint64_t slice) const {
    PieceShape shape;
    if (op.chunk == kNoGpuChunk) return shape;
    const Range range = slice_of(op.chunk, slice);
    shape.elements = range.end - range.begin;
    if (shape.elements == 0) return shape;
    shape.sources = op.sources.count;
    shape.destinations = op.destinations.count + op.sends.count;
    shape.divisor = op.finish ? args_.divisor : 0;
    const bool is_wide = lies_wide(operands_[op.sources.first]);
    shape.is_wide = args_.grows != 0 && !op.finish && (op.sources.count > 1 || is_wide);
    shape.is_moved = op.sources.count == 1 && is_wide == shape.is_wide && shape.divisor == 0;
    return shape;
  }

  TUTTI_HOST_DEVICE bool has_stores(const GpuOp& op) const {
    if (op.destinations.count > 0) return true;
    for (uint32_t i = 0; i < op.sends.count; ++i) {
      const GpuSend& each = sends_[op.sends.first + i];
      if (is_stored_there(each) || way_of(op, each) == Way::kSlot) return true;
    }
    return false;
  }

  TUTTI_HOST_DEVICE bool is_stored_there(const GpuSend& send) const {
    return send.is_into_output && args_.of[send.peer].takes_output != 0;
  }
  TUTTI_HOST_DEVICE Way way_of(const GpuOp& op, const GpuSend& send) const {
    if (op.chunk == kNoGpuChunk || is_stored_there(send)) return Way::kNothing;
    if (args_.lends != 0 && send.source == GpuSpace::kInput) return Way::kInput;
    if (args_.lends != 0 && send.source == GpuSpace::kOutput) return Way::kOutput;
    return Way::kSlot;
  }

  // ---- Where things are.

  TUTTI_HOST_DEVICE void place(const GpuOp& op, uint64_t slice, bool is_wide) {
    PieceLists& lists = shared_.lists;
    const uint32_t stores = op.destinations.count + op.sends.count;
    for (uint32_t j = env_.thread(); j < op.sources.count; j += env_.threads()) {
      const GpuOperand& operand = operands_[op.sources.first + j];
      lists.sources[j] = {address_of(operand, op.chunk, slice), lies_wide(operand)};
    }
    for (uint32_t j = env_.thread(); j < stores; j += env_.threads()) {
      const bool is_own = j < op.destinations.count;
      lists.destinations[j] = is_own ? address_of(operands_[op.destinations.first + j], op.chunk, slice)
                                     : address_there(op, sends_[op.sends.first + j - op.destinations.count], slice);
      const bool is_temp = is_own && operands_[op.destinations.first + j].space == GpuSpace::kTemp;
      if (is_temp) shared_.temp_is_wide[operands_[op.destinations.first + j].index] = is_wide;
    }
  }

  TUTTI_HOST_DEVICE bool lies_wide(const GpuOperand& operand) const {
    if (args_.grows == 0) return false;
    if (operand.space == GpuSpace::kTemp) return shared_.temp_is_wide[operand.index];
    return operand.space == GpuSpace::kArrival && (shared_.arrivals[operand.index] & kWide) != 0;
  }
  TUTTI_HOST_DEVICE uint64_t address_of(const GpuOperand& operand, int32_t chunk, uint64_t slice) const {
    switch (operand.space) {
      case GpuSpace::kInput: return input_of(args_.rank, chunk, slice);
      case GpuSpace::kOutput: return output_of(args_.rank, chunk, slice);
      case GpuSpace::kTemp: return own_arena() + args_.arena.temp(channel_, static_cast<uint32_t>(operand.index));
      case GpuSpace::kArrival: break;
    }
    const auto peer = static_cast<uint32_t>(operand.index);
    const uint64_t word = shared_.arrivals[peer];
    switch (static_cast<Way>(word & 3)) {
      case Way::kInput: return input_of(peer, chunk, slice);
      case Way::kOutput: return output_of(peer, chunk, slice);
      default: return own_arena() + args_.arena.slot(peer, channel_, word >> kNumberShift);
    }
  }

  // Where the value goes with a message; 0: it stays.
  TUTTI_HOST_DEVICE uint64_t address_there(const GpuOp& op, const GpuSend& send, uint64_t slice) const {
    const auto peer = static_cast<uint32_t>(send.peer);
    if (is_stored_there(send)) return output_of(peer, op.chunk, slice);
    if (way_of(op, send) != Way::kSlot) return 0;
    return args_.of[peer].arena + args_.arena.slot(args_.rank, channel_, shared_.next[peer]);
  }

  TUTTI_HOST_DEVICE uint64_t input_of(uint32_t rank, int32_t chunk, uint64_t slice) const {
    return args_.of[rank].input + element_in(args_.input, chunk, slice) * kSize;
  }
  TUTTI_HOST_DEVICE uint64_t output_of(uint32_t rank, int32_t chunk, uint64_t slice) const {
    return args_.of[rank].output + element_in(args_.output, chunk, slice) * kSize;
  }
  TUTTI_HOST_DEVICE uint64_t element_in(const GpuBlocks& blocks, int32_t chunk, uint64_t slice) const {
    const uint64_t block = args_.chunks > 0 ? 0 : static_cast<uint32_t>(chunk) / blocks.divide % blocks.modulo;
    return block * args_.count + slice_of(chunk, slice).begin;
  }

  // ---- The elements of a chunk, as plan/partition.h cuts them. Its slices are whole ones and a rest.

  TUTTI_HOST_DEVICE Range slice_of(int32_t chunk, uint64_t slice) const {
    Range range = range_of(chunk);
    range.begin += slice * args_.slice_elements;
    if (range.begin > range.end) range.begin = range.end;
    if (range.end - range.begin > args_.slice_elements) range.end = range.begin + args_.slice_elements;
    return range;
  }
  TUTTI_HOST_DEVICE uint64_t size_of_chunk(int32_t chunk) const {
    const Range range = range_of(chunk);
    return range.end - range.begin;
  }
  TUTTI_HOST_DEVICE Range range_of(int32_t chunk) const {
    Range range{0, args_.count};
    if (args_.channels > 1) range = split(range, args_.channels, channel_);
    return args_.chunks > 1 ? split(range, args_.chunks, static_cast<uint32_t>(chunk)) : range;
  }
  // Whole lines while there is one for each part.
  TUTTI_HOST_DEVICE static Range split(Range range, uint32_t parts, uint32_t index) {
    constexpr uint64_t kLine = 64 / kSize;
    const uint64_t size = range.end - range.begin;
    const uint64_t lines = (size + kLine - 1) / kLine;
    if (lines < parts) {
      return {range.begin + even_begin(size, parts, index), range.begin + even_begin(size, parts, index + 1)};
    }
    const uint64_t begin = range.begin + even_begin(lines, parts, index) * kLine;
    return {begin, index + 1 == parts ? range.end : range.begin + even_begin(lines, parts, index + 1) * kLine};
  }
  TUTTI_HOST_DEVICE static uint64_t even_begin(uint64_t units, uint32_t parts, uint32_t index) {
    const uint64_t rest = units % parts;
    return units / parts * index + (index < rest ? index : rest);
  }

  const ProgramArgs& args_;
  Env& env_;
  ProgramBlock& shared_;
  const uint32_t channel_;
  const GpuOperand* const operands_;
  const GpuSend* const sends_;
  const int32_t* const releases_;
  uint64_t slices_ = 1;
  bool has_failed_ = false;
  // Of the peer whose streams this thread owns:
  uint32_t owned_ = kNobody;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t lent_ = 0;  // the last message of this call whose payload is in the caller's buffers
};

}  // namespace tutti::cuda
