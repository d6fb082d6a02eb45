#include "backend.h"

#include <algorithm>

#include <pybind11/pybind11.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "work.h"

namespace tutti_torch {

TuttiBackend::TuttiBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                           c10::intrusive_ptr<TuttiOptions> options)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      communicator_(Communicator::create(*store_, rank, size, options_->timeout, options_->settings)) {
  init();
}

// Python may let go of it while it holds its lock, which what is under way may need.
TuttiBackend::~TuttiBackend() {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    pybind11::gil_scoped_release released;
    communicator_->drop();
  } else {
    communicator_->drop();
  }
}

void TuttiBackend::startCoalescing() {
  take_coalesced();  // what a failure between the calls left open
  std::lock_guard lock(coalescing_mutex_);
  coalesced_.try_emplace(std::this_thread::get_id());
  coalescing_.store(coalesced_.size(), std::memory_order_relaxed);
}

TuttiBackend::WorkPtr TuttiBackend::endCoalescing() {
  std::optional<std::vector<WorkPtr>> works = take_coalesced();
  TORCH_CHECK(works.has_value(), "tutti: endCoalescing without startCoalescing");
  put_together(*works);
  if (works->size() == 1) return works->front();
  return c10::make_intrusive<CoalescedWork>(rank_, std::move(*works));
}

// A thread that coalesces has seen its own count.
bool TuttiBackend::coalesce(const WorkPtr& work) {
  if (coalescing_.load(std::memory_order_relaxed) == 0) return false;
  std::lock_guard lock(coalescing_mutex_);
  auto found = coalesced_.find(std::this_thread::get_id());
  if (found == coalesced_.end()) return false;
  found->second.push_back(work);
  return true;
}

void TuttiBackend::launched(const WorkPtr& work) { coalesce(work); }

void TuttiBackend::put(const c10::intrusive_ptr<DeviceWork>& work, const c10::Stream& stream) {
  if (coalesce(work)) return;
  DeviceCall::put({&work->call(), 1}, stream);
  work->has_been_put();
}

// Those of one stream are started together.
void TuttiBackend::put_together(const std::vector<WorkPtr>& works) {
  using Use = DeviceStreams::Use;
  std::map<std::pair<c10::DeviceIndex, Use>, std::vector<std::shared_ptr<DeviceCall>>> by_stream;
  std::vector<DeviceWork*> put;
  for (const WorkPtr& work : works) {
    auto* on_device = dynamic_cast<DeviceWork*>(work.get());
    if (on_device == nullptr) continue;
    const auto& call = on_device->call();
    by_stream[{call->device().index(), call->sends() ? Use::kSends : Use::kCollectives}].push_back(call);
    put.push_back(on_device);
  }
  for (const auto& [where, calls] : by_stream) {
    DeviceCall::put(calls, streams_.get(calls.front()->device(), where.second));
  }
  for (DeviceWork* work : put) work->has_been_put();
}

std::optional<std::vector<TuttiBackend::WorkPtr>> TuttiBackend::take_coalesced() {
  if (coalescing_.load(std::memory_order_relaxed) == 0) return std::nullopt;
  std::lock_guard lock(coalescing_mutex_);
  auto taken = coalesced_.extract(std::this_thread::get_id());
  coalescing_.store(coalesced_.size(), std::memory_order_relaxed);
  if (taken.empty()) return std::nullopt;
  return std::move(taken.mapped());
}

// `store` is shared by all groups that are split off: the ranks tell them apart.
c10::intrusive_ptr<c10d::Backend> TuttiBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) return nullptr;
  auto* given = dynamic_cast<TuttiOptions*>(options.get());
  auto chosen = c10::make_intrusive<TuttiOptions>(options ? options->timeout : options_->timeout,
                                                  given != nullptr ? given->settings : options_->settings);
  std::string name = "ranks";
  for (int rank : ranks) name += c10::str("_", rank);
  return c10::make_intrusive<TuttiBackend>(c10::make_intrusive<c10d::PrefixStore>(name, store),
                                           static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size()),
                                           std::move(chosen));
}

c10d::ErrorType TuttiBackend::getError() {
  switch (communicator_->status()) {
    case TUTTI_SUCCESS: return c10d::ErrorType::SUCCESS;
    case TUTTI_TIMEOUT: return c10d::ErrorType::TIMEOUT;
    case TUTTI_REMOTE_ERROR: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

}  // namespace tutti_torch
