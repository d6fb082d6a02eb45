// No call of tutti's changes which device and context are the calling thread's, nor how its captures are.
#include <catch2/catch.hpp>

#include <barrier>
#include <functional>
#include <thread>

#include "cuda/jobs.h"
#include "tutti/tutti_topology.h"

namespace tutti::test {
namespace {

// What the driver keeps for a thread.
struct State {
  CUcontext current = nullptr;
  int contexts = 0;      // beneath it on the thread's stack, too
  int capture_mode = 0;
  friend bool operator==(const State&, const State&) = default;
};
State state() {
  State now;
  must(Gpu::driver().cuCtxGetCurrent(&now.current));
  Gpu::driver().fake_thread_state(&now.contexts, &now.capture_mode);
  return now;
}

// Makes calls, and says which have changed something, or failed.
class Kept {
 public:
  void operator()(const std::string& name, const std::function<tutti_status_t()>& call) {
    State before = state();
    tutti_status_t status = call();
    if (state() != before) wrong_ += name + " changed the thread's state; ";
    if (status != TUTTI_SUCCESS) wrong_ += name + ": " + tutti_status_text(status) + "; ";
  }
  std::string wrong() const { return wrong_; }

 private:
  std::string wrong_;
};

struct Rank {
  tutti_comm_t* comm = nullptr;
  int rank = 0;
  int nranks = 0;
  Kept kept;
};

constexpr size_t kCount = 100;
constexpr int kRoot = 1;
constexpr tutti_datatype_t kType = TUTTI_INT32;

void make_collectives(Rank& of, const std::string& where, const void* in, void* out, tutti_stream_t stream) {
  tutti_comm_t* comm = of.comm;
  std::vector<uint64_t> counts(static_cast<size_t>(of.nranks), kCount);
  auto make = [&](const char* name, const std::function<tutti_status_t()>& call) { of.kept(where + name, call); };
  make("all_reduce", [&] { return tutti_all_reduce(in, out, kCount, kType, TUTTI_SUM, comm, stream); });
  make("reduce", [&] { return tutti_reduce(in, out, kCount, kType, TUTTI_SUM, kRoot, comm, stream); });
  make("broadcast", [&] { return tutti_broadcast(in, out, kCount, kType, kRoot, comm, stream); });
  make("all_gather", [&] { return tutti_all_gather(in, out, kCount, kType, comm, stream); });
  make("reduce_scatter", [&] { return tutti_reduce_scatter(in, out, kCount, kType, TUTTI_SUM, comm, stream); });
  make("all_to_all", [&] { return tutti_all_to_all(in, out, kCount, kType, comm, stream); });
  make("gather", [&] { return tutti_gather(in, out, kCount, kType, kRoot, comm, stream); });
  make("scatter", [&] { return tutti_scatter(in, out, kCount, kType, kRoot, comm, stream); });
  make("barrier", [&] { return tutti_barrier(comm, stream); });
  make("all_gather_v",
       [&] { return tutti_all_gather_v(in, kCount, out, counts.data(), nullptr, kType, comm, stream); });
  make("reduce_scatter_v",
       [&] { return tutti_reduce_scatter_v(in, out, counts.data(), kType, TUTTI_SUM, comm, stream); });
  make("all_to_all_v", [&] {
    return tutti_all_to_all_v(in, counts.data(), nullptr, out, counts.data(), nullptr, kType, comm, stream);
  });
  make("gather_v",
       [&] { return tutti_gather_v(in, kCount, out, counts.data(), nullptr, kType, kRoot, comm, stream); });
  make("scatter_v",
       [&] { return tutti_scatter_v(in, counts.data(), nullptr, out, kCount, kType, kRoot, comm, stream); });
  int next = (of.rank + 1) % of.nranks, last = (of.rank + of.nranks - 1) % of.nranks;
  make("send_recv", [&] {
    return tutti_send_recv(in, kCount, next, 0, out, kCount, last, 0, kType, comm, stream, nullptr);
  });
  make("group_begin", [] { return tutti_group_begin(); });
  make("send", [&] { return tutti_send(in, kCount, kType, next, 1, comm, stream); });
  make("recv", [&] { return tutti_recv(out, kCount, kType, last, 1, comm, stream, nullptr); });
  make("all_reduce in a group", [&] { return tutti_all_reduce(in, out, kCount, kType, TUTTI_MAX, comm, stream); });
  make("group_end", [] { return tutti_group_end(); });
}

void make_requests(Rank& of, const void* in, void* out) {
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.collective = TUTTI_ALL_REDUCE;
  call.datatype = kType;
  call.send_buffer = in;
  call.recv_buffer = out;
  call.count = kCount;
  tutti_request_t* request = nullptr;
  tutti_prepared_t* prepared = nullptr;
  of.kept("start", [&] { return tutti_start(of.comm, &call, &request); });
  of.kept("wait", [&] { return tutti_wait(&request); });
  of.kept("prepare", [&] { return tutti_prepare(of.comm, &call, &prepared); });
  of.kept("start_prepared", [&] { return tutti_start_prepared(prepared, &request); });
  of.kept("test", [&] {
    int done = 0;
    while (done == 0) {
      if (tutti_status_t status = tutti_test(&request, &done); status != TUTTI_SUCCESS) return status;
    }
    return TUTTI_SUCCESS;
  });
  of.kept("prepared_destroy", [&] { return tutti_prepared_destroy(prepared); });
}

void make_other_calls(Rank& of, const OnGpu<int32_t>& on_device, tutti_stream_t stream) {
  void* handle = nullptr;
  void* memory = nullptr;
  of.kept("register", [&] { return tutti_comm_register(of.comm, on_device.data(), on_device.bytes(), &handle); });
  of.kept("deregister", [&] { return tutti_comm_deregister(of.comm, handle); });
  of.kept("mem_alloc", [&] { return tutti_mem_alloc(&memory, 1 << 16); });
  of.kept("mem_free", [&] { return tutti_mem_free(memory); });
  tutti_call_t call{};
  call.struct_size = sizeof call;
  call.datatype = kType;
  call.send_buffer = call.recv_buffer = on_device.data();
  call.count = kCount;
  call.stream = stream;
  tutti_plan_info_t info{};
  info.struct_size = sizeof info;
  of.kept("plan_info", [&] { return tutti_comm_plan_info(of.comm, &call, &info); });
  tutti_comm_memory_t takes{};
  takes.struct_size = sizeof takes;
  of.kept("memory", [&] { return tutti_comm_memory(of.comm, &takes); });
  of.kept("status", [&] { return tutti_comm_status(of.comm); });
  tutti_comm_t* twin = nullptr;
  of.kept("dup", [&] { return tutti_comm_dup(of.comm, &twin, nullptr); });
  of.kept("all_reduce of a twin", [&] {
    return tutti_all_reduce(on_device.data(), on_device.data(), kCount, kType, TUTTI_SUM, twin, stream);
  });
  must(Gpu::driver().cuStreamSynchronize(static_cast<CUstream>(stream)));
  of.kept("destroy of a twin", [&] { return tutti_comm_destroy(twin); });
}

void make_captured_call(Rank& of, const OnGpu<int32_t>& in, const Stream& stream) {
  const Gpu& gpu = Gpu::driver();
  CUgraph graph = nullptr;
  must(gpu.cuStreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  of.kept("captured all_reduce", [&] {
    return tutti_all_reduce(in.data(), in.data(), kCount, kType, TUTTI_SUM, of.comm, stream.get());
  });
  must(gpu.cuStreamEndCapture(stream.get(), &graph));
  must(gpu.cuGraphDestroy(graph));
}

// Which device is the calling thread's.
enum class Which { kOwn, kOther, kNone };
void make_current(Which which, int own) {
  const Gpu& gpu = Gpu::driver();
  if (which == Which::kNone) return must(gpu.cuCtxSetCurrent(nullptr));
  gpu.use(which == Which::kOwn ? own : own + 1);
}

struct How {
  Which at_join = Which::kOwn;
  Which later = Which::kOwn;
  bool aborts = false;
};

std::string run_rank(Rank& of, const tutti_unique_id_t& id, int device, const How& how, std::barrier<>& all_called) {
  tutti_config_t* config = nullptr;
  tutti_config_create(&config);
  for (const auto& [name, value] : gpu_options({{"calibration", "off"}, {"timeout_ms", "20000"}})) {
    tutti_config_set(config, name.c_str(), value.c_str());
  }
  std::string failure;
  make_current(Which::kOwn, device);
  {
    OnGpu<int32_t> in(kCount * 4), out(kCount * 4);
    OnGpu<int32_t> host_in(kCount * 4, Where::kHost), host_out(kCount * 4, Where::kHost);
    Stream stream;
    make_current(how.at_join, device);
    of.kept("init", [&] { return tutti_comm_init_rank_config(&of.comm, of.nranks, &id, of.rank, config); });
    make_current(how.later, device);
    make_collectives(of, "", in.data(), out.data(), stream.get());
    make_collectives(of, "the host's ", host_in.data(), host_out.data(), nullptr);
    make_requests(of, host_in.data(), host_out.data());
    make_other_calls(of, in, stream.get());
    must(stream.synchronize());
    make_captured_call(of, in, stream);
    of.kept("barrier after all", [&] { return tutti_barrier(of.comm, nullptr); });
    all_called.arrive_and_wait();
    if (how.aborts) of.kept("abort", [&] { return tutti_comm_abort(of.comm); });
    if (!how.aborts) of.kept("finalize", [&] { return tutti_comm_finalize(of.comm); });
    State before = state();
    failure = tutti_last_error(of.comm);
    (void)tutti_comm_destroy(of.comm);
    if (state() != before) failure += "destroy changed the thread's state";
    make_current(Which::kOwn, device);
  }
  tutti_config_destroy(config);
  return of.kept.wrong() + (how.aborts ? "" : failure);
}

TEST_CASE("no call changes the calling thread's device, contexts or captures") {
  constexpr int kRanks = 2;
  if (Gpu::driver().fake_thread_state == nullptr) return;
  for (int step : {0, 1}) {
    for (Which at_join : {Which::kOwn, Which::kNone}) {
      for (Which later : {Which::kOwn, Which::kOther, Which::kNone}) {
        How how{.at_join = at_join, .later = later, .aborts = later == Which::kOther};
        std::barrier all_called(kRanks);
        INFO("step " << step << ", at join " << static_cast<int>(at_join) << ", later " << static_cast<int>(later));
        tutti_unique_id_t id;
        REQUIRE(tutti_get_unique_id(&id) == TUTTI_SUCCESS);
        std::vector<std::string> wrong(kRanks);
        std::vector<std::thread> threads;
        for (int rank = 0; rank < kRanks; ++rank) {
          threads.emplace_back([&, rank] {
            Rank of{.rank = rank, .nranks = kRanks};
            wrong[static_cast<size_t>(rank)] = run_rank(of, id, rank * step, how, all_called);
          });
        }
        for (std::thread& each : threads) each.join();
        for (const std::string& each : wrong) CHECK(each == "");
      }
    }
  }
}

}  // namespace
}  // namespace tutti::test
