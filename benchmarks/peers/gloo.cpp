// Gloo over TCP on the loopback interface, as torch.distributed uses it. Arguments before run_loop()'s: rank, size, and
// an empty folder in which the ranks meet.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "loop.h"

namespace {

using Context = std::shared_ptr<gloo::Context>;

// Gloo's reduce_scatter works in place and leaves the result at the beginning, on a buffer that it keeps for all calls
// of one size.
struct ReduceScatter {
  ReduceScatter(const Context& context, size_t count)
      : values(count * context->size),
        counts(context->size, static_cast<int>(count)),
        algorithm(context, {values.data()}, static_cast<int>(values.size()), counts) {}

  std::vector<float> values;
  std::vector<int> counts;
  gloo::ReduceScatterHalvingDoubling<float> algorithm;
};

struct State {
  Context context;
  std::unique_ptr<ReduceScatter> reduce_scatter;
};

State& state_of(const peer* peer) { return *static_cast<State*>(peer->state); }

void sum(void* result, const void* a, const void* b, size_t count) { gloo::sum<float>(result, a, b, count); }

void all_reduce(const peer* peer, const float* in, float* out, size_t count) {
  gloo::AllreduceOptions options(state_of(peer).context);
  options.setInput(const_cast<float*>(in), count);
  options.setOutput(out, count);
  options.setReduceFunction(sum);
  gloo::allreduce(options);
}

void reduce_scatter(const peer* peer, const float* in, float* out, size_t count) {
  State& state = state_of(peer);
  size_t in_count = count * peer->size;
  if (!state.reduce_scatter || state.reduce_scatter->values.size() != in_count)
    state.reduce_scatter = std::make_unique<ReduceScatter>(state.context, count);
  std::vector<float>& values = state.reduce_scatter->values;
  std::copy_n(in, in_count, values.data());
  state.reduce_scatter->algorithm.run();
  std::copy_n(values.data(), count, out);
}

void all_gather(const peer* peer, const float* in, float* out, size_t count) {
  gloo::AllgatherOptions options(state_of(peer).context);
  options.setInput(const_cast<float*>(in), count);
  options.setOutput(out, count * peer->size);
  gloo::allgather(options);
}

void broadcast(const peer* peer, const float* in, float* out, size_t count) {
  gloo::BroadcastOptions options(state_of(peer).context);
  options.setOutput(peer->rank == 0 ? const_cast<float*>(in) : out, count);
  options.setRoot(0);
  gloo::broadcast(options);
}

void all_to_all(const peer* peer, const float* in, float* out, size_t count) {
  gloo::AlltoallOptions options(state_of(peer).context);
  options.setInput(const_cast<float*>(in), count * peer->size);
  options.setOutput(out, count * peer->size);
  gloo::alltoall(options);
}

void send_recv(const peer* peer, const float* in, float* out, size_t count) {
  constexpr uint64_t kSlot = 1;
  const Context& context = state_of(peer).context;
  int other = 1 - peer->rank;
  auto to_send = context->createUnboundBuffer(const_cast<float*>(in), count * sizeof *in);
  auto to_receive = context->createUnboundBuffer(out, count * sizeof *out);
  auto send = [&] {
    to_send->send(other, kSlot);
    to_send->waitSend();
  };
  if (peer->rank == 0) send();
  to_receive->recv(other, kSlot);
  to_receive->waitRecv();
  if (peer->rank == 1) send();
}

void fail(const std::exception& failure) {
  std::fprintf(stderr, "gloo: %s\n", failure.what());
  std::exit(1);
}

// What the loop, which is C, may call.
template <peer_call* Call>
void without_exceptions(const peer* peer, const float* in, float* out, size_t count) try {
  Call(peer, in, out, count);
} catch (const std::exception& failure) {
  fail(failure);
}

Context connect(int rank, int size, const char* folder) {
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  return context;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s RANK SIZE FOLDER COLLECTIVE SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  peer rank{};
  rank.rank = std::atoi(argv[1]);
  rank.size = std::atoi(argv[2]);
  State state{connect(rank.rank, rank.size, argv[3]), nullptr};
  rank.state = &state;
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
