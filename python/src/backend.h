// TuttiBackend: torch.distributed on tutti.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "communicator.h"
#include "device_call.h"
#include "device_streams.h"
#include "memory.h"

namespace tutti_torch {

inline constexpr const char* kBackendName = "tutti";

struct TuttiOptions : c10d::Backend::Options {
  explicit TuttiOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout, Settings settings = {})
      : Options(kBackendName, timeout), settings(std::move(settings)) {}
  Settings settings;  // options of tutti, by name: they win over the environment
};

// Calls of one rank may come from several threads; collectives come in the same order on all ranks.
class TuttiBackend : public c10d::Backend {
 public:
  // Blocks until all ranks have come.
  TuttiBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<TuttiOptions> options);
  // Without shutdown() before: aborts if calls are under way, and shuts down, which may block.
  ~TuttiBackend() override;

  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<std::vector<at::Tensor>>;

  const std::string getBackendName() const override { return kBackendName; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }

  // ---- Collectives (collectives.cpp, lists.cpp)
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  // ---- Messages (point_to_point.cpp)
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // ---- The group (backend.cpp, monitored_barrier.cpp)
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
  void setSequenceNumberForGroup() override {}  // they begin with 0 on all ranks
  uint64_t getSequenceNumberForGroup() override { return sequence_number_.load(std::memory_order_relaxed); }
  // One Work for what the calling thread starts in between; given up when one of these calls throws.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  c10d::ErrorType getError() override;
  void abort() override { communicator_->abort(); }
  // Waits for this rank's calls, then for the other ranks to shut down as well.
  void shutdown() override { communicator_->close(); }

  // ---- Memory that ranks of a host reach directly, for programs that ask for it
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }  // of the CPU
  at::Tensor allocateTensor(long size, at::TensorOptions options) override { return pool_->empty({size}, options); }

  // ---- For Launch
  const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  std::chrono::milliseconds timeout() const { return options_->timeout; }
  uint64_t next_sequence_number() { return sequence_number_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void launched(const WorkPtr& work);
  // Puts a call on a stream; while the calling thread coalesces, endCoalescing() does.
  void put(const c10::intrusive_ptr<DeviceWork>& work, const c10::Stream& stream);
  DeviceStreams& streams() { return streams_; }
  void stop_coalescing() { take_coalesced(); }

 private:
  WorkPtr receive(Tensors& tensors, int source, int tag, bool is_any);
  // Whether it belongs to calls that the thread coalesces.
  bool coalesce(const WorkPtr& work);
  // The calling thread's.
  std::optional<std::vector<WorkPtr>> take_coalesced();
  void put_together(const std::vector<WorkPtr>& works);

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<TuttiOptions> options_;
  const std::shared_ptr<Communicator> communicator_;  // shared with the calls that were not waited for
  const std::shared_ptr<Pool> pool_ = Pool::create();  // shared with the tensors from it
  DeviceStreams streams_;
  std::atomic<uint64_t> sequence_number_{0};
  std::atomic<uint64_t> monitored_barriers_{0};
  std::atomic<size_t> coalescing_{0};  // how many threads do
  std::mutex coalescing_mutex_;        // guards what follows
  std::map<std::thread::id, std::vector<WorkPtr>> coalesced_;
};

}  // namespace tutti_torch
