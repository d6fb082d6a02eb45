// The C entry points of calls that do not block, and of their requests.
#include <algorithm>
#include <span>

#include "core/api_call.h"
#include "core/group.h"
#include "base/guard.h"
#include "core/handles.h"
#include "core/process_context.h"

namespace tutti {
namespace {

// Takes a finished request, which is freed unless it is a prepared call's, and gives its result.
tutti_status_t take_result(tutti_request_t** request) {
  tutti_request& taken = *std::exchange(*request, nullptr);
  std::unique_ptr<tutti_request> owned(taken.owner == nullptr ? &taken : nullptr);
  if (taken.owner != nullptr) taken.owner->started = false;
  if (taken.handle == nullptr) return report(taken.result);  // its communicator is destroyed
  taken.handle->remove(taken);
  return taken.handle->keep(taken.result);
}

// Whether the request is complete, after a little progress.
bool test(tutti_request_t& request) {
  return request.communicator == nullptr || request.communicator->test(request);
}

// The group's calls come later: this one would overtake those before it.
Status refuse_in_group(std::string_view function) {
  if (!Group::of_thread().is_open()) return {};
  return error(Code::kInvalidUsage, "{}: in a group calls are made by name, and start at its end", function);
}

bool is_parents(const tutti_request_t& request) { return request.handle != nullptr && request.handle->is_parents(); }

bool is_done(const tutti_request_t& request) { return request.done.load(std::memory_order_acquire); }

// The first that is complete, requests.size() when none is.
template <typename IsDone>
size_t first_done(std::span<tutti_request_t* const> requests, IsDone&& is_complete) {
  auto found = std::find_if(requests.begin(), requests.end(),
                            [&](tutti_request_t* request) { return request != nullptr && is_complete(*request); });
  return static_cast<size_t>(found - requests.begin());
}

// Blocks until the first requests are complete, as far as they are of one communicator. How many those are; one that
// cannot be waited for counts.
size_t wait_for_first(std::span<tutti_request_t* const> requests) {
  bool can_wait = requests[0] != nullptr && !is_parents(*requests[0]);
  Communicator* communicator = can_wait ? requests[0]->communicator : nullptr;
  if (communicator == nullptr) return 1;
  auto end = std::find_if(requests.begin(), requests.end(), [&](const tutti_request_t* request) {
    return request == nullptr || request->communicator != communicator;
  });
  auto alike = requests.first(static_cast<size_t>(end - requests.begin()));
  communicator->wait(alike);
  return alike.size();
}

// Blocks until one is complete; at least one is no null pointer.
Result<size_t> wait_for_any(std::span<tutti_request_t* const> requests) {
  auto context = TUTTI_TRY(ProcessContext::shared());
  Waiter waiter({.spin_ns = 0, .yield_ns = 50'000});
  for (;;) {
    size_t found = first_done(requests, test);
    // Those before it may have completed after they were looked at: those of its communicator did so before it.
    if (found < requests.size()) return first_done(requests.first(found), is_done);
    if (waiter.idle()) context->completions.wait([&] { return first_done(requests, is_done) < requests.size(); });
  }
}

}  // namespace
}  // namespace tutti

using namespace tutti;

extern "C" {

tutti_status_t tutti_start(tutti_comm_t* comm, const tutti_call_t* call, tutti_request_t** request) {
  return with_communicator(comm, "tutti_start", [&]() -> Status {
    if (request == nullptr) return null_argument("tutti_start", "request");
    *request = nullptr;
    TUTTI_TRY(refuse_in_group("tutti_start"));
    auto owned = std::make_unique<tutti_request>();
    owned->arguments = TUTTI_TRY(arguments_of(call, "tutti_start"));
    TUTTI_TRY(check_host_buffers(*comm, "tutti_start", owned->arguments));
    TUTTI_TRY(comm->communicator->start(*owned));
    comm->add(*owned);
    *request = owned.release();
    comm->communicator->progress_alone();
    return {};
  });
}

tutti_status_t tutti_prepare(tutti_comm_t* comm, const tutti_call_t* call, tutti_prepared_t** prepared) {
  return with_communicator(comm, "tutti_prepare", [&]() -> Status {
    if (prepared == nullptr) return null_argument("tutti_prepare", "prepared");
    *prepared = nullptr;
    auto owned = std::make_unique<tutti_prepared>();
    owned->comm = comm;
    owned->request.owner = owned.get();
    owned->request.arguments = TUTTI_TRY(arguments_of(call, "tutti_prepare"));
    TUTTI_TRY(check_host_buffers(*comm, "tutti_prepare", owned->request.arguments));
    TUTTI_TRY(comm->communicator->prepare(owned->request));
    *prepared = owned.release();
    return {};
  });
}

tutti_status_t tutti_start_prepared(tutti_prepared_t* prepared, tutti_request_t** request) {
  if (prepared == nullptr) return report(null_argument("tutti_start_prepared", "prepared"));
  return with_communicator(prepared->comm, "tutti_start_prepared", [&]() -> Status {
    if (request == nullptr) return null_argument("tutti_start_prepared", "request");
    *request = nullptr;
    TUTTI_TRY(refuse_in_group("tutti_start_prepared"));
    if (prepared->started) {
      return error(Code::kInvalidUsage, "tutti_start_prepared: the call is started; wait for its request first");
    }
    Communicator& communicator = *prepared->comm->communicator;
    TUTTI_TRY(communicator.start_prepared(prepared->request));
    prepared->started = true;
    prepared->comm->add(prepared->request);
    *request = &prepared->request;
    communicator.progress_alone();
    return {};
  });
}

tutti_status_t tutti_prepared_destroy(tutti_prepared_t* prepared) {
  if (prepared != nullptr && prepared->started) {
    return report(guarded([] {
      return error(Code::kInvalidUsage, "tutti_prepared_destroy: the call is started; wait for its request first");
    }));
  }
  delete prepared;
  return TUTTI_SUCCESS;
}

tutti_status_t tutti_wait(tutti_request_t** request) {
  if (request == nullptr || *request == nullptr) return report(null_argument("tutti_wait", "request"));
  if (is_parents(**request)) return report(refuse_after_fork("tutti_wait"));
  if ((*request)->communicator != nullptr) (*request)->communicator->wait(**request);
  return take_result(request);
}

tutti_status_t tutti_test(tutti_request_t** request, int* done) {
  if (request == nullptr || *request == nullptr) return report(null_argument("tutti_test", "request"));
  if (done == nullptr) return report(null_argument("tutti_test", "done"));
  if (is_parents(**request)) return report(refuse_after_fork("tutti_test"));
  *done = tutti::test(**request) ? 1 : 0;
  return *done != 0 ? take_result(request) : TUTTI_SUCCESS;
}

tutti_status_t tutti_wait_all(size_t count, tutti_request_t** requests) {
  if (requests == nullptr && count > 0) return report(null_argument("tutti_wait_all", "requests"));
  for (size_t i = 0; i < count;) i += wait_for_first({requests + i, count - i});
  tutti_status_t first = TUTTI_SUCCESS;
  for (size_t i = 0; i < count; ++i) {
    if (requests[i] == nullptr) continue;
    tutti_status_t status = tutti_wait(&requests[i]);
    if (first == TUTTI_SUCCESS) first = status;
  }
  return first;
}

tutti_status_t tutti_wait_any(size_t count, tutti_request_t** requests, size_t* index) {
  if (requests == nullptr && count > 0) return report(null_argument("tutti_wait_any", "requests"));
  if (index == nullptr) return report(null_argument("tutti_wait_any", "index"));
  *index = count;
  bool after_fork = std::any_of(requests, requests + count, [](auto* each) { return each && is_parents(*each); });
  if (after_fork) return report(refuse_after_fork("tutti_wait_any"));
  if (std::all_of(requests, requests + count, [](auto* request) { return request == nullptr; })) return TUTTI_SUCCESS;
  Status waited = guarded([&]() -> Status {
    *index = TUTTI_TRY(wait_for_any({requests, count}));
    return {};
  });
  return waited.ok() ? take_result(&requests[*index]) : report(waited);
}

}  // extern "C"
