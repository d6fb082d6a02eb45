// Calls on streams, as the communicator sees them.
#include "base/log.h"
#include "core/communicator.h"

namespace tutti {

const std::shared_ptr<StreamEntry>& Communicator::stream_entry() {
  std::call_once(has_stream_entry_, [this] {
    own_stream_entry_ = std::make_shared<StreamEntry>(*this);
    stream_entry_.store(own_stream_entry_.get(), std::memory_order_release);
  });
  return own_stream_entry_;
}

Result<bool> Communicator::need_stream(std::span<const CallArguments> calls, tutti_stream_t stream) {
  StreamCalls& stream_calls = context_->stream_calls;
  if (stream_calls.devices().if_used() == nullptr) {
    if (stream != nullptr) {
      return stream_calls.devices().why_not().within(name_of(calls.front().collective));
    }
    for (const CallArguments& arguments : calls) {
      if (arguments.input != nullptr) host_input_.store(arguments.input, std::memory_order_relaxed);
      if (arguments.output != nullptr) host_output_.store(arguments.output, std::memory_order_relaxed);
    }
    return false;
  }
  host_input_.store(nullptr, std::memory_order_relaxed);
  host_output_.store(nullptr, std::memory_order_relaxed);
  bool on_stream = stream != nullptr;
  const CallArguments* host_alone = nullptr;
  const char* its_name = nullptr;
  for (const CallArguments& arguments : calls) {
    tutti_request request;
    request.arguments = arguments;
    TUTTI_TRY(admit(request));  // says which buffers are used at all
    auto uses = stream_calls.uses_of(request.arguments, request.geometry);
    if (!uses.ok()) {
      break_down(uses.status());  // the other ranks would wait for this call
      return std::move(uses).status();
    }
    on_stream = on_stream || uses->devices;
    if (uses->host_alone == nullptr) continue;
    host_alone = &arguments;
    its_name = uses->host_alone;
  }
  if (!on_stream || host_alone == nullptr) return on_stream;
  return error(Code::kInvalidArgument,
               "{}: {} is memory that only the host can use, in a call on a stream; pass device, managed or pinned "
               "memory, or host buffers alone and NULL for the stream",
               name_of(host_alone->collective), its_name);
}

Status Communicator::run_on_stream(std::span<const CallArguments> calls, tutti_stream_t stream) {
  std::vector<StreamCalls::Call> on_stream;
  for (const CallArguments& arguments : calls) {
    auto request = std::make_unique<tutti_request>();
    request->arguments = arguments;
    TUTTI_TRY(admit_for_stream(*request));
    StreamCalls::Call call{this, {}};
    call.parts.push_back({std::move(request), stream});
    on_stream.push_back(std::move(call));
  }
  return run_on_streams(std::move(on_stream)).status();
}

Status Communicator::admit_for_stream(tutti_request& request) {
  TUTTI_TRY(context_->engine->start());
  return admit(request);
}

void Communicator::post(tutti_request& request) {
  enqueue(request);
  wake();
}

void Communicator::wake() {
  context_->engine->add(this);
  links_->ring();  // a thread of the caller may sleep with the turn
}

// Streams may know of a failure before the rank that has failed can say so.
Status Communicator::status() const {
  if (failure_.happened() || gpu_calls_ == nullptr) return failure_.status();
  return gpu_calls_->status();
}

Code Communicator::code() const {
  if (failure_.happened() || gpu_calls_ == nullptr) return failure_.code();
  return gpu_calls_->code();
}

// Of calls after a capture the GPUs know when a stream has reached them; and what then goes through the host is on a
// stream again. So whoever waits for both waits for each twice.
Status Communicator::await_streams(Sequence sequence) {
  if (gpu_calls_ && sequence == Sequence::kCollectives) {
    TUTTI_TRY(await_decided());
    TUTTI_TRY(await_reached(sequence));
    TUTTI_TRY(await_decided());
  }
  return await_reached(sequence);
}

Status Communicator::await_decided() {
  Status decided = gpu_calls_->await_decided();
  if (decided.ok()) return {};
  break_down(decided);
  return failure_.status();
}

Status Communicator::await_reached(Sequence sequence) {
  StreamEntry* entry = stream_entry_.load(std::memory_order_acquire);
  if (entry == nullptr || entry->unreached(sequence) == 0) return {};
  constexpr int64_t kLookMs = 100;
  int before = entry->unreached(sequence);
  Deadline deadline = Deadline::after_ms(config_.timeout_ms);
  while (!entry->await_reached(sequence, kLookMs)) {
    TUTTI_TRY(check_usable());
    if (int now = entry->unreached(sequence); now != before) {
      before = now;
      deadline = Deadline::after_ms(config_.timeout_ms);
    }
    if (!deadline.passed()) continue;
    Status late = error(Code::kTimeout,
                        "rank {}: {} calls before this one are on streams that have reached none of them for {} ms; "
                        "look at what those streams wait for",
                        rank_, before, config_.timeout_ms)
                      .at({.rank = rank_});
    fail(late, true);
    return late;
  }
  return {};
}

// What a stream reaches from here on is complete at once; what it has reached runs to its end.
void Communicator::close_streams() {
  StreamEntry* entry = stream_entry_.load(std::memory_order_acquire);  // which a failure may make just now
  if (entry == nullptr) return;
  auto progress = [this] { return std::pair(unreached(), gpu_calls_ ? gpu_calls_->done() : 0); };
  auto are_done = [this] { return unreached() == 0 && (gpu_calls_ == nullptr || gpu_calls_->are_done()); };
  auto before = progress();
  Deadline deadline = Deadline::after_ms(config_.timeout_ms);
  Waiter waiter(wait_policy_);
  auto move_on = [&] {
    if (advance() != Advance::kMoved && waiter.idle()) sleep();
  };
  while (!are_done() && !failure_.happened()) {
    move_on();
    if (auto now = progress(); now != before) {
      before = now;
      deadline = Deadline::after_ms(config_.timeout_ms);
    }
    if (!deadline.passed()) continue;
    log_warn("calls are on streams that have come to none of them for {} ms; leaving", config_.timeout_ms);
    break;
  }
  entry->close();
  while (pending_.load(std::memory_order_acquire) > 0) move_on();
}

}  // namespace tutti
