// How a communicator makes others of its ranks: they agree on the groups over the data connections, and each group
// meets as the ranks of any job do. The groups' secrets derive from what all ranks know; nothing secret travels.
#include <algorithm>

#include "bootstrap/crypto.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/unique_id.h"
#include "core/communicator.h"
#include "core/tuning_file.h"

namespace tutti {
namespace {

struct Wish {
  int32_t color;
  int32_t key;
};

struct Group {
  std::vector<int> ranks;  // of the parent, in the order of the new ranks
  int own = 0;             // this rank's place among them
};

Group group_of(const std::vector<Wish>& wishes, int rank) {
  Group group;
  for (int other = 0; other < static_cast<int>(wishes.size()); ++other) {
    if (wishes[other].color == wishes[rank].color) group.ranks.push_back(other);
  }
  std::stable_sort(group.ranks.begin(), group.ranks.end(),
                   [&](int a, int b) { return wishes[a].key < wishes[b].key; });
  group.own = static_cast<int>(std::find(group.ranks.begin(), group.ranks.end(), rank) - group.ranks.begin());
  return group;
}

}  // namespace

// Everyone's value, in rank order.
template <typename T>
Result<std::vector<T>> Communicator::gather_from_all(const T& mine) {
  std::vector<T> all(static_cast<size_t>(nranks_));
  TUTTI_TRY(run({.collective = TUTTI_ALL_GATHER,
                 .datatype = TUTTI_UINT8,
                 .count = sizeof(T),
                 .input = reinterpret_cast<const std::byte*>(&mine),
                 .output = reinterpret_cast<std::byte*>(all.data())}));
  return all;
}

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key, const Config* config) {
  Config options = config != nullptr ? *config : config_;
  // A plan is for this communicator's ranks; a configuration of the caller's may have it from the environment.
  if (options.plan_file == config_.plan_file) options.plan_file.clear();
  uint64_t number = ++splits_;
  auto wishes = TUTTI_TRY(gather_from_all(Wish{color, key}));
  Group group = group_of(wishes, rank_);
  // So is a tuning that was named.
  bool is_whole = group.ranks.size() == wishes.size();
  if (options.tuning == config_.tuning && !is_whole && options.tuning != kNoTuning) options.tuning.clear();
  bool takes_part = color >= 0;
  bool leads = takes_part && group.own == 0 && group.ranks.size() > 1;
  bootstrap::Secret secret = bootstrap::derive(control_->token(), fmt::format("tutti split {} {}", number, color));

  // Of each group its first rank opens the meeting point; all tell what they have, most of them nothing.
  // Who cannot says so by an id of zeros, so that nobody waits for it.
  Result<std::unique_ptr<bootstrap::Rendezvous>> meeting{nullptr};
  tutti_unique_id_t id{};
  if (leads) meeting = bootstrap::Rendezvous::create({.interface = options.interface, .secret = secret});
  if (leads && meeting.ok()) {
    bootstrap::UniqueId open = (*meeting)->id();
    open.secret = {};
    id = bootstrap::encode(open);
  }
  auto ids = TUTTI_TRY(gather_from_all(id));
  if (!takes_part) return std::unique_ptr<Communicator>();
  if (!meeting.ok()) return std::move(meeting).status();

  JoinInfo info;
  info.rank = group.own;
  info.nranks = static_cast<int>(group.ranks.size());
  info.launcher = kSplitLauncher;
  if (info.nranks > 1) {
    auto known = bootstrap::decode_unique_id(ids[group.ranks[0]]);
    if (!known.ok()) {
      return error(Code::kRemote,
                   "rank {} could not open the meeting point of the new communicator; its error says why",
                   group.ranks[0]);
    }
    known->secret = secret;
    info.id = bootstrap::encode(*known);
  }
  auto made = TUTTI_TRY(create(context_, info, options, Deadline::after_ms(options.bootstrap_timeout_ms)));
  if (has_profiler()) TUTTI_TRY(made->set_profiler(&profiler_));
  return made;
}

}  // namespace tutti
