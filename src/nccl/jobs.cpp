#include "nccl/jobs.h"

#include <algorithm>
#include <thread>

#include "nccl/background.h"
#include "nccl/handles.h"
#include "nccl/report.h"

namespace tutti::nccl {
namespace {

ncclResult_t make(const Job& job) {
  Gpu::Current current(job.made->place().gpu, job.made->place().context);
  tutti_comm_t* comm = nullptr;
  TUTTI_NCCL_TRY(job.make(&comm));
  if (comm == nullptr) return ncclSuccess;  // of no color
  return job.made->adopt(job.function, comm);
}

void end(const Job& job, ncclResult_t result) {
  if (result != ncclSuccess && job.handle != nullptr && job.made->settings().is_blocking) {
    Handles::of_process().remove(*job.handle);
    *job.handle = nullptr;
    job.made->family().withdraw();
  }
  if (job.parent) job.parent->end_step(ncclSuccess);
  job.made->end_step(result);
}

ncclResult_t run(const Job& job) {
  ncclResult_t result = guarded(job.function, [&] { return make(job); });
  end(job, result);
  return result;
}

// Jobs of one parent, in the order of their calls.
using Chain = std::vector<Job>;

std::vector<Chain> chains_of(std::vector<Job> jobs) {
  std::vector<Chain> chains;
  for (Job& job : jobs) {
    auto same = std::find_if(chains.begin(), chains.end(), [&](const Chain& chain) {
      return job.parent != nullptr && chain.front().parent == job.parent;
    });
    if (same == chains.end()) same = chains.insert(chains.end(), Chain());
    same->push_back(std::move(job));
  }
  return chains;
}

bool is_blocking(const Chain& chain) {
  return std::any_of(chain.begin(), chain.end(), [](const Job& job) { return job.made->settings().is_blocking; });
}

ncclResult_t run(const Chain& chain) {
  ncclResult_t first = ncclSuccess;
  for (const Job& job : chain) {
    ncclResult_t result = run(job);
    if (first == ncclSuccess) first = result;
  }
  return first;
}

}  // namespace

void drop_jobs(std::vector<Job> jobs, ncclResult_t why) {
  for (const Job& job : jobs) end(job, why);
}

ncclResult_t run_jobs(std::vector<Job> jobs) {
  std::vector<Chain> chains = chains_of(std::move(jobs));
  auto behind = std::partition(chains.begin(), chains.end(), is_blocking);
  bool is_left = behind != chains.end();
  for (auto chain = behind; chain != chains.end(); ++chain) {
    run_in_background([chain = std::move(*chain)] { run(chain); });
  }
  chains.erase(behind, chains.end());
  std::vector<ncclResult_t> results(chains.size(), ncclSuccess);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < chains.size(); ++i) {
    threads.push_back(start_thread([&chain = chains[i], &result = results[i]] { result = run(chain); }));
  }
  if (!chains.empty()) results.front() = run(chains.front());
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  for (ncclResult_t result : results) TUTTI_NCCL_TRY(result);
  return is_left ? ncclInProgress : ncclSuccess;
}

}  // namespace tutti::nccl
