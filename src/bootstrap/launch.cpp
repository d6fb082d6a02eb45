#include "bootstrap/launch.h"

#include <charconv>

#include "bootstrap/crypto.h"

namespace tutti::bootstrap {
namespace {

constexpr int kMaxRanks = 1 << 20;
constexpr uint16_t kFirstSlurmPort = 20'000;
constexpr uint16_t kSlurmPorts = 10'000;

std::optional<int64_t> number_of(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int64_t value = 0;
  auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (problem != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

// What one launcher's variables say.
struct Claim {
  Launch launch;
  std::string variables;  // "RANK=1, WORLD_SIZE=4"
};

class LaunchReader {
 public:
  LaunchReader(const Config& config, const Environment& environment, bool have_pmix)
      : config_(config), get_(environment), have_pmix_(have_pmix) {}

  Result<Launch> read() {
    if (config_.rank >= 0 || config_.size >= 0 || config_.id_fd >= 0) return own();
    std::vector<Claim> claims;
    for (auto reader : {&LaunchReader::torchrun, &LaunchReader::open_mpi, &LaunchReader::pmix, &LaunchReader::hydra}) {
      if (std::optional<Claim> claim = TUTTI_TRY((this->*reader)())) claims.push_back(std::move(*claim));
    }
    // A batch script's Slurm variables are also seen by other launchers that it starts: they count only where nothing
    // else does.
    if (claims.empty()) {
      if (std::optional<Claim> claim = TUTTI_TRY(slurm())) claims.push_back(std::move(*claim));
    }
    if (claims.empty()) return Launch();
    for (const Claim& other : claims) TUTTI_TRY(agree(claims.front(), other));
    return settle(std::move(claims.front().launch));
  }

 private:
  std::string show(std::initializer_list<std::string_view> names) const {
    std::string text;
    for (std::string_view name : names) {
      if (auto value = get_(name)) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, *value);
    }
    return text;
  }

  static Status agree(const Claim& a, const Claim& b) {
    bool sizes_differ = a.launch.nranks != b.launch.nranks && a.launch.nranks != 0 && b.launch.nranks != 0;
    if (!sizes_differ && a.launch.rank == b.launch.rank) return {};
    return error(Code::kInvalidUsage,
                 "the environment names two launchers that contradict each other: {} ({}) and {} ({}); unset the "
                 "variables of the one that did not start this process, or set TUTTI_RANK and TUTTI_SIZE",
                 a.launch.launcher, a.variables, b.launch.launcher, b.variables);
  }

  // Rank and size by two variables; nullopt when neither is set.
  Result<std::optional<Claim>> claim_of(std::string launcher, std::string_view rank_name,
                                        std::string_view size_name) const {
    auto rank_text = get_(rank_name);
    auto size_text = get_(size_name);
    if (!rank_text && !size_text) return std::optional<Claim>();
    Claim claim;
    claim.variables = show({rank_name, size_name});
    auto rank = number_of(rank_text);
    auto size = number_of(size_text);
    if (!rank || !size || *size < 1 || *size > kMaxRanks || *rank < 0 || *rank >= *size) {
      return error(
          Code::kInvalidUsage,
          "{} was found in the environment, but {} and {} must be a rank and a number of ranks: unset them, or "
          "set TUTTI_RANK and TUTTI_SIZE",
          claim.variables, rank_name, size_name);
    }
    claim.launch.launcher = std::move(launcher);
    claim.launch.rank = static_cast<int>(*rank);
    claim.launch.nranks = static_cast<int>(*size);
    return std::optional<Claim>(std::move(claim));
  }

  Result<Launch> own() const {
    if (config_.rank < 0 || config_.size < 1 || config_.rank >= config_.size || config_.size > kMaxRanks) {
      return error(Code::kInvalidUsage,
                   "TUTTI_RANK is {} and TUTTI_SIZE is {}: set both, with 0 <= rank < size, or neither",
                   config_.rank < 0 ? "not set" : std::to_string(config_.rank),
                   config_.size < 0 ? "not set" : std::to_string(config_.size));
    }
    Launch launch;
    launch.launcher = config_.id_fd >= 0 ? "tutti run" : "TUTTI_RANK";
    launch.rank = static_cast<int>(config_.rank);
    launch.nranks = static_cast<int>(config_.size);
    if (config_.id_fd >= 0) {
      launch.channel = IdChannel::kFd;
      return launch;
    }
    return settle(std::move(launch));
  }

  Result<std::optional<Claim>> torchrun() const {
    auto size = number_of(get_("WORLD_SIZE"));
    auto address = get_("MASTER_ADDR");
    auto port = number_of(get_("MASTER_PORT"));
    bool complete = get_("RANK") && get_("WORLD_SIZE") && address && port && *port > 0 && *port < UINT16_MAX;
    if (!complete && !(get_("RANK") && size && *size > 1)) return std::optional<Claim>();
    if (!complete) {
      return error(Code::kInvalidUsage,
                   "{} was found in the environment, but torchrun also sets MASTER_ADDR and MASTER_PORT: set these, or "
                   "unset RANK "
                   "and WORLD_SIZE",
                   show({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}));
    }
    std::optional<Claim> claim = TUTTI_TRY(claim_of("torchrun", "RANK", "WORLD_SIZE"));
    claim->variables = show({"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
    // MASTER_PORT itself belongs to torch's store.
    claim->launch.address = fmt::format("{}:{}", *address, *port + 1);
    if (number_of(get_("LOCAL_WORLD_SIZE")) == size) {
      claim->launch.channel = IdChannel::kOneHost;
      claim->launch.job_identity =
          show({"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"});
    }
    return claim;
  }

  Result<std::optional<Claim>> open_mpi() const {
    std::optional<Claim> claim = TUTTI_TRY(claim_of("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
    if (!claim) return claim;
    bool one_host = number_of(get_("OMPI_COMM_WORLD_LOCAL_SIZE")) == claim->launch.nranks;
    std::string identity = show({"PMIX_NAMESPACE", "PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "OMPI_MCA_ess_base_jobid"});
    if (one_host && !identity.empty()) {
      claim->launch.channel = IdChannel::kOneHost;
      claim->launch.job_identity = identity;
    } else if (have_pmix_ && get_("PMIX_NAMESPACE")) {
      claim->launch.channel = IdChannel::kPmix;
    }
    return claim;
  }

  // A launcher that speaks PMIx and is not Open MPI's, such as srun --mpi=pmix.
  Result<std::optional<Claim>> pmix() const {
    if (!get_("PMIX_RANK") || !get_("PMIX_NAMESPACE") || get_("OMPI_COMM_WORLD_SIZE")) return std::optional<Claim>();
    Claim claim;
    claim.variables = show({"PMIX_RANK", "PMIX_NAMESPACE"});
    auto rank = number_of(get_("PMIX_RANK"));
    if (!rank || *rank < 0 || *rank >= kMaxRanks) {
      return error(
          Code::kInvalidUsage,
          "{} was found in the environment, but PMIX_RANK must be a rank: unset it, or set TUTTI_RANK and TUTTI_SIZE",
          claim.variables);
    }
    claim.launch.launcher = get_("SLURM_STEP_ID") ? "Slurm" : "PMIx";
    claim.launch.rank = static_cast<int>(*rank);
    claim.launch.nranks = static_cast<int>(number_of(get_("SLURM_STEP_NUM_TASKS")).value_or(0));
    claim.launch.channel = have_pmix_ ? IdChannel::kPmix : IdChannel::kNone;
    if (!have_pmix_ && claim.launch.nranks == 0) {
      return error(Code::kInvalidUsage,
                   "this process was started through PMIx ({}), but libpmix.so.2 is not there to ask for the number of "
                   "ranks: install libpmix2, or set TUTTI_RANK, TUTTI_SIZE, TUTTI_ADDRESS and TUTTI_SECRET_FILE",
                   claim.variables);
    }
    if (number_of(get_("SLURM_STEP_NUM_NODES")) == 1) one_slurm_host(claim.launch);
    return std::optional<Claim>(std::move(claim));
  }

  Result<std::optional<Claim>> hydra() const {
    std::optional<Claim> claim = TUTTI_TRY(claim_of(get_("SLURM_STEP_ID") ? "Slurm" : "hydra", "PMI_RANK", "PMI_SIZE"));
    if (!claim) return claim;
    auto fd = number_of(get_("PMI_FD"));
    if (fd && *fd >= 0 && *fd < (1 << 20)) {
      claim->launch.channel = IdChannel::kPmi1;
      claim->launch.pmi_fd = static_cast<int>(*fd);
      claim->launch.one_host = number_of(get_("MPI_LOCALNRANKS")) == claim->launch.nranks;
    }
    return claim;
  }

  Result<std::optional<Claim>> slurm() const {
    // Only a step of srun has SLURM_STEP_ID; a batch script is one process, whatever SLURM_NTASKS says.
    if (!get_("SLURM_STEP_ID") || !get_("SLURM_PROCID")) return std::optional<Claim>();
    std::string_view size = get_("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    std::optional<Claim> claim = TUTTI_TRY(claim_of("Slurm", "SLURM_PROCID", size));
    if (number_of(get_("SLURM_STEP_NUM_NODES")) == 1) one_slurm_host(claim->launch);
    std::string host = first_host(get_("SLURM_STEP_NODELIST").value_or(""));
    if (!host.empty()) {
      uint64_t hash = hash64(show({"SLURM_JOB_ID", "SLURM_STEP_ID"}));
      claim->launch.address = fmt::format("{}:{}", host, kFirstSlurmPort + hash % kSlurmPorts);
    }
    return claim;
  }

  void one_slurm_host(Launch& launch) const {
    launch.channel = IdChannel::kOneHost;
    launch.job_identity = show({"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"});
  }

  // Falls back to the secret file, and refuses where there is none.
  Result<Launch> settle(Launch launch) const {
    if (launch.nranks == 1) {
      launch.channel = IdChannel::kNone;
      return launch;
    }
    if (!config_.address.empty()) launch.address = config_.address;
    if (!config_.secret_file.empty() && !launch.address.empty()) {
      launch.channel = IdChannel::kSecretFile;
      return launch;
    }
    if (launch.channel != IdChannel::kNone) return launch;
    bool address = !launch.address.empty();
    return error(Code::kInvalidUsage,
                 "this is a job of {} ranks ({}), but there is no channel that brings the job's secret to all of "
                 "them: set TUTTI_SECRET_FILE to a file of at least 32 random bytes that only you can read, the same "
                 "on all hosts{}, or start the ranks with `tutti run`, mpirun or srun --mpi=pmix",
                 launch.nranks, launch.launcher, address ? "" : ", and TUTTI_ADDRESS to host:port of rank 0");
  }

  const Config& config_;
  const Environment& get_;
  const bool have_pmix_;
};

}  // namespace

Result<Launch> read_launch(const Config& config, const Environment& environment, bool have_pmix) {
  return LaunchReader(config, environment, have_pmix).read();
}

std::string first_host(std::string_view node_list) {
  size_t bracket = node_list.find('[');
  size_t comma = node_list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) return std::string(node_list.substr(0, comma));
  size_t end = node_list.find_first_of("-,]", bracket + 1);
  size_t close = node_list.find(']', bracket);
  if (end == std::string_view::npos || close == std::string_view::npos) return "";
  std::string_view after = node_list.substr(close + 1);
  after = after.substr(0, after.find(','));
  return fmt::format("{}{}{}", node_list.substr(0, bracket), node_list.substr(bracket + 1, end - bracket - 1), after);
}

}  // namespace tutti::bootstrap
