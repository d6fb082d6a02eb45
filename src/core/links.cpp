#include "core/links.h"

#include <algorithm>

#include "base/log.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace tutti {
namespace {

// The double binary tree takes two channels, or an even number of them.
constexpr int64_t kLeastChannels = 2;

// How long one attempt to connect may take before failures elsewhere are looked at.
constexpr int64_t kAttemptMs = 200;

// All ranks connect their pairs in one common order (by round of a tournament, then by rank), so that no ranks wait for each
// other in a circle: the earliest pair that is not connected has both its ranks at work on it.
std::vector<int32_t> connection_order(std::span<const int32_t> ranks, int self, int nranks) {
  std::vector<int32_t> order(ranks.begin(), ranks.end());
  auto key = [&](int32_t peer) { return std::pair((peer + self) % nranks, std::min(peer, self)); };
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace

Links::Links(const TransportContext& context, const Config& config)
    : rank_(context.rank),
      layout_{.nranks = context.nranks,
              .channels = static_cast<int>(std::max<int64_t>((config.channels + 1) / 2 * 2, kLeastChannels)),
              .slots = static_cast<int>(config.slots),
              .slot_bytes = (static_cast<uint64_t>(config.slot_bytes) + 63) / 64 * 64},
      links_(context.nranks),
      peers_(context.nranks) {}

Result<std::unique_ptr<Links>> Links::create(const TransportContext& context, const Config& config,
                                             std::shared_ptr<LoopbackHub> hub) {
  std::unique_ptr<Links> links(new Links(context, config));
  links->arena_fd_ = TUTTI_TRY(create_memfd("tutti-arena", links->layout_.arena_bytes()));
  links->arena_ = TUTTI_TRY(Mapping::create(links->arena_fd_.get(), links->layout_.arena_bytes()));
  auto wanted = [&](std::string_view name) { return config.transport.empty() || config.transport == name; };
  if (wanted("loopback")) TUTTI_TRY(links->open_carrier(make_loopback_transport(context, std::move(hub))));
  if (wanted("shm")) TUTTI_TRY(links->open_carrier(make_shm_transport(context)));
  if (wanted("tcp")) TUTTI_TRY(links->open_carrier(make_tcp_transport(context)));
  return links;
}

Links::~Links() {
  peers_.clear();
  links_.clear();  // before the transports they came from
}

Status Links::open_carrier(std::unique_ptr<Transport> transport) {
  TUTTI_TRY(transport->listen());
  Carrier carrier;
  carrier.arena = TUTTI_TRY(transport->export_memory(arena_.bytes(), arena_fd_.get()));
  carrier.transport = std::move(transport);
  carriers_.push_back(std::move(carrier));
  return {};
}

std::vector<TransportFacts> Links::facts() const {
  std::vector<TransportFacts> facts;
  for (const Carrier& carrier : carriers_) {
    facts.push_back({std::string(carrier.transport->name()), carrier.transport->address(), carrier.arena->id});
  }
  return facts;
}

void Links::learn(std::vector<Facts> facts, const Topology& topology) {
  facts_ = std::move(facts);
  topology_ = &topology;
}

std::string_view Links::transport_to(int rank) const { return name_of(topology_->link(rank_, rank).kind); }

bool Links::any_in_process() const {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank] && topology_->same_process(rank_, static_cast<int>(rank))) return true;
  }
  return false;
}

Links::Carrier* Links::carrier_to(int rank) {
  auto found = std::find_if(carriers_.begin(), carriers_.end(),
                            [&](const Carrier& c) { return c.transport->name() == transport_to(rank); });
  return found == carriers_.end() ? nullptr : &*found;
}

Status Links::connect(std::span<const int32_t> ranks, Deadline deadline, const Failure& failure,
                      std::atomic<int>& waits_for) {
  for (int32_t rank : connection_order(ranks, rank_, layout_.nranks)) {
    if (peers_[rank]) continue;
    waits_for.store(rank, std::memory_order_relaxed);
    TUTTI_TRY(connect_one(rank, deadline, failure));
  }
  waits_for.store(-1, std::memory_order_relaxed);
  return {};
}

Status Links::connect_one(int rank, Deadline deadline, const Failure& failure) {
  Carrier* carrier = carrier_to(rank);
  if (carrier == nullptr) {
    return error(Code::kInvalidUsage, "no transport reaches rank {} ({} is not open here)", rank, transport_to(rank));
  }
  std::string_view name = carrier->transport->name();
  auto its = std::find_if(facts_[rank].transports.begin(), facts_[rank].transports.end(),
                          [&](const TransportFacts& t) { return t.name == name; });
  if (its == facts_[rank].transports.end()) return error(Code::kInvalidUsage, "rank {} has no {} transport", rank, name);
  Link* link = nullptr;
  {
    std::lock_guard lock(links_mutex_);
    links_[rank] = carrier->transport->open(rank);
    link = links_[rank].get();
  }
  if (failure.happened()) return failure.status();  // after the link is where abort() finds it
  Status connected = link->connect(its->address, deadline);
  if (failure.happened()) return failure.status();
  if (!connected.ok()) {
    return std::move(connected)
        .within(fmt::format("cannot connect to rank {} over {}", rank, name))
        .at({.rank = rank_, .peer = rank, .link = std::string(name)});
  }
  TUTTI_TRY(share_with(*carrier, *link));
  const RemoteMemory* arena = nullptr;
  while ((arena = link->find(its->arena_id)) == nullptr) {
    if (failure.happened()) return failure.status();
    if (deadline.passed()) return error(Code::kTimeout, "rank {} did not share its memory in time", rank);
    uint64_t ignored = 0;
    TUTTI_TRY(link->poll(&ignored));
    WaitSet waits;
    link->arm(waits);
    if (link->find(its->arena_id) == nullptr) ::poll(waits.fds.data(), waits.fds.size(), deadline.left_ms(kAttemptMs));
    link->disarm();
  }
  peers_[rank] = std::make_unique<Peer>(rank_, *link, layout_, arena_.bytes(), *arena);
  log_debug("connected to rank {} over {}", rank, name);
  return {};
}

Status Links::share_with(Carrier& carrier, Link& link) {
  TUTTI_TRY(link.share(*carrier.arena));
  for (auto& [key, exported] : carrier.shared) TUTTI_TRY(link.share(*exported.memory));
  return {};
}

Result<Window> Links::share(const MemoryRegion& region, const std::byte* data) {
  for (Carrier& carrier : carriers_) {
    bool used = false;
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      used = used || (peers_[rank] && peers_[rank]->mapped() && transport_to(static_cast<int>(rank)) == carrier.transport->name());
    }
    if (!used) continue;
    auto found = carrier.shared.find(region.key);
    if (found == carrier.shared.end()) {
      const LocalMemory* memory = TUTTI_TRY(carrier.transport->export_memory(region.bytes, region.fd));
      found = carrier.shared.emplace(region.key, Exported{memory, region.owner}).first;
      for (size_t rank = 0; rank < peers_.size(); ++rank) {
        if (peers_[rank] && carrier_to(static_cast<int>(rank)) == &carrier) TUTTI_TRY(peers_[rank]->link().share(*memory));
      }
    }
    return Window{found->second.memory->id, static_cast<uint64_t>(data - region.bytes.data())};
  }
  return Window{};
}

void Links::forget(uint64_t key) {
  for (Carrier& carrier : carriers_) {
    auto found = carrier.shared.find(key);
    if (found == carrier.shared.end()) continue;
    carrier.transport->release(found->second.memory);
    carrier.shared.erase(found);
  }
}

void Links::ring() noexcept {
  for (Carrier& carrier : carriers_) carrier.transport->ring();
}

void Links::abort() noexcept {
  {
    std::lock_guard lock(links_mutex_);
    for (auto& link : links_) {
      if (link) link->abort();
    }
  }
  ring();
}

}  // namespace tutti
