// What StreamCalls has on streams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/staging_pool.h"
#include "core/stream_calls.h"
#include "core/stream_entry.h"
#include "executor/slice_flow.h"

namespace tutti {

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
    // GPUs were to do it, and so it has a number and was told of already.
    void is_numbered(uint64_t number) const {
      request->number = number;
      request->is_told = true;
    }
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
  bool flushes = false;                  // and then until its device sees what NICs have written
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

}  // namespace tutti
