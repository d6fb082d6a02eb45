// One rank of a job whose ranks are processes, on one GPU or, with "each", on one of its own. Says what is wrong, and
// ends with 1.
//   processes sums [each]    collectives on memory that comes and goes
//   processes killed [each]  rank 1 dies with a call under way: the others hear of it, and their streams go on
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/gpu.h"
#include "tutti/tutti.h"

namespace tutti::test {
namespace {

struct Job {
  tutti_comm_t* comm = nullptr;
  int rank = 0;
  int nranks = 0;
  bool on_one_gpu = true;
};

int wrong(const Job& job, const std::string& what) {
  std::fprintf(stderr, "rank %d: %s\n", job.rank, what.c_str());
  return 1;
}

std::string check(const Job& job, const Stream& stream, size_t count) {
  auto n = static_cast<size_t>(job.nranks);
  // Allocated anew each time, mostly at the addresses of the last time.
  OnGpu<int32_t> in(count * n), out(count * n), sum(count * n), block(count);
  for (size_t i = 0; i < in.host.size(); ++i) in.host[i] = static_cast<int32_t>(i * 7 + job.rank);
  in.upload();
  tutti_all_reduce(in.data(), sum.data(), count * n, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  tutti_all_to_all(in.data(), out.data(), count, TUTTI_INT32, job.comm, stream.get());
  tutti_reduce_scatter(in.data(), block.data(), count, TUTTI_INT32, TUTTI_MAX, job.comm, stream.get());
  if (stream.synchronize() != CUDA_SUCCESS || tutti_comm_status(job.comm) != TUTTI_SUCCESS) {
    return tutti_last_error(job.comm);
  }
  sum.download();
  out.download();
  block.download();
  for (size_t i = 0; i < in.host.size(); ++i) {
    auto base = static_cast<int32_t>(i * 7);
    if (sum.host[i] != base * job.nranks + job.nranks * (job.nranks - 1) / 2) return "another sum";
    size_t from = i / count, at = static_cast<size_t>(job.rank) * count + i % count;
    if (out.host[i] != static_cast<int32_t>(at * 7 + from)) return "other blocks";
    if (i < count && block.host[i] != static_cast<int32_t>(at * 7) + job.nranks - 1) return "another maximum";
  }
  return "";
}

int run_sums(const Job& job) {
  const Gpu& gpu = Gpu::driver();
  Stream stream;
  int calls = 0;
  for (size_t count : {1, 5, 1000, 40'000, 1000, 40'000, 3}) {
    std::string what = check(job, stream, count);
    if (!what.empty()) return wrong(job, std::to_string(count) + " elements: " + what);
    calls += 3;
  }
  int32_t launches = gpu.fake_calls("cuLaunchKernel"), all = 0;
  if (gpu.fake_calls("cuLaunchHostFunc") != 0) return wrong(job, "calls went through the host");
  tutti_all_reduce(&launches, &all, 1, TUTTI_INT32, TUTTI_SUM, job.comm, nullptr);
  if (!job.on_one_gpu) calls *= job.nranks;
  if (all != calls) return wrong(job, std::to_string(all) + " launches for " + std::to_string(calls) + " calls");
  // What was opened of other processes is closed when its place has something else, and at the end.
  return tutti_comm_finalize(job.comm) == TUTTI_SUCCESS ? 0 : wrong(job, tutti_last_error(job.comm));
}

int run_killed(const Job& job) {
  ::signal(SIGTERM, SIG_IGN);  // the launcher ends the others, which have something to say first
  Stream stream;
  OnGpu<int32_t> in(1000), out(1000);
  tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  (void)stream.synchronize();
  if (job.rank == 1 && job.on_one_gpu) ::kill(::getpid(), SIGKILL);
  // Else the others are in their kernels then, which wait for this one's.
  if (job.rank == 1) Gpu::driver().fake_hold_kernels(1);
  tutti_all_reduce(in.data(), out.data(), 1000, TUTTI_INT32, TUTTI_SUM, job.comm, stream.get());
  if (job.rank == 1) {
    ::usleep(100'000);
    ::kill(::getpid(), SIGKILL);
  }
  (void)stream.synchronize();
  for (int i = 0; i < 2000 && tutti_comm_status(job.comm) == TUTTI_SUCCESS; ++i) ::usleep(5000);
  std::string why = tutti_last_error(job.comm);
  if (why.find("rank 1") == std::string::npos) return wrong(job, "unexpected: " + why);
  std::printf("rank %d has heard\n", job.rank);
  return 0;
}

int run(const std::string& what, bool on_one_gpu) {
  const char* rank = std::getenv("TUTTI_RANK");
  Gpu::driver().use(on_one_gpu || rank == nullptr ? 0 : std::atoi(rank));
  Job job{.on_one_gpu = on_one_gpu};
  if (tutti_comm_init_from_environment(&job.comm, nullptr) != TUTTI_SUCCESS) {
    return wrong(job, tutti_last_error(nullptr));
  }
  tutti_comm_rank(job.comm, &job.rank);
  tutti_comm_size(job.comm, &job.nranks);
  int result = what == "killed" ? run_killed(job) : run_sums(job);
  tutti_comm_destroy(job.comm);
  return result;
}

}  // namespace
}  // namespace tutti::test

int main(int argc, char** argv) {
  bool on_one_gpu = argc < 3 || std::string(argv[2]) != "each";
  return tutti::test::run(argc > 1 ? argv[1] : "sums", on_one_gpu);
}
