// A small program to start with a launcher: it joins from the environment, exchanges, leaves, and does so a second
// time.
#include <cstdio>
#include <string>

#include "bootstrap/launcher.h"

namespace {

using namespace tutti;

Status one_life(const JoinInfo& info, const Config& config, int round) {
  Deadline deadline = Deadline::after_ms(config.bootstrap_timeout_ms);
  auto plane = TUTTI_TRY(ControlPlane::join(info, config, deadline));
  std::string mine = fmt::format("{} in round {}", plane->rank(), round);
  auto parts = TUTTI_TRY(plane->all_gather(std::as_bytes(std::span(mine.data(), mine.size())), "names", deadline));
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    std::string theirs(reinterpret_cast<const char*>(parts[rank].data()), parts[rank].size());
    if (theirs != fmt::format("{} in round {}", rank, round))
      return error(Code::kInternal, "rank {} said \"{}\"", rank, theirs);
  }
  TUTTI_TRY(plane->start({}));
  (void)plane->leave(Deadline::after_ms(5'000), Deadline::after_ms(5'000));
  return {};
}

// With "exchange" the id goes through PMIx even where the ranks of one host would need none.
Result<JoinInfo> info_of(const Config& config, bool exchange) {
  Deadline deadline = Deadline::after_ms(config.bootstrap_timeout_ms);
  if (!exchange) return detect_launcher(config, deadline);
  auto launch = TUTTI_TRY(bootstrap::read_launch(config, environment, true));
  launch.channel = bootstrap::IdChannel::kPmix;
  return bootstrap::exchange_id(launch, config, deadline);
}

Status run(int expected_ranks, bool exchange) {
  Config config = TUTTI_TRY(Config::from_environment());
  for (int round = 0; round < 2; ++round) {
    JoinInfo info = TUTTI_TRY(info_of(config, exchange));
    if (info.nranks != expected_ranks)
      return error(Code::kInternal, "{} ranks where {} were started", info.nranks, expected_ranks);
    TUTTI_TRY(one_life(info, config, round));
    if (round == 1) std::printf("rank %d of %d, started by %s: ok\n", info.rank, info.nranks, info.launcher.c_str());
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  Status status = run(std::stoi(argv[1]), argc > 2 && std::string(argv[2]) == "exchange");
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
