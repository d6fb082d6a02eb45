#include "core/tuning_file.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "discovery/text_file.h"
#include "topology/digest.h"

namespace tutti {
namespace {

// One for each kind of job: the same machine is tuned for other numbers of ranks too. "" without a cache folder.
std::string cached_file(const TunedRanks& ranks) {
  std::string folder = cache_folder();
  if (folder.empty()) return "";
  std::string machines;
  for (const TunedMachine& each : ranks.machines) {
    machines += fmt::format("{}/{}/{}\n", each.architecture, each.model, each.logical_cpus);
  }
  return fmt::format("{}/tuning-{}-ranks-{}-hosts-{}-{:08x}.json", folder, ranks.nranks, ranks.hosts, ranks.transport,
                     digest_of(machines) & 0xffffffff);
}

// `ranks`: null for one rank, which may be given a file for any.
Result<TuningTable> table_for(const TunedRanks* ranks, std::string_view text, const std::string& file) {
  Result<TuningTable> table = parse_tuning(text);
  if (!table.ok()) return std::move(table).status().within(file);
  if (ranks != nullptr && table->ranks != *ranks) {
    return error(Code::kInvalidUsage, "{}: it is for {}, but here are {}", file, to_text(table->ranks),
                 to_text(*ranks));
  }
  return table;
}

Status refusal(const Status& cause) {
  return error(cause.code(),
               "cannot use the tuning file {}; `tutti bench --tune` measures anew, TUTTI_TUNING=off goes without",
               cause.message());
}

bool is_file(const std::string& path) {
  std::error_code absent;
  return std::filesystem::is_regular_file(path, absent);
}

// Adds what the file says of collectives that `table` does not have, if it is of the same ranks.
void keep_others(const std::string& file, TuningTable& table) {
  Result<std::string> text = read_text_file(file);
  if (!text.ok()) return;
  Result<TuningTable> stored = table_for(&table.ranks, *text, file);
  if (!stored.ok()) return;
  for (TunedCollective& each : stored->collectives) {
    auto is_same = [&](const TunedCollective& other) { return other.collective == each.collective; };
    bool is_new = std::none_of(table.collectives.begin(), table.collectives.end(), is_same);
    if (is_new) table.collectives.push_back(std::move(each));
  }
}

std::string name_of(const TuningVote& vote) {
  return vote.digest == 0 ? "no tuning" : fmt::format("the tuning {:016x}", vote.digest);
}

}  // namespace

Result<StoredTuning> load_tuning(const Config& config, const Topology& topology) {
  bool named = !config.tuning.empty();
  bool alone = topology.nranks() < 2;
  if (config.tuning == kNoTuning || (alone && !named)) return StoredTuning();
  TunedRanks ranks;
  if (!alone) ranks = tuned_ranks_of(topology);
  std::string file = named ? config.tuning : cached_file(ranks);
  // A cache that cannot be looked at has nothing for this process.
  if (!named && (file.empty() || ::access(file.c_str(), F_OK) != 0)) return StoredTuning();
  Result<std::string> text = read_text_file(file);
  if (!text.ok() && named) return std::move(text).status();
  Result<TuningTable> table = text.ok() ? table_for(alone ? nullptr : &ranks, *text, file) : text.status();
  if (!table.ok() && named) return refusal(table.status());
  if (!table.ok()) {
    log_warn_once("no tuning is used: {}", text.ok() ? refusal(table.status()).message() : table.status().message());
    return StoredTuning();
  }
  if (alone) return StoredTuning();
  uint64_t digest = digest_of(to_json(*table));
  return StoredTuning{std::move(table->collectives), digest, named};
}

TuningVote vote_of(const StoredTuning& stored) { return {stored.digest, stored.named ? uint64_t{1} : uint64_t{0}}; }

Result<bool> agree(std::span<const TuningVote> votes) {
  bool same = true, named = false;
  size_t other = 0;
  for (size_t rank = 0; rank < votes.size(); ++rank) {
    named = named || votes[rank].named != 0;
    if (!same || votes[rank].digest == votes[0].digest) continue;
    same = false;
    other = rank;
  }
  if (same || !named) return same;
  return error(Code::kInvalidUsage,
               "ranks differ: TUTTI_TUNING gives {} on rank 0 and {} on rank {}; name files with the same tuning on "
               "all ranks, or set TUTTI_TUNING=off on all",
               name_of(votes[0]), name_of(votes[other]), other);
}

Result<std::string> store_tuning(TuningTable table, const std::string& path) {
  std::string file = path.empty() ? cached_file(table.ranks) : path;
  if (file.empty()) {
    return error(Code::kInvalidUsage,
                 "no place for the tuning file: neither XDG_CACHE_HOME nor HOME is set; name a file (`tutti bench "
                 "--tune --output FILE`)");
  }
  if (is_file(file)) keep_others(file, table);
  TUTTI_TRY(make_folder_of(file));
  TUTTI_TRY(write_text_file(file, to_json(table)));
  return file;
}

}  // namespace tutti
