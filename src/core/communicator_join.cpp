// How a communicator comes to be: meet, tell and learn the facts, agree on the topology.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "base/affinity.h"
#include "base/log.h"
#include "bootstrap/crypto.h"
#include "core/communicator.h"
#include "core/thresholds.h"
#include "core/tuning_file.h"
#include "discovery/calibrate.h"
#include "discovery/discover.h"
#include "planner/planner.h"
#include "topology/cpu_list.h"

namespace tutti {
namespace {

// Empty: not restricted.
Result<std::vector<int>> thread_cpus_of(const Config& config) {
  if (config.thread_cpus.empty()) return std::vector<int>();
  auto cpus = parse_cpu_list(config.thread_cpus);
  if (!cpus || cpus->empty()) {
    return error(Code::kInvalidArgument, "TUTTI_THREAD_CPUS is \"{}\", which is no list of CPUs such as 0-3,8",
                 config.thread_cpus);
  }
  if (!can_run_on(*cpus)) {
    return error(Code::kInvalidArgument,
                 "TUTTI_THREAD_CPUS is {}, but this process may use none of these CPUs; name some of those that "
                 "`taskset -pc {}` shows",
                 config.thread_cpus, ::getpid());
  }
  return *cpus;
}

// The token is a secret of the communicator's ranks.
uint64_t id_from(std::span<const std::byte> token) {
  bootstrap::Secret name = bootstrap::derive(token, "tutti communicator id");
  uint64_t id = 0;
  std::memcpy(&id, name.data(), sizeof id);
  return id;
}

bool are_alike(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(), [&](const std::string& each) { return each == texts.front(); });
}
bool all_differ(const std::vector<std::string>& texts) {
  return std::set(texts.begin(), texts.end()).size() == texts.size();
}

// As find_gpu() writes it.
GpuId gpu_id_from(std::string_view digits) {
  GpuId id{};
  for (size_t i = 0; i < id.size() && 2 * i + 1 < digits.size(); ++i) {
    unsigned value = 0;
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, value, 16);
    id[i] = static_cast<std::byte>(value);
  }
  return id;
}

// Ok if the ranks' GPUs can do calls among themselves: all use the same one, or each another one of the host; and they
// can open each other's files there.
Status check_gpus(const std::vector<Facts>& facts) {
  const HostIdentity& first = facts.front().rank.inventory.identity;
  std::vector<std::string> gpus;
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    const HostIdentity& identity = facts[rank].rank.inventory.identity;
    auto no = [rank](std::string_view why) { return error(Code::kInvalidUsage, "rank {} {}", rank, why); };
    if (identity.boot_id != first.boot_id) return no("is on another host than rank 0");
    if (facts[rank].gpu.empty()) return no("has no current GPU (cudaSetDevice() before it joins)");
    if (identity.pid_namespace != first.pid_namespace || identity.user_namespace != first.user_namespace) {
      return no("is in another pid or user namespace than rank 0; start all ranks of the host in one container");
    }
    gpus.push_back(facts[rank].gpu);
  }
  auto few = [&](size_t most, std::string_view where) -> Status {
    if (gpus.size() <= most) return {};
    return error(Code::kInvalidUsage, "there are {} ranks on {}; the most is {}", gpus.size(), where, most);
  };
  if (are_alike(gpus)) return few(cuda::kMostSources, "one GPU");
  if (all_differ(gpus)) return few(cuda::kMostGpus, "a GPU each");
  return error(Code::kInvalidUsage, "the ranks are neither all on one GPU, nor each on another one");
}

}  // namespace

Communicator::Communicator(std::shared_ptr<ProcessContext> context, const Config& config)
    : context_(std::move(context)), config_(config) {}

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<ProcessContext> context,
                                                           const JoinInfo& info, const Config& config,
                                                           Deadline deadline) {
  std::unique_ptr<Communicator> communicator(new Communicator(std::move(context), config));
  Status joined = communicator->join(info, deadline);
  if (!joined.ok()) return joined;
  return communicator;
}

Communicator::~Communicator() {
  // finalize() has, unless it was never called. A failure that comes just now may make one, which nobody uses.
  if (StreamEntry* entry = stream_entry_.load(std::memory_order_acquire)) entry->close();
  if (gpu_calls_) gpu_calls_->stop();
  context_->engine->remove(this);
  context_->memory.remove_listener(this);
  control_.reset();  // no events from here on
  gpu_calls_.reset();
  if (device_regions_) device_regions_->close();
}

Status Communicator::join(const JoinInfo& info, Deadline deadline) {
  rank_ = info.rank;
  nranks_ = info.nranks;
  if (info.launcher != kSplitLauncher) set_log_rank(rank_);  // lines of the log tell ranks of the whole job apart
  TUTTI_TRY(check_algorithm(config_.algorithm));
  std::vector<int> thread_cpus = TUTTI_TRY(thread_cpus_of(config_));
  context_->stream_calls.devices().configure({.driver = config_.cuda_driver, .module = config_.cuda_module});
  control_ = TUTTI_TRY(ControlPlane::join(info, config_, deadline));
  id_ = id_from(control_->token());
  std::optional<Plan> plan;
  if (!config_.plan_file.empty()) {
    if (!config_.algorithm.empty() || config_.channels != 0 || config_.slice_bytes != 0) {
      return error(Code::kInvalidArgument,
                   "TUTTI_PLAN_FILE says which plan runs; leave out TUTTI_ALGORITHM (--algorithm), TUTTI_CHANNELS and "
                   "TUTTI_SLICE_BYTES, or the file");
    }
    if (config_.deterministic != 0) {
      return error(Code::kInvalidArgument,
                   "TUTTI_DETERMINISTIC needs plans whose order is known; leave out TUTTI_PLAN_FILE, or it");
    }
    plan = TUTTI_TRY(read_plan_file(config_.plan_file, static_cast<int>(config_.slots)));
  }
  TUTTI_TRY(exchange_facts(plan, deadline));
  Tuning tuning = TUTTI_TRY(agree_on_planning(deadline));
  constexpr size_t kDescriptorsPerLink = 3;  // a doorbell, a socket and a completion channel
  waits_.reserve(kDescriptorsPerLink * static_cast<size_t>(nranks_) + 1);
  wait_policy_ = wait_policy_for(topology_, rank_, config_);
  data_path_ = data_path_for(topology_, rank_);
  int workers = workers_of(topology_, tuning);
  if (!thread_cpus.empty()) context_->engine->use_cpus(thread_cpus);
  run_.share_with(workers - 1, worker_policy_for(topology_, rank_, workers, config_),
                  thread_cpus.empty() ? topology_.ranks[rank_].cpus : thread_cpus);
  plans_ = std::make_unique<PlanCache>(topology_, rank_, tuning, links_->layout());
  if (plan) TUTTI_TRY(plans_->use(std::move(*plan)));
  make_direct();
  context_->memory.add_listener(this, [this](const MemoryRegion& region) { forget(region.key); });
  TUTTI_TRY(meet_on_gpus(std::move(tuning), deadline));
  return start_control();
}

Status Communicator::exchange_facts(const std::optional<Plan>& plan, Deadline deadline) {
  TransportContext context{.rank = rank_,
                           .nranks = nranks_,
                           .job = control_->job(),
                           .token = control_->token(),
                           .interface = config_.interface};
  links_ = TUTTI_TRY(Links::create(context, config_, context_->loopback));
  windows_ = std::make_unique<CallWindows>(context_->memory, *links_);
  // A plan of the user's may have no rendezvous.
  DeviceRegions::Takes takes{.messages = config_.ib_dmabuf == 1, .collectives = config_.plan_file.empty()};
  device_regions_ = std::make_shared<DeviceRegions>(*links_, takes);
  Facts mine;
  mine.rank.inventory = TUTTI_TRY(discover_live(static_cast<int>(config_.host_fd)));
  mine.rank.inventory.costs = TUTTI_TRY(load_costs(config_, mine.rank.inventory));
  mine.rank.inventory.fabric = config_.fabric;
  mine.rank.pid = ::getpid();
  mine.transports = links_->facts();
  mine.gpu = find_gpu();
  mine.agreed = options_to_agree(config_, plan);
  auto bytes = TUTTI_TRY(control_->all_gather(encode(mine), "facts", deadline));
  auto facts = TUTTI_TRY(decode_all(bytes));
  std::vector<RankFacts> ranks;
  for (const Facts& one : facts) ranks.push_back(one.rank);
  Status usable = check_gpus(facts);
  if (gpu_ && nranks_ > 1 && !usable.ok()) {
    log_info("calls on this rank's GPU go through the host: {}", usable.message());
  }
  if (nranks_ < 2 || !usable.ok()) gpu_.reset();
  for (const Facts& each : facts) gpus_.push_back(each.gpu);
  topology_ = TUTTI_TRY(merge(ranks, config_.transport));
  links_->learn(std::move(facts), topology_);
  return {};
}

// The GPU that the calling thread uses, by its UUID.
std::string Communicator::find_gpu() {
  DeviceModule* module = context_->stream_calls.devices().if_used();
  if (module == nullptr) return {};
  auto gpu = module->current_gpu();
  if (!gpu.ok()) log_info("calls on the GPU of this rank go through the host: {}", gpu.status().message());
  if (!gpu.ok() || !*gpu) return {};
  gpu_ = **gpu;
  return fmt::format("{:02x}", fmt::join(gpu_->id, ""));
}

// Where the host does not tell what is between the GPUs, the driver knows at least whether that is as good as NVLink.
Result<Topology> Communicator::place_on_gpus(Deadline deadline) {
  Topology placed = on_gpus(topology_, gpus_);
  if (knows_nvlinks(placed)) return placed;
  std::vector<GpuId> others;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (rank != rank_) others.push_back(gpu_id_from(gpus_[static_cast<size_t>(rank)]));
  }
  auto native = context_->stream_calls.devices().if_used()->has_native_atomics(*gpu_, others);
  if (!native.ok()) log_info("what is between the ranks' GPUs is unknown: {}", native.status().message());
  auto mine = static_cast<std::byte>(native.ok() && *native ? 1 : 0);
  auto answers = TUTTI_TRY(control_->all_gather(std::span(&mine, 1), "what is between GPUs", deadline));
  bool are_joined = std::all_of(answers.begin(), answers.end(),
                                [](const auto& each) { return each.size() == 1 && each[0] == std::byte{1}; });
  return are_joined ? on_joined_gpus(std::move(placed), gpus_) : placed;
}

Status Communicator::meet_on_gpus(Tuning tuning, Deadline deadline) {
  if (!gpu_) return {};
  GpuCalls::Basis basis;
  if (!are_alike(gpus_)) {
    if (!config_.transport.empty() || !config_.plan_file.empty()) {
      log_info("calls between the ranks' GPUs go through the host, since {} says how ranks exchange data",
               config_.transport.empty() ? "TUTTI_PLAN_FILE" : "TUTTI_TRANSPORT");
      return {};
    }
    Topology placed = TUTTI_TRY(place_on_gpus(deadline));
    basis = GpuPrograms::Basis{std::move(placed), std::move(tuning)};
  }
  DeviceModule& module = *context_->stream_calls.devices().if_used();
  gpu_calls_ = TUTTI_TRY(GpuCalls::meet(*this, *control_, module, *gpu_, context_->gate_keeper, std::move(basis),
                                        config_.timeout_ms, deadline));
  return {};
}

// Plans are pure functions of the topology and the tuning: where those are equal, plans are.
Result<Tuning> Communicator::agree_on_planning(Deadline deadline) {
  struct Basis {
    uint64_t topology;
    TuningVote tuning;
  };
  StoredTuning stored = TUTTI_TRY(load_tuning(config_, topology_));
  Basis mine{topology_.digest(), vote_of(stored)};
  auto answers = TUTTI_TRY(control_->all_gather(std::as_bytes(std::span(&mine, 1)), "topology digest", deadline));
  std::vector<TuningVote> votes;
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    Basis other{};
    bool is_whole = answers[rank].size() == sizeof other;
    if (is_whole) std::memcpy(&other, answers[rank].data(), sizeof other);
    if (!is_whole || other.topology != mine.topology) {
      return error(Code::kInternal, "ranks {} and {} merged different topologies; please report this", rank_, rank);
    }
    votes.push_back(other.tuning);
  }
  Tuning tuning = tuning_from(config_);
  bool agrees = TUTTI_TRY(agree(votes));
  if (agrees) tuning.measured = std::move(stored.collectives);
  if (!agrees && rank_ == 0) {
    log_info("no tuning is used, since not all hosts have the same; copy the file of one that has it in ~/.cache/tutti "
             "to the others");
  }
  return tuning;
}

Status Communicator::start_control() {
  return control_->start({
      .on_lost = [this](int, Status why) { fail(std::move(why), false); },
      .on_left = [this](int rank) { on_left(rank); },
      .on_abort = [this](int, Status why) { fail(std::move(why), false); },
      .on_message = [this](int from, uint32_t type,
                           std::span<const std::byte> payload) { on_message(from, type, payload); },
  });
}

const std::string& Communicator::transports() {
  Turn turn = take_turn();
  // What connected pairs use is known, what the others would is a guess: a device may turn out not to work.
  std::set<std::string_view> connected, expected;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (rank == rank_) continue;
    expected.insert(links_->transport_to(rank));
    if (links_->peers()[rank] != nullptr) connected.insert(links_->transport_to(rank));
  }
  const auto& names = connected.empty() ? expected : connected;
  return *transports_.insert(names.empty() ? "self" : fmt::format("{}", fmt::join(names, "+"))).first;
}

}  // namespace tutti
