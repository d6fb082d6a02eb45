// Gloo over TCP on the loopback interface, as torch.distributed uses it. Arguments before run_loop()'s: rank, size, and
// an empty folder in which the ranks meet.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "loop.h"

namespace {

void sum(void* result, const void* a, const void* b, size_t count) { gloo::sum<float>(result, a, b, count); }

void all_reduce(void* state, const float* in, float* out, size_t count) try {
  gloo::AllreduceOptions options(*static_cast<std::shared_ptr<gloo::Context>*>(state));
  options.setInput(const_cast<float*>(in), count);
  options.setOutput(out, count);
  options.setReduceFunction(sum);
  gloo::allreduce(options);
} catch (const std::exception& failure) {
  std::fprintf(stderr, "gloo: %s\n", failure.what());
  std::exit(1);
}

std::shared_ptr<gloo::Context> connect(int rank, int size, const char* folder) {
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
  if (argc < 6) {
    std::fprintf(stderr, "usage: %s RANK SIZE FOLDER SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  peer rank{std::atoi(argv[1]), std::atoi(argv[2]), nullptr, all_reduce};
  std::shared_ptr<gloo::Context> context = connect(rank.rank, rank.size, argv[3]);
  rank.state = &context;
  return run_loop(&rank, argc - 3, argv + 3);
} catch (const std::exception& failure) {
  std::fprintf(stderr, "gloo: %s\n", failure.what());
  return 1;
}
