#include "transports/fabric.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/sanitizers.h"
#include "transports/fault/fault.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"
#include "transports/verbs/verbs.h"

namespace tutti::test {

Factory Loopback::make() {
  return [hub = make_loopback_hub()](const TransportContext& context) { return make_loopback_transport(context, hub); };
}

Factory Shm::make() {
  return [](const TransportContext& context) { return make_shm_transport(context); };
}

Factory Tcp::make() {
  return [](const TransportContext& context) { return make_tcp_transport(context); };
}

#if defined(TUTTI_TEST_VERBS_LIBRARY)
Factory Verbs::make() {
  return [](const TransportContext& context) {
    return make_verbs_transport(context, {.library = TUTTI_TEST_VERBS_LIBRARY});
  };
}
#endif

Factory Hostile::make() {
  return [inner = Tcp::make()](const TransportContext& context) {
    return make_fault_transport(inner(context), {.seed = 11, .hold_chance = 0.2, .full_chance = 0.2});
  };
}

std::vector<std::byte> token_of(int seed) { return pattern(32, static_cast<uint64_t>(seed)); }

namespace {

TUTTI_UNWATCHED void draw(std::byte* bytes, size_t size_bytes, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < size_bytes; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = static_cast<std::byte>(state >> 56);
  }
}

}  // namespace

std::vector<std::byte> pattern(size_t size_bytes, uint64_t seed) {
  return worked_out<std::byte>(size_bytes, [&](std::byte* bytes) { draw(bytes, size_bytes, seed); });
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

bool is_all(std::span<const std::byte> bytes, std::byte value) {
  return bytes.empty() || (bytes[0] == value && same(bytes.first(bytes.size() - 1), bytes.subspan(1)));
}

Node::Node(const Factory& factory, int rank, int nranks, uint64_t job, int token_seed)
    : rank(rank), token(token_of(token_seed)), links(nranks) {
  transport = factory({.rank = rank, .nranks = nranks, .job = job, .token = token, .interface = {}});
}

Status Node::connect(int peer, const Blob& address, Deadline deadline) {
  links[peer] = transport->open(peer);
  return test::connect(*links[peer], address, deadline);
}

const Window& Node::add_window(size_t size_bytes) {
  Window window;
  window.fd = create_memfd("tutti-test", size_bytes).value();
  window.mapping = Mapping::create(window.fd.get(), size_bytes).value();
  window.exported = transport->export_memory(window.mapping.bytes(), window.fd.get(), {}).value();
  return windows.emplace_back(std::move(window));
}

std::vector<Status> on_threads(int nranks, const std::function<Status(int)>& work) {
  std::vector<Status> statuses(nranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = work(rank); });
  }
  for (auto& thread : threads) thread.join();
  return statuses;
}

Status connect(Link& link, const Blob& address, Deadline deadline) {
  while (TUTTI_TRY(link.connect(address)) != Progress::kDone) {
    if (deadline.passed()) {
      return error(Code::kTimeout, "not connected in time ({})", link.connect_report())
          .at({.rank = -1, .peer = link.peer()});
    }
    WaitSet waits;
    link.arm(waits);
    waits.fence();
    if (TUTTI_TRY(link.connect(address)) == Progress::kBlocked) waits.sleep(deadline.left_ms());
    link.disarm();
  }
  return {};
}

std::vector<Status> connect_ranks(const std::vector<Node*>& nodes, Deadline deadline) {
  int n = static_cast<int>(nodes.size());
  std::vector<Blob> addresses;
  for (Node* node : nodes) addresses.push_back(node->transport->address());
  return on_threads(n, [&](int rank) -> Status {
    for (int step = 0; step < n; ++step) {
      int peer = ((step - rank) % n + n) % n;
      if (peer != rank) TUTTI_TRY(nodes[rank]->connect(peer, addresses[peer], deadline));
    }
    return {};
  });
}

Job::Job(const Factory& factory, int nranks, size_t window_bytes) : remotes_(nranks) {
  static std::atomic<uint64_t> job{1};
  uint64_t number = job++;
  for (int rank = 0; rank < nranks; ++rank) {
    nodes_.push_back(std::make_unique<Node>(factory, rank, nranks, number));
    nodes_.back()->add_window(window_bytes);
  }
  status_ = connect_all();
  if (status_.ok()) status_ = share_all();
}

Status Job::connect_all() {
  std::vector<Node*> nodes;
  for (auto& node : nodes_) {
    TUTTI_TRY(node->listen());
    nodes.push_back(node.get());
  }
  for (Status& status : connect_ranks(nodes, Deadline::after_ms(kPatienceMs))) TUTTI_TRY(std::move(status));
  return {};
}

Status Job::share_all() {
  int n = static_cast<int>(nodes_.size());
  std::vector<Link*> links;
  for (int rank = 0; rank < n; ++rank) {
    for (int peer = 0; peer < n; ++peer) {
      if (peer == rank) continue;
      TUTTI_TRY(link(rank, peer).share(*window(rank).exported));
      links.push_back(&link(rank, peer));
    }
  }
  for (int rank = 0; rank < n; ++rank) remotes_[rank].resize(n);
  return await_until(
      [&] {
        bool all = true;
        for (int rank = 0; rank < n; ++rank) {
          for (int peer = 0; peer < n; ++peer) {
            if (peer == rank) continue;
            remotes_[rank][peer] = link(rank, peer).find(window(peer).exported->id);
            all = all && remotes_[rank][peer] != nullptr;
          }
        }
        return all;
      },
      links);
}

uint64_t counter_of(const Line* line) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(line->words[0])).load(std::memory_order_acquire);
}

Status await_until(const std::function<bool()>& done, const std::vector<Link*>& links) {
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  uint64_t completed = 0;
  while (!done()) {
    if (deadline.passed()) return error(Code::kTimeout, "the test waited too long");
    for (Link* link : links) TUTTI_TRY(link->poll(&completed));
    std::this_thread::yield();
  }
  return {};
}

Status await(Link& link, const Line* line, uint64_t value) {
  return await_until([&] { return counter_of(line) >= value; }, {&link});
}

Status await_asleep(Link& link, const Line* line, uint64_t value) {
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  uint64_t completed = 0;
  while (true) {
    TUTTI_TRY(link.poll(&completed));
    if (counter_of(line) >= value) return {};
    WaitSet waits;
    link.arm(waits);
    waits.fence();
    if (counter_of(line) < value) {
      bool is_woken = waits.sleep(deadline.left_ms(), [&] { return counter_of(line) >= value; });
      if (!is_woken) return error(Code::kTimeout, "nothing woke this rank");
    }
    link.disarm();
  }
}

Status put(Link& link, RemoteSlice to, std::span<const std::byte> from, RemoteSlice signal, const Line& line) {
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  uint64_t completed = 0;
  while (TUTTI_TRY(link.put(to, from, signal, line)) == PutResult::kFull) {
    if (deadline.passed()) return error(Code::kTimeout, "the link stayed full");
    TUTTI_TRY(link.poll(&completed));
    std::this_thread::yield();
  }
  return {};
}

Status signal(Link& link, RemoteSlice at, const Line& line) {
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  uint64_t completed = 0;
  while (TUTTI_TRY(link.signal(at, line)) == PutResult::kFull) {
    if (deadline.passed()) return error(Code::kTimeout, "the link stayed full");
    TUTTI_TRY(link.poll(&completed));
    std::this_thread::yield();
  }
  return {};
}

}  // namespace tutti::test
