#include "base/config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"

extern char** environ;

namespace tutti {
namespace {

using TextField = std::string Config::*;
using NumberField = int64_t Config::*;

struct Option {
  OptionInfo info;
  std::variant<TextField, NumberField> field;
  int64_t least = 0;  // of a number
  int64_t most = 0;
  // Of a text; none: anything. An option whose default is "" also takes "".
  std::array<std::string_view, 4> choices = {};
  // Of a number: a word for `least`, which is then no quantity.
  std::string_view least_word = {};
  int64_t least_quantity = least + 1;  // where there is such a word
};

constexpr std::string_view kAutomatic = "automatic";
constexpr std::string_view kNone = "none";
constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kMaxTimeoutMs = int64_t{1000} * 3600 * 24 * 30;

constexpr std::array kOptions = {
    Option{{"rank", "", "this process's rank, when no launcher says it"}, &Config::rank, -1, kMaxRanks - 1, {}, kNone},
    Option{{"size", "", "the number of ranks, when no launcher says it"}, &Config::size, -1, kMaxRanks, {}, kNone},
    Option{{"id_fd", "", "inherited file descriptor that holds the 128-byte unique id (set by `tutti run`)"},
           &Config::id_fd, -1, 1 << 20, {}, kNone},
    Option{{"host_fd", "", "inherited file descriptor that holds the facts of this host (set by `tutti run`)"},
           &Config::host_fd, -1, 1 << 20, {}, kNone},
    Option{{"address", "", "host:port where rank 0 listens, for ranks on several hosts"}, &Config::address},
    Option{{"secret_file", "", "file with at least 32 secret bytes, readable by its owner only; the same on all ranks"},
           &Config::secret_file},
    Option{{"transport", "", "use only this transport; empty: the best that reaches"}, &Config::transport, 0, 0,
           {"shm", "tcp", "verbs", "loopback"}},
    Option{{"interface", "", "network interface (name or address) for TCP; empty: the best that leads to the peer"},
           &Config::interface},
    Option{{"fabric", "",
            "name of the part of the network that this host is in, whose hosts are nearer to each other than to "
            "others: a rack, a switch"},
           &Config::fabric},
    Option{{"algorithm", "",
            "run this algorithm for the collectives that have it: binomial_tree, bruck, chain, direct, "
            "direct_one_shot, direct_two_shot, dissemination, double_binary_tree, hierarchical, pairwise, "
            "recursive_doubling, ring or sequential; "
            "empty: the planner chooses"},
           &Config::algorithm},
    Option{{"channels", "", "parallel channels of a plan; automatic: the planner chooses"},
           &Config::channels, 0, 64, {}, kAutomatic},
    Option{{"slice_bytes", "bytes", "size of one pipelined piece; automatic: the planner chooses"},
           &Config::slice_bytes, 0, 1 << 28, {}, kAutomatic},
    Option{{"slot_bytes", "bytes", "size of one staging slot; automatic: 262144, with TUTTI_TRANSPORT=tcp 524288"},
           &Config::slot_bytes, 0, 1 << 28, {}, kAutomatic, 4096},
    Option{{"slots", "", "staging slots of one stream"}, &Config::slots, 2, 64},
    Option{{"workers", "",
            "threads of each rank for calls of more than 512 KiB within a host; automatic: 2 where there are enough "
            "processors"},
           &Config::workers, 0, 64, {}, kAutomatic},
    Option{{"deterministic", "",
            "1: a reduction's bits depend on the inputs and the number of ranks only, not on size, algorithm or "
            "transport"},
           &Config::deterministic, 0, 1},
    Option{{"plan_file", "", "run the Plan in this file instead of choosing one"}, &Config::plan_file},
    Option{{"spin_us", "us",
            "how long a wait spins; automatic: as long as a wake-up takes, 0 with more ranks than cores"},
           &Config::spin_us, -1, 1'000'000, {}, kAutomatic},
    Option{{"yield_us", "us",
            "how long a wait yields before it sleeps; automatic: ten wake-ups for each rank of the core, at least "
            "1 ms"},
           &Config::yield_us, -1, 1'000'000, {}, kAutomatic},
    Option{{"thread_cpus", "",
            "CPUs for the library's threads that make progress: 0-3,8; empty: those of the thread that starts them, "
            "for helpers with large calls those of the rank"},
           &Config::thread_cpus},
    Option{{"bootstrap_timeout_ms", "ms", "deadline for all ranks to join"},
           &Config::bootstrap_timeout_ms, 1, kMaxTimeoutMs},
    Option{{"timeout_ms", "ms", "deadline of one call"}, &Config::timeout_ms, 1, kMaxTimeoutMs},
    Option{{"cuda_driver", "", "name or path of the CUDA driver's library"}, &Config::cuda_driver},
    Option{{"cuda_module", "", "path of libtutti_cuda.so; empty: beside libtutti.so"}, &Config::cuda_module},
    Option{{"ib_device", "",
            "RDMA devices to use, each with a port if wanted: mlx5_0,mlx5_1:2; up to four carry data at once, one that "
            "is named twice with two queue pairs; empty: the fastest, of several alike two, others for each rank"},
           &Config::ib_device},
    Option{{"ib_gid_index", "",
            "place of the RDMA port's GID to use; automatic: one of a type that the peer has too, RoCE v2 with IPv4 "
            "before others"},
           &Config::ib_gid_index, -1, 255, {}, kAutomatic},
    Option{{"ib_mtu", "bytes", "largest RDMA packet: 256, 512, 1024, 2048 or 4096; automatic: what both ports run at"},
           &Config::ib_mtu, 0, 4096, {}, kAutomatic},
    Option{{"ib_service_level", "", "InfiniBand service level, on Ethernet the priority"},
           &Config::ib_service_level, 0, 15},
    Option{{"ib_traffic_class", "", "traffic class of RDMA packets with a global header (RoCE: four times the DSCP)"},
           &Config::ib_traffic_class, 0, 255},
    Option{{"ib_pkey_index", "", "place of the partition key in the RDMA port's table"},
           &Config::ib_pkey_index, 0, 65535},
    Option{{"ib_timeout", "", "an unanswered RDMA packet is sent again after 4.096 us times two to the power of this"},
           &Config::ib_timeout, 1, 31},
    Option{{"ib_retries", "", "how often it is, before the link is taken for broken"}, &Config::ib_retries, 0, 7},
    Option{{"ib_regions", "",
            "regions of the program (tutti_mem_alloc, tutti_comm_register) that stay registered for RDMA; more take "
            "the place of those used longest ago"},
           &Config::ib_regions, 2, 1'000'000},
    Option{{"ib_region_bytes", "bytes",
            "how large they may be together; automatic: half of what the process may lock (ulimit -l)"},
           &Config::ib_region_bytes, 0, INT64_MAX, {}, kAutomatic},
    Option{{"ib_dmabuf", "",
            "whether RDMA devices read and write memory of GPUs by themselves (dmabuf) where that is offered, for "
            "sends and receives of more than 64 KiB and collectives that move larger blocks than 256 KiB: 0 no, 1 yes, "
            "2 for collectives alone; else it goes through the host's memory"},
           &Config::ib_dmabuf, 0, 2},
    Option{{"ib_library", "", "name or path of libibverbs"}, &Config::ib_library},
    Option{{"nccl_host_memory", "",
            "1: the NCCL-compatible library takes host memory too, in calls that block; NCCL takes none"},
           &Config::nccl_host_memory, 0, 1},
    Option{{"log", "", "what is said on standard error"}, &Config::log, 0, 0, {"error", "warn", "info", "debug"}},
    Option{{"calibration", "",
            "file with this host's measured costs; empty: in ~/.cache/tutti; \"off\": defaults, no measurement"},
           &Config::calibration},
    Option{{"tuning", "",
            "file with the algorithms that `tutti bench --tune` found fastest; empty: what is stored for such ranks in "
            "~/.cache/tutti; \"off\": none"},
           &Config::tuning},
};

const Option* find_option(std::string_view name) {
  auto found = std::find_if(kOptions.begin(), kOptions.end(), [&](const Option& o) { return o.info.name == name; });
  return found == kOptions.end() ? nullptr : &*found;
}

std::string_view nearest_option(std::string_view name) {
  std::array<std::string_view, kOptions.size()> names;
  std::transform(kOptions.begin(), kOptions.end(), names.begin(), [](const Option& o) { return o.info.name; });
  return nearest(name, names);
}

// "64K", "2M", "1G" are powers of 1024.
std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return std::nullopt;
  std::string_view suffix(end, text.data() + text.size() - end);
  if (suffix.empty()) return value;
  constexpr std::string_view kSuffixes = "KMG";
  size_t power = kSuffixes.find(suffix[0] & ~0x20);
  if (suffix.size() != 1 || power == std::string_view::npos) return std::nullopt;
  int shift = 10 * (static_cast<int>(power) + 1);
  if (value > (std::numeric_limits<int64_t>::max() >> shift) || value < 0) return std::nullopt;
  return value << shift;
}

std::span<const std::string_view> choices_of(const Option& option) {
  auto end = std::find(option.choices.begin(), option.choices.end(), "");
  return {option.choices.begin(), end};
}

std::string describe_accepted(const Option& option) {
  if (std::holds_alternative<NumberField>(option.field)) {
    if (option.least_word.empty()) return fmt::format("a whole number from {} to {}", option.least, option.most);
    return fmt::format("{} ({}) or a whole number from {} to {}", option.least_word, option.least,
                       option.least_quantity, option.most);
  }
  auto choices = choices_of(option);
  if (choices.empty()) return "any text";
  return fmt::format("{} or {}", fmt::join(choices.first(choices.size() - 1), ", "), choices.back());
}

Status refuse(const Option& option, std::string_view text) {
  return error(Code::kInvalidArgument, "option {} ({}) must be {}, not '{}'", option.info.name,
               variable_name(option.info.name), describe_accepted(option), text);
}

Status set_number(Config& config, const Option& option, std::string_view text) {
  bool is_word = !text.empty() && text == option.least_word;
  auto number = is_word ? option.least : parse_number(text);
  if (!number || *number < option.least || *number > option.most) return refuse(option, text);
  if (*number > option.least && *number < option.least_quantity) return refuse(option, text);
  config.*std::get<NumberField>(option.field) = *number;
  return {};
}

Status set_text(Config& config, const Option& option, std::string_view text) {
  auto field = std::get<TextField>(option.field);
  auto choices = choices_of(option);
  bool known = choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end();
  bool is_default = text.empty() && (Config().*field).empty();
  if (!known && !is_default) return refuse(option, text);
  config.*field = text;
  return {};
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(text.begin(), text.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

Status no_such_option(std::string_view name) {
  auto near = nearest_option(name);
  return error(Code::kInvalidArgument, "there is no option '{}'{}", name,
               near.empty() ? "; `tutti options` lists them" : fmt::format("; did you mean '{}'?", near));
}

}  // namespace

Status Config::set(std::string_view name, std::string_view value) {
  const Option* option = find_option(name);
  if (option == nullptr) return no_such_option(name);
  return std::holds_alternative<NumberField>(option->field) ? set_number(*this, *option, value)
                                                            : set_text(*this, *option, value);
}

Result<std::string> Config::get(std::string_view name) const {
  if (find_option(name) == nullptr) return no_such_option(name);
  return value_of(*this, name);
}

Result<Config> Config::from_environment() {
  constexpr std::string_view kPrefix = "TUTTI_";
  Config config;
  std::vector<std::string_view> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text(*entry);
    size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    std::string_view variable = text.substr(0, equals);
    std::string name = lower(variable.substr(kPrefix.size()));
    if (find_option(name) == nullptr || variable_name(name) != variable) {
      unknown.push_back(variable);
      continue;
    }
    TUTTI_TRY(config.set(name, text.substr(equals + 1)));
  }
  set_log_level(config.log);
  for (std::string_view variable : unknown) {
    auto near = nearest_option(lower(variable.substr(kPrefix.size())));
    std::string hint = near.empty() ? "; `tutti options` lists them"
                                    : fmt::format("; did you mean {}?", variable_name(near));
    log_warn_once("environment variable {} is no option of tutti and has no effect{}", variable, hint);
  }
  return config;
}

std::span<const OptionInfo> options() {
  static const auto infos = [] {
    std::array<OptionInfo, kOptions.size()> all;
    std::transform(kOptions.begin(), kOptions.end(), all.begin(), [](const Option& o) { return o.info; });
    return all;
  }();
  return infos;
}

std::string value_of(const Config& config, std::string_view name) {
  const Option* option = find_option(name);
  TUTTI_CHECK(option != nullptr);
  if (auto* number = std::get_if<NumberField>(&option->field)) {
    bool is_word = !option->least_word.empty() && config.**number == option->least;
    return is_word ? std::string(option->least_word) : fmt::format("{}", config.**number);
  }
  return config.*std::get<TextField>(option->field);
}

std::string accepted_values(std::string_view name) {
  const Option* option = find_option(name);
  TUTTI_CHECK(option != nullptr);
  return describe_accepted(*option);
}

std::string variable_name(std::string_view option) {
  std::string name = "TUTTI_";
  std::transform(option.begin(), option.end(), std::back_inserter(name),
                 [](unsigned char c) { return std::toupper(c); });
  return name;
}

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (std::string_view candidate : candidates) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        size_t substitute = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
      }
    }
    // A beginning counts as nearly right: "timeout" for "timeout_ms".
    size_t distance = candidate.starts_with(word) && !word.empty() ? std::min<size_t>(row.back(), 1) : row.back();
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace tutti
