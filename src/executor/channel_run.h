// ChannelRun: the interpreter. Walks one channel's Program for one Call; resumable, never
// blocks. The only state machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "executor/buffer_pool.h"
#include "executor/call.h"
#include "executor/combine_by_function.h"
#include "executor/program.h"
#include "executor/repeat.h"
#include "kernels/kernels.h"

namespace tutti {

class ChannelRun {
 public:
  // Tables for the largest Program that will run.
  void prepare(const Program& program);

  // Everything outlives the run. After prepare() for this Program.
  void start(const Program& program, const Call& call, Peers& peers, int channel);
  // The same call once more: nothing that start() was given has changed but the signature.
  void start_again();

  // Whether this call, or the one before, goes by what was noted of an earlier one.
  bool repeats() const { return repeats_; }
  // With repeats(), after start_again(): true when the call is done. Else advance() goes on.
  bool finish();
  // Goes as far as it can, for some rounds at most. kDone: the results are in the output, and no peer needs the memory
  // of the caller any more.
  Result<Progress> advance();

  size_t scratch_bytes() const { return scratch_.size() + multiplied_.size(); }
  // The peer that the run waits for, -1 when it is not waiting or for several.
  int waiting_for() const { return waiting_for_; }
  // After an advance() that failed because a peer makes another call: its signature. Else 0.
  uint64_t foreign_signature() const { return foreign_signature_; }
  // Whether advance() would still find nothing to do: cheap, for those who ask all the time.
  bool still_waits() const { return awaits() && !has_come() && !awaited_from_->is_broken(); }
  // Whether what it waited for is here, as far as only one thing was missing.
  bool has_come() const {
    if (awaited_ != nullptr) {
      bool is_here = awaited_->ready();
      if (!is_here && fetched_ahead_bytes_ > 0) awaited_->fetch_ahead(fetched_ahead_bytes_);
      return is_here;
    }
    return awaited_release_ != nullptr && awaited_release_->references_released();
  }

 private:
  // What became of one operation. kFailed: failure_ says why.
  enum class Step : uint8_t { kDone, kWaits, kFailed };
  struct Value {
    const std::byte* data = nullptr;
    uint64_t size_bytes = 0;
  };
  // What was pulled from a peer before its messages were taken.
  struct Ahead {
    uint64_t from = 0;
    const std::byte* to = nullptr;
    uint64_t size_bytes = 0;
  };
  struct Temp {
    std::byte* data = nullptr;
    uint64_t size_bytes = 0;
  };
  // How one send of a kCompute is done.
  struct Delivery {
    MessageKind kind = MessageKind::kSignal;
    std::byte* store_to = nullptr;        // the kernel stores here; null: nothing to store
    std::byte* fill = nullptr;            // a slot that gets a copy of the value, which lies elsewhere too
    const std::byte* payload = nullptr;   // what the message carries or refers to
    Window into;                          // kDirect by a put: the payload goes here, in the peer's output
    bool with_rest = false;               // of the message
    bool is_silent = false;               // the message of another slice stands for this one
  };
  // What one kCompute works with, and where its value goes; of a kWait, how its message has to be. In a call that is
  // made again and again most of it stays.
  struct Frame {
    std::vector<const std::byte*> sources;
    std::vector<Width> widths;             // of the sources, in calls whose partial results grow; else empty
    std::vector<std::byte*> destinations;  // the op's own, then those of its deliveries
    std::vector<Delivery> deliveries;
    uint64_t piece_bytes = 0;              // size of the value in the datatype
    uint64_t value_bytes = 0;              // as it lies here and in messages
    Width width = Width::kNarrow;          // how that is
    const std::byte* value = nullptr;      // where it lies here; null while only messages hold it
    PayloadOrigin origin = PayloadOrigin::kUnseen;  // of the value that goes into slots
    Message message;                       // kWait: the one that has come
    std::byte* into = nullptr;             // kWait: where the payload goes, if anywhere
    bool has_lender = false;               // memory of a peer's caller is used
    std::byte* common = nullptr;           // the slot that several share: the last destination,
    bool fills_common = false;             // if it is not filled apart
    bool is_makeshift = false;             // several would, if one had been free
    bool has_slots = false;                // some deliveries store into slots, or what stands for them,
    bool has_direct = false;               // or into the output of a peer that has mapped it
    bool has_arrivals = false;             // some sources are arrivals
    uint64_t stays_in = 0;                 // the start() in whose calls only arrivals and slots change; 0: none
  };

  void begin();
  // What repeat_ has to do, from the frames of the call before; nothing where that cannot be repeated.
  void note_repeat();
  bool may_repeat() const;
  bool output_is_input() const;
  bool may_divert() const;
  bool note_round(const ProgramSection& section, uint32_t round);
  bool note_wait(const Op& op);
  bool note_compute(const Op& op);
  void note_work(const Op& op);
  Step walk_repeat();
  void await_peer_of_repeat();
  // Of a call whose input comes, and whose output goes, while it runs.
  bool awaits_input() const { return op_ == 0 && call_->flow != nullptr && !call_->flow->has_arrived(round_); }
  void tell_finished();
  bool awaits() const { return awaited_ != nullptr || awaited_release_ != nullptr; }
  // The walk goes on with this op.
  void go_to(uint32_t op);
  Step run(const Op& op, uint64_t slice) {
    return op.kind == OpKind::kWait ? run_wait(op, slice) : run_compute(op, slice);
  }
  Step run_wait(const Op& op, uint64_t slice);
  Step run_compute(const Op& op, uint64_t slice);
  Step fail(Status why);
  // Waits for the peer, unless its link is broken.
  Step wait_for(const Peer& peer);

  // Receiving.
  Step accept(const Op& op, uint64_t slice, RecvStream& stream);
  Step pull(Peer& from, const Message& message, std::byte* to, uint64_t there_bytes);
  uint64_t there_with(const Message& message, const Op& op, uint64_t slice) const;
  Status deliver(std::byte* into, const std::byte* from, uint64_t size_bytes) const;
  Status check_form(const Message& message, const Op& op, uint64_t slice, const Peer& from) const;
  Step admit(const Message& message, uint64_t signature, const Op& op, uint64_t slice, const Peer& from);
  // Between begin_access() and end_access() of the peer's link.
  template <typename Use>
  Step in_memory_of(Peer& lender, Use&& use);
  Status has_left(const Peer& lender) const;
  bool is_lent(const Operand& arrival) {
    return chunk_arrivals_[arrival.index].data != nullptr || peer(arrival.index).recv_stream(channel_).in_lent_memory();
  }
  void release_from(int32_t rank, const Op& op, uint64_t slice);

  // Messages that stand for all slices of a chunk (PlanShape::by_chunk).
  bool takes_by_chunk(const Peer& from) const;
  bool lends_chunk(const Op& op, const Send& send) const;
  bool is_spoken_for(const Op& op, uint64_t slice);
  Step take_spoken(const Op& op, uint64_t slice);
  Step await_outputs(const Op& op);
  Step mind_chunk(const Op& op, const Send& send, uint64_t slice, Delivery& delivery);

  // Computing and sending.
  Step await_slots(const Op& op);
  Step compose(const Op& op, uint64_t slice);
  Step gather(const Op& op, uint64_t slice);
  bool will_stay(const Op& op) const;
  Step refresh(const Op& op);
  Step refresh_slots(const Op& op);
  bool is_still(const Op& op, uint32_t send);
  uint64_t note_width(uint64_t size_bytes, uint64_t expected_bytes);
  bool moves(const Op& op) const;
  Step choose_deliveries(const Op& op, uint64_t slice);
  Delivery choose_delivery(const Send& send, uint64_t slice);
  Step share_slot(const Op& op);
  bool is_filled_apart(Peer& to) const;
  std::byte* slot_of(Peer& to) const;  // where the value would lie there
  CommonSlots* common_slots() const {  // null: the call uses none
    return call_->common_slots.empty() ? nullptr : &call_->common_slots[static_cast<size_t>(channel_)];
  }
  std::optional<Window> place_in_output(Peer& to, const Send& send, uint64_t slice);
  std::byte* place_of(Peer& to, const Window& place) const;  // which is mapped
  bool may_lend(const Peer& to, const Send& send) const;
  bool is_pulled(const Peer& to) const;
  const std::byte* home_of(const Send& send, uint64_t slice) const;
  Status combine(const Op& op);
  void fill_slots(const Op& op);
  // Wherever the two ends lie.
  Status move(std::byte* to, const std::byte* from, uint64_t size_bytes, Store store) const;
  const DeviceMemory* device_of(const std::byte* data) const;
  // Whether that destination has the value before the call begins.
  bool has_come_before(const Op& op, size_t destination) const;
  void reduce_sources(const Op& op);
  ReduceArgs reduction(const Op& op) const;
  bool multiplies_first() const { return call_->op == kPreMulSum; }
  const std::byte* multiplied(const std::byte* from, uint64_t size_bytes);
  template <typename Visit>
  void visit_lenders(const Op& op, Visit&& visit);
  Step combine_with_lenders(const Op& op);
  size_t streamed_destinations(const Op& op) const;
  Step send_all(const Op& op);
  Message describe(const Op& op, const Send& send, const Delivery& delivery) const;
  void release(const Op& op, uint64_t slice);

  std::span<std::byte> output_piece(int chunk, uint64_t slice) const {
    Piece piece = call_->partition.output(channel_, chunk, slice);
    return {call_->output + piece.offset_bytes, piece.size_bytes};
  }
  Value value_of(const Operand& operand, uint64_t slice);
  std::byte* storage_of(const Operand& operand, uint64_t slice);
  void take_scratch();
  void give_back_scratch();
  void prepare_own_op();
  Frame& frame_of(const Op& op) {
    return frames_[std::min(index_of(op), frames_.size() - 1)];
  }
  size_t index_of(const Op& op) const { return static_cast<size_t>(&op - program_->ops.data()); }
  void enter_section();
  void next_round();
  bool runs_in_round(const Op& op) const;
  // How often an op runs, and how many rounds that makes of the current section.
  uint64_t slices_of(const Op& op) const;
  // Of the op's chunk on this channel; with counts of all of it, so that an error can name those of the two callers. 0
  // for bare signals.
  uint64_t chunk_bytes(const Op& op) const;
  uint64_t rounds_of(const ProgramSection& section) const;
  Step settle();
  Peer& peer(int rank) { return *(*peers_)[rank]; }

  const Program* program_ = nullptr;
  const Call* call_ = nullptr;
  Peers* peers_ = nullptr;
  int channel_ = 0;
  int waiting_for_ = -1;
  const RecvStream* awaited_ = nullptr;          // nothing but its next message is missing,
  const SendStream* awaited_release_ = nullptr;  // or that the peer lets go of what this rank has lent
  const Peer* awaited_from_ = nullptr;           // whose stream it is
  Status failure_;
  uint64_t foreign_signature_ = 0;

  // Where the walk is.
  size_t section_ = 0;
  uint64_t round_ = 0;
  uint64_t rounds_ = 0;
  bool one_slice_ = false;                 // no chunk of this call has more
  bool by_chunk_ = false;                  // messages may stand for all slices of a chunk
  bool with_counts_ = false;               // that only the two ends of a block know
  size_t inline_bytes_ = 0;                // the largest payload that a line may hold in this call
  uint64_t fetched_ahead_bytes_ = 0;       // of the slot of a message that is awaited
  uint32_t growth_ = 1;                    // how much larger a partial result is than others (plan/partial.h)
  uint32_t op_ = 0;
  bool awaits_common_ = false;             // the current kCompute waits for a slot that several share
  bool computed_ = false;                  // the current kCompute has its value and sends it
  uint32_t sent_ = 0;                      // sends of it that are done
  Frame* frame_ = nullptr;                 // of the current op
  uint64_t starts_ = 0;                    // how often start() was called
  Repeat repeat_;
  uint64_t repeat_of_ = 0;                 // the start() that it is of; 0: none
  bool repeats_ = false;                   // this call goes by it
  bool diverts_ = false;                   // payloads may come to where they go at once
  bool has_fallen_back_ = false;           // in the last call the walk had to be left
  bool has_other_slots_ = false;           // the last call filled slots apart, or had others than usual: not repeated
  size_t most_sources_ = 0;                // of any kCompute
  alignas(64) std::byte small_value_[64];  // a value that only inline messages hold

  // Reused tables; prepare() sizes them.
  BufferPool::Buffer scratch_;         // of the temps
  std::vector<Temp> temps_;
  std::vector<Frame> frames_;          // of the first ops; the last one of all others
  FunctionCombiner by_function_;
  BufferPool::Buffer multiplied_;      // a piece of the input times the factor
  std::vector<Window> peer_outputs_;   // by rank: the peer's output of this call, as far as known
  std::vector<Ahead> ahead_;           // by rank
  std::vector<uint8_t> tells_by_chunk_;   // by rank: whether a message of this call has said so
  std::vector<const std::byte*> chunks_;  // by op: of a kWait, the chunk that the message of its first slice has lent
  std::vector<Value> chunk_arrivals_;     // by rank: the arrival, while it lies in such a chunk
};

}  // namespace tutti
