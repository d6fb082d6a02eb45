#include "core/links.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/arithmetic.h"
#include "base/deadline.h"
#include "base/log.h"
#include "core/thresholds.h"
#include "planner/planner.h"
#include "transports/loopback/loopback.h"
#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"
#include "transports/verbs/verbs.h"

namespace tutti {
namespace {

// The double binary tree takes an even number of them.
int even_channels(const Config& config) {
  int64_t wanted = std::max<int64_t>({config.channels, config.workers, kUsualChannels});
  return static_cast<int>((wanted + 1) / 2 * 2);
}

VerbsOptions verbs_options(const Config& config) {
  return {.library = config.ib_library,
          .device = config.ib_device,
          .gid_index = static_cast<int>(config.ib_gid_index),
          .mtu_bytes = static_cast<int>(config.ib_mtu),
          .service_level = static_cast<int>(config.ib_service_level),
          .traffic_class = static_cast<int>(config.ib_traffic_class),
          .pkey_index = static_cast<int>(config.ib_pkey_index),
          .timeout = static_cast<int>(config.ib_timeout),
          .retries = static_cast<int>(config.ib_retries),
          .regions = static_cast<size_t>(config.ib_regions),
          .region_bytes = static_cast<uint64_t>(config.ib_region_bytes),
          .takes_device_memory = config.ib_dmabuf != 0,
          .goes_over_tcp = config.transport.empty()};
}

// Where devices cannot take the caller's memory, its contents are copied; if it is the link that has failed, whoever
// needs it hears of that.
Status share_if_possible(Link& link, const LocalMemory& memory) {
  Status shared = link.share(memory);
  if (shared.ok() || !link.traits().places) return shared;
  log_info("what is sent to and by rank {} is copied: {}", link.peer(), shared.message());
  return {};
}

// Of shared memory: how much of it was ever touched, by any process. Asked piece by piece, so that it needs little
// memory.
uint64_t resident_bytes(std::span<std::byte> mapped) {
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::array<unsigned char, 4096> pages;
  uint64_t resident = 0;
  for (size_t at = 0; at < mapped.size(); at += pages.size() * page) {
    size_t size = std::min(mapped.size() - at, pages.size() * page);
    if (::mincore(mapped.data() + at, size, pages.data()) != 0) return resident;
    size_t count = ceil_div(size, page);
    resident += page * static_cast<uint64_t>(std::count_if(pages.begin(), pages.begin() + count,
                                                           [](unsigned char each) { return (each & 1) != 0; }));
  }
  return resident;
}

}  // namespace

Links::Links(const TransportContext& context, const Config& config)
    : rank_(context.rank),
      layout_{.nranks = context.nranks,
              .channels = even_channels(config),
              .slots = static_cast<int>(config.slots),
              .slot_bytes = config.staging_slot_bytes()},
      ends_(context.nranks),
      peers_(context.nranks),
      reaches_device_memory_(context.nranks),
      waiting_cpu_(context.rank) {}

Result<std::unique_ptr<Links>> Links::create(const TransportContext& context, const Config& config,
                                             std::shared_ptr<LoopbackHub> hub) {
  std::unique_ptr<Links> links(new Links(context, config));
  links->wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!links->wake_) return system_error(errno, "cannot create an eventfd");
  links->arena_fd_ = TUTTI_TRY(create_memfd("tutti-arena", links->layout_.arena_bytes()));
  links->arena_ = std::make_shared<Mapping>(
      TUTTI_TRY(Mapping::create(links->arena_fd_.get(), links->layout_.arena_bytes())));
  auto wanted = [&](std::string_view name) { return config.transport.empty() || config.transport == name; };
  if (wanted("loopback")) TUTTI_TRY(links->open_carrier(make_loopback_transport(context, std::move(hub)), true));
  if (wanted("shm")) TUTTI_TRY(links->open_carrier(make_shm_transport(context), true));
  if (wanted("verbs")) TUTTI_TRY(links->open_verbs(context, config));
  if (wanted("tcp")) TUTTI_TRY(links->open_carrier(make_tcp_transport(context), false));
  return links;
}

Links::~Links() {
  peers_.clear();
  ends_.clear();  // before the transports they came from
}

Status Links::open_carrier(std::unique_ptr<Transport> transport, bool shares) {
  TUTTI_TRY(transport->listen());
  Carrier carrier{.shares = shares};
  carrier.arena = TUTTI_TRY(transport->export_memory(arena_->bytes(), arena_fd_.get(), arena_));
  TUTTI_CHECK(carrier.arena->id == kArena);
  carrier.transport = std::move(transport);
  carriers_.push_back(std::move(carrier));
  return {};
}

Status Links::open_verbs(const TransportContext& context, const Config& config) {
  auto transport = make_verbs_transport(context, verbs_options(config));
  Status opened = transport ? open_carrier(std::move(transport), true)
                            : error(Code::kInvalidUsage, "this build of tutti has no RDMA (TUTTI_VERBS)");
  if (opened.ok() || config.transport == "verbs") return opened;
  log_info("ranks of other hosts are reached over TCP, since {}", opened.message());
  return {};
}

std::vector<TransportFacts> Links::facts() const {
  std::vector<TransportFacts> facts;
  for (const Carrier& carrier : carriers_) {
    facts.push_back({std::string(carrier.transport->name()), carrier.transport->address(),
                     carrier.transport->lanes()});
  }
  return facts;
}

void Links::learn(std::vector<Facts> facts, const Topology& topology) {
  facts_ = std::move(facts);
  topology_ = &topology;
  layout_.mapped_slots = mapped_slots_for(topology, rank_, layout_.slot_bytes);
  common_slots_.clear();
  for (int channel = 0; channel < layout_.channels; ++channel) {
    common_slots_.emplace_back(arena_->bytes(), layout_, channel);
  }
  for (Carrier& carrier : carriers_) carrier.transport->place(place_of(topology, rank_));
  bool would_reach_all = device_transport() != nullptr && peers_.size() > 1 && topology.joined_by_rdma();
  reaches_all_device_memory_.store(would_reach_all, std::memory_order_release);
}

std::string_view Links::transport_to(int rank) const {
  const End& end = ends_[rank];
  std::string_view instead = end.link != nullptr ? end.link->carried_by() : "";
  if (!instead.empty()) return instead;
  return end.carrier != nullptr ? end.carrier->transport->name() : name_of(topology_->link(rank_, rank).kind);
}

tutti_comm_memory_t Links::memory() const {
  tutti_comm_memory_t memory{};
  memory.reserved_bytes = arena_->bytes().size();
  memory.resident_bytes = resident_bytes(arena_->bytes());
  for (const auto& peer : peers_) {
    if (peer) memory.private_bytes += peer->buffer_bytes();
  }
  return memory;
}

Links::Carrier* Links::carrier_named(std::string_view name) {
  auto found =
      std::find_if(carriers_.begin(), carriers_.end(), [&](const Carrier& c) { return c.transport->name() == name; });
  return found == carriers_.end() ? nullptr : &*found;
}

Result<Progress> Links::connect(std::span<const int32_t> ranks) {
  // Calls that are complete here may still be waited for by peers that must finish them before they connect.
  for (auto& peer : peers_) {
    if (peer && peer->needs_poll()) peer->poll();
  }
  bool moved = false, all_done = true;
  for (int32_t rank : ranks) {
    if (peers_[rank]) continue;
    Progress progress = TUTTI_TRY(connect_one(rank));
    moved = moved || progress != Progress::kBlocked;
    all_done = all_done && progress == Progress::kDone;
  }
  return all_done ? Progress::kDone : moved ? Progress::kMoved : Progress::kBlocked;
}

int Links::first_unconnected(std::span<const int32_t> ranks) const {
  auto found = std::find_if(ranks.begin(), ranks.end(), [this](int32_t rank) { return peers_[rank] == nullptr; });
  return found == ranks.end() ? -1 : *found;
}

std::string Links::connect_report(int rank) const {
  const End& end = ends_[rank];
  if (end.link == nullptr || peers_[rank] != nullptr) return {};
  std::string report = end.link->connect_report();
  return fmt::format(" to connect over {}{}", end.carrier->transport->name(),
                     report.empty() ? "" : fmt::format(" ({})", report));
}

Result<Progress> Links::connect_one(int rank) {
  End& end = ends_[rank];
  if (end.link == nullptr) {
    TUTTI_TRY(open(rank, transport_to(rank)));
    return Progress::kMoved;
  }
  bool fresh = !end.joined;
  if (!end.joined) {
    auto progress = end.link->connect(end.peer->address);
    if (!progress.ok() && end.link->both_gave_up() && open_instead(rank, progress.status()).ok()) {
      return Progress::kMoved;
    }
    if (!progress.ok()) {
      std::string_view name = end.carrier->transport->name();
      return std::move(progress)
          .status()
          .within(fmt::format("cannot connect to rank {} over {}", rank, name))
          .at({.rank = rank_, .peer = rank, .link = std::string(name)});
    }
    if (*progress != Progress::kDone) return progress;
    end.joined = true;
    TUTTI_TRY(share_with(*end.carrier, *end.link));
  }
  uint64_t ignored = 0;
  TUTTI_TRY(end.link->poll(&ignored));
  const RemoteMemory* arena = end.link->find(kArena);
  if (arena == nullptr) return fresh ? Progress::kMoved : Progress::kBlocked;
  if (arena->size_bytes < layout_.arena_bytes()) {
    return error(Code::kRemote,
                 "rank {} has shared {} bytes for messages, where {} are needed; run one version of tutti", rank,
                 arena->size_bytes, layout_.arena_bytes())
        .at({.rank = rank_, .peer = rank, .link = std::string(end.carrier->transport->name())});
  }
  bool reaches_device_memory = end.carrier->transport->takes_device_memory();
  peers_[rank] =
      std::make_unique<Peer>(rank_, *end.link, layout_, arena_->bytes(), *arena, reaches_device_memory);
  if (peers_[rank]->mapped() || end.link->traits().places) ++peers_in_memory_;
  if (end.link->traits().lands) ++peers_that_land_;
  reaches_device_memory_[rank].store(reaches_device_memory, std::memory_order_release);
  if (!reaches_device_memory) reaches_all_device_memory_.store(false, std::memory_order_release);
  waiting_cpu_.tell_again();  // the new one does not know
  log_debug("connected to rank {} over {}", rank, end.carrier->transport->name());
  return Progress::kDone;
}

Status Links::open(int rank, std::string_view name) {
  Carrier* carrier = carrier_named(name);
  if (carrier == nullptr) {
    return error(Code::kInvalidUsage, "no transport reaches rank {} ({} is not open here)", rank, name);
  }
  auto its = std::find_if(facts_[rank].transports.begin(), facts_[rank].transports.end(),
                          [&](const TransportFacts& t) { return t.name == name; });
  if (its == facts_[rank].transports.end()) {
    return error(Code::kInvalidUsage, "rank {} has no {} transport", rank, name);
  }
  std::lock_guard lock(ends_mutex_);
  ends_[rank] = {.link = carrier->transport->open(rank), .carrier = carrier, .peer = &*its};
  return {};
}

Status Links::open_instead(int rank, const Status& why) {
  constexpr std::string_view kLastResort = "tcp";
  std::string_view failed = ends_[rank].carrier->transport->name();
  if (failed == kLastResort) return why;
  TUTTI_TRY(open(rank, kLastResort));
  log_warn("rank {} is reached over {}: {}", rank, kLastResort, why.message());
  return {};
}

Status Links::share_with(Carrier& carrier, Link& link) {
  TUTTI_TRY(link.share(*carrier.arena));
  for (auto& [key, exported] : carrier.shared) TUTTI_TRY(share_if_possible(link, *exported.memory));
  return {};
}

// A message names memory by one id, whichever peer it goes to. Transports count what they export, so the ids are the
// same on all because everything is exported on all, in one order.
Result<Window> Links::share(const MemoryRegion& region, const std::byte* data) {
  if (peers_in_memory_ == 0) return Window{};
  uint32_t id = 0;
  for (Carrier& carrier : carriers_) {
    if (!carrier.shares) continue;
    auto found = carrier.shared.find(region.key);
    if (found == carrier.shared.end()) {
      TUTTI_TRY(export_over(carrier, region));
    } else {
      // Where it cannot be, peers know.
      if (Status used = carrier.transport->use(found->second.memory); !used.ok()) log_debug("{}", used.message());
    }
    uint32_t own_id = carrier.shared[region.key].memory->id;
    TUTTI_CHECK(id == 0 || id == own_id);
    id = own_id;
  }
  return Window{id, static_cast<uint64_t>(data - region.bytes.data())};
}

Status Links::export_over(Carrier& carrier, const MemoryRegion& region) {
  const LocalMemory* memory = TUTTI_TRY(carrier.transport->export_memory(region.bytes, region.fd, {}));
  carrier.shared.emplace(region.key, Exported{memory, region.owner});
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank] || ends_[rank].carrier != &carrier) continue;
    TUTTI_TRY(share_if_possible(peers_[rank]->link(), *memory));
  }
  return {};
}

Transport* Links::device_transport() const {
  for (const Carrier& carrier : carriers_) {
    if (carrier.transport->takes_device_memory()) return carrier.transport.get();
  }
  return nullptr;
}

void Links::look_at_carrier(int rank) {
  if (ends_[rank].link->carried_by().empty()) return;
  reaches_device_memory_[rank].store(false, std::memory_order_release);
  reaches_all_device_memory_.store(false, std::memory_order_release);
}

Result<Window> Links::share_device_memory(int rank, const LocalMemory& memory, const std::byte* data,
                                          std::set<int>& told) {
  if (told.insert(rank).second) TUTTI_TRY(share_if_possible(peers_[rank]->link(), memory));
  return Window{memory.id, static_cast<uint64_t>(data - memory.bytes.data())};
}

Window Links::land_in(std::span<std::byte> memory, int rank) {
  Window landing{kLanding, next_landing_};
  next_landing_ += memory.size();
  for (auto& peer : peers_) {
    bool is_meant = peer && (rank == kEveryRank || peer->rank() == rank);
    if (is_meant && peer->link().traits().lands) peer->link().land_in(landing.offset, memory);
  }
  return landing;
}

void Links::land_no_more(const Window& landing, int rank) {
  for (auto& peer : peers_) {
    bool is_meant = peer && (rank == kEveryRank || peer->rank() == rank);
    if (is_meant && peer->link().traits().lands) peer->link().land_no_more(landing.offset);
  }
}

bool Links::shares_cpu_with(int rank) {
  return waiting_cpu_.is_shared_with(rank, peers_) && !waiting_cpu_.leave(peers_);
}

void Links::hold(uint64_t key) {
  for (Carrier& carrier : carriers_) {
    auto found = carrier.shared.find(key);
    if (found != carrier.shared.end()) carrier.transport->hold(found->second.memory);
  }
}

void Links::let_go(uint64_t key) {
  for (Carrier& carrier : carriers_) {
    auto found = carrier.shared.find(key);
    if (found != carrier.shared.end()) carrier.transport->let_go(found->second.memory);
  }
}

void Links::forget(uint64_t key) {
  for (Carrier& carrier : carriers_) {
    auto found = carrier.shared.find(key);
    if (found == carrier.shared.end()) continue;
    carrier.transport->release(found->second.memory);
    carrier.shared.erase(found);
  }
}

Links::Armed Links::arm(WaitSet& waits) {
  waits.add(wake_.get(), POLLIN);
  for (size_t rank = 0; rank < ends_.size(); ++rank) {
    // What is broken has been told, and would end every sleep.
    bool is_broken = peers_[rank] != nullptr && peers_[rank]->is_broken();
    if (ends_[rank].link != nullptr && !is_broken) ends_[rank].link->arm(waits);
  }
  waits.fence();
  return Armed(this);
}

void Links::disarm() {
  uint64_t rings;
  if (rung_.exchange(false)) (void)!::read(wake_.get(), &rings, sizeof rings);
  for (End& end : ends_) {
    if (end.link) end.link->disarm();
  }
}

void Links::ring() noexcept {
  uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  rung_.store(true);  // only now: who clears it reads what was written
}

void Links::abort() noexcept {
  {
    std::lock_guard lock(ends_mutex_);
    for (End& end : ends_) {
      if (end.link) end.link->abort();
    }
  }
  ring();
}

void Links::await_accesses() noexcept {
  constexpr int64_t kMostMs = 500;
  Deadline deadline = Deadline::after_ms(kMostMs);
  for (const End& end : ends_) {
    while (end.link && end.link->is_accessed() && !deadline.passed()) std::this_thread::yield();
  }
}

}  // namespace tutti
