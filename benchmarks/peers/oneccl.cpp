// oneCCL on CPUs, over libfabric. Arguments before run_loop()'s: rank, size, and an empty folder in which the ranks
// meet.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <oneapi/ccl.hpp>
#include <string>
#include <thread>

#include "loop.h"

namespace {

const ccl::communicator& comm_of(const peer* peer) { return *static_cast<ccl::communicator*>(peer->state); }

void all_reduce(const peer* peer, const float* in, float* out, size_t count) {
  ccl::allreduce(in, out, count, ccl::reduction::sum, comm_of(peer)).wait();
}

void reduce_scatter(const peer* peer, const float* in, float* out, size_t count) {
  ccl::reduce_scatter(in, out, count, ccl::reduction::sum, comm_of(peer)).wait();
}

void all_gather(const peer* peer, const float* in, float* out, size_t count) {
  ccl::allgather(in, out, count, comm_of(peer)).wait();
}

void broadcast(const peer* peer, const float* in, float* out, size_t count) {
  ccl::broadcast(peer->rank == 0 ? const_cast<float*>(in) : out, count, 0, comm_of(peer)).wait();
}

void all_to_all(const peer* peer, const float* in, float* out, size_t count) {
  ccl::alltoall(in, out, count, comm_of(peer)).wait();
}

void send_recv(const peer* peer, const float* in, float* out, size_t count) {
  int other = 1 - peer->rank;
  auto send = [&] { ccl::send(const_cast<float*>(in), count, other, comm_of(peer)).wait(); };
  if (peer->rank == 0) send();
  ccl::recv(out, count, other, comm_of(peer)).wait();
  if (peer->rank == 1) send();
}

void fail(const std::exception& failure) {
  std::fprintf(stderr, "oneccl: %s\n", failure.what());
  std::exit(1);
}

// What the loop, which is C, may call.
template <peer_call* Call>
void without_exceptions(const peer* peer, const float* in, float* out, size_t count) try {
  Call(peer, in, out, count);
} catch (const std::exception& failure) {
  fail(failure);
}

// Rank 0's address reaches the others in a file.
ccl::shared_ptr_class<ccl::kvs> meet(int rank, const std::filesystem::path& folder) {
  const std::filesystem::path address_file = folder / "address";
  if (rank == 0) {
    auto store = ccl::create_main_kvs();
    ccl::kvs::address_type address = store->get_address();
    const std::filesystem::path unfinished = folder / "address.new";
    std::ofstream(unfinished, std::ios::binary).write(address.data(), address.size());
    std::filesystem::rename(unfinished, address_file);
    return store;
  }
  while (!std::filesystem::exists(address_file)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ccl::kvs::address_type address{};
  std::ifstream(address_file, std::ios::binary).read(address.data(), address.size());
  return ccl::create_kvs(address);
}

// Without a launcher of MPI's oneCCL has to be told who is who. The last three make it fastest where there are few
// cores: by default each rank has a thread more, which spins, and all goes over TCP. What the user has set stays.
void set_environment(const char* rank, const char* size) {
  setenv("CCL_PROCESS_LAUNCHER", "none", 0);
  setenv("CCL_ATL_TRANSPORT", "ofi", 0);
  setenv("CCL_LOCAL_RANK", rank, 0);
  setenv("CCL_LOCAL_SIZE", size, 0);
  setenv("CCL_ATL_SHM", "1", 0);
  setenv("CCL_WORKER_OFFLOAD", "0", 0);
  setenv("CCL_YIELD", "sched_yield", 0);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s RANK SIZE FOLDER COLLECTIVE SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  set_environment(argv[1], argv[2]);
  ccl::init();
  peer rank{};
  rank.rank = std::atoi(argv[1]);
  rank.size = std::atoi(argv[2]);
  auto store = meet(rank.rank, argv[3]);
  ccl::communicator comm = ccl::create_communicator(rank.size, rank.rank, store);
  rank.state = &comm;
  rank.calls[kAllReduce] = without_exceptions<all_reduce>;
  rank.calls[kReduceScatter] = without_exceptions<reduce_scatter>;
  rank.calls[kAllGather] = without_exceptions<all_gather>;
  rank.calls[kBroadcast] = without_exceptions<broadcast>;
  rank.calls[kAllToAll] = without_exceptions<all_to_all>;
  rank.calls[kSendRecv] = without_exceptions<send_recv>;
  return run_loop(&rank, argc - 3, argv + 3);
} catch (const std::exception& failure) {
  fail(failure);
}
