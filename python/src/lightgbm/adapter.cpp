// The two functions that LGBM_NetworkInitWithFunctions() takes, on a tutti communicator. LightGBM's network belongs to a
// thread, and so does the communicator that it uses. What fails is thrown: LightGBM's C API catches std::exception and
// returns its text, as it does with what its own sockets throw.
#include <tutti/tutti.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// Combines `size_bytes` of elements of `element_bytes` each: in_out[i] = in[i] op in_out[i].
using Reducer = void (*)(const char* in, char* in_out, int element_bytes, int32_t size_bytes);

struct Network {
  tutti_comm_t* comm = nullptr;
  int rank = 0;
  std::vector<char> blocks;  // this rank's block, from every rank
};

Network& network() {
  thread_local Network of_this_thread;
  return of_this_thread;
}

void check(tutti_status_t status, const Network& at) {
  if (status != TUTTI_SUCCESS) throw std::runtime_error(std::string("tutti: ") + tutti_last_error(at.comm));
}

std::vector<uint64_t> widened(const int32_t* values, int count) { return {values, values + count}; }

}  // namespace

#define TUTTI_LIGHTGBM_API extern "C" __attribute__((visibility("default")))

// Calls of this thread use `comm` from now on; NULL: none. It must live as long.
TUTTI_LIGHTGBM_API tutti_status_t tutti_lightgbm_use(tutti_comm_t* comm) {
  network() = {.comm = comm};
  return comm == nullptr ? TUTTI_SUCCESS : tutti_comm_rank(comm, &network().rank);
}

// Block r of every rank's `input` is combined on rank r. What is combined may be structures, which no block of a
// tutti_reduce_function_t may cut: so the blocks come whole, and are combined here, in the order of their ranks.
TUTTI_LIGHTGBM_API void tutti_lightgbm_reduce_scatter(char* input, int32_t, int element_bytes, const int32_t* starts,
                                                      const int32_t* sizes, int nblocks, char* output, int32_t,
                                                      const Reducer& reduce) {
  Network& at = network();
  const auto own = static_cast<uint64_t>(sizes[at.rank]);
  at.blocks.resize(own * static_cast<uint64_t>(nblocks));
  const std::vector<uint64_t> send_counts = widened(sizes, nblocks);
  const std::vector<uint64_t> send_displacements = widened(starts, nblocks);
  const std::vector<uint64_t> recv_counts(static_cast<size_t>(nblocks), own);
  check(tutti_all_to_all_v(input, send_counts.data(), send_displacements.data(), at.blocks.data(), recv_counts.data(),
                           nullptr, TUTTI_UINT8, at.comm, nullptr),
        at);
  std::memcpy(output, at.blocks.data(), own);
  for (int rank = 1; rank < nblocks && own > 0; ++rank) {
    reduce(at.blocks.data() + own * static_cast<uint64_t>(rank), output, element_bytes, sizes[at.rank]);
  }
}

// Every rank gets the blocks of all. LightGBM hands over an input that lies somewhere in the output.
TUTTI_LIGHTGBM_API void tutti_lightgbm_all_gather(char* input, int32_t size, const int32_t* starts,
                                                  const int32_t* sizes, int nblocks, char* output, int32_t) {
  Network& at = network();
  char* const own = output + starts[at.rank];
  std::memmove(own, input, static_cast<size_t>(size));
  const std::vector<uint64_t> counts = widened(sizes, nblocks);
  const std::vector<uint64_t> displacements = widened(starts, nblocks);
  check(tutti_all_gather_v(own, static_cast<uint64_t>(size), output, counts.data(), displacements.data(), TUTTI_UINT8,
                           at.comm, nullptr),
        at);
}
