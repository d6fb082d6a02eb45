// What the environment of each launcher means.
#include <catch2/catch.hpp>

#include <map>

#include "bootstrap/launch.h"

namespace tutti::bootstrap {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Result<Launch> launch_of(const Variables& variables, const Config& config = {}, bool have_pmix = true) {
  return read_launch(
      config,
      [&](std::string_view name) -> std::optional<std::string> {
        auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      have_pmix);
}

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Variables kTorchrun = {{"RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "localhost"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "none"},
                             {"TORCHELASTIC_RESTART_COUNT", "0"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"PMIX_RANK", "2"},
                            {"PMIX_NAMESPACE", "1737621505"},    {"PMIX_SERVER_URI2", "x;tcp4://127.0.0.1:42929"}};
const Variables kHydra = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"PMI_FD", "6"}, {"MPI_LOCALNRANKS", "4"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "node[01-02]"}};

std::string error_of(const Result<Launch>& launch) { return std::string(launch.status().message()); }

TEST_CASE("without a launcher a process is rank 0 of 1") {
  auto launch = launch_of({});
  REQUIRE(launch.ok());
  CHECK(*launch == Launch());
}

TEST_CASE("each launcher's variables give rank, size and the way of the id") {
  struct Row {
    Variables variables;
    std::string launcher;
    int rank;
    int nranks;
    IdChannel channel;
  };
  const Row rows[] = {
      {kTorchrun, "torchrun", 1, 4, IdChannel::kOneHost},
      {kOpenMpi, "Open MPI", 2, 4, IdChannel::kOneHost},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), "Open MPI", 2, 4, IdChannel::kPmix},
      {{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "n"}}, "PMIx", 1, 0, IdChannel::kPmix},
      {with(kSlurm, {{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "n"}, {"SLURM_STEP_NUM_NODES", "2"}}), "Slurm", 3, 4,
       IdChannel::kPmix},
      {kHydra, "hydra", 3, 4, IdChannel::kPmi1},
      {kSlurm, "Slurm", 3, 4, IdChannel::kOneHost},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMI_FD", "6"}}, "hydra", 0, 1, IdChannel::kNone},
      {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}},
       "none",
       0,
       1,
       IdChannel::kNone},  // a batch script
      {with(kOpenMpi, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}}), "Open MPI", 2, 4,
       IdChannel::kOneHost},
  };
  for (const Row& row : rows) {
    auto launch = launch_of(row.variables);
    INFO(row.launcher << " " << (launch.ok() ? "" : error_of(launch)));
    REQUIRE(launch.ok());
    CHECK(launch->launcher == row.launcher);
    CHECK(launch->rank == row.rank);
    CHECK(launch->nranks == row.nranks);
    CHECK(launch->channel == row.channel);
  }
}

TEST_CASE("a job's identity differs between jobs and restarts, and not between ranks") {
  std::string identity = launch_of(kTorchrun)->job_identity;
  CHECK(launch_of(with(kTorchrun, {{"RANK", "3"}}))->job_identity == identity);
  CHECK(launch_of(with(kTorchrun, {{"MASTER_PORT", "29501"}}))->job_identity != identity);
  CHECK(launch_of(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}}))->job_identity != identity);
}

TEST_CASE("tutti's own variables win over any launcher's") {
  Config config;
  config.rank = 0;
  config.size = 2;
  config.id_fd = 5;
  auto launch = launch_of(with(kTorchrun, kOpenMpi), config);
  REQUIRE(launch.ok());
  CHECK(launch->channel == IdChannel::kFd);
  CHECK(launch->nranks == 2);
  config.id_fd = -1;
  config.address = "node0:29400";
  config.secret_file = "/etc/secret";
  launch = launch_of({}, config);
  REQUIRE(launch.ok());
  CHECK(launch->channel == IdChannel::kSecretFile);
  CHECK(launch->address == "node0:29400");
}

TEST_CASE("a rank without a size is refused, and the other way round") {
  Config config;
  config.rank = 1;
  CHECK_THAT(error_of(launch_of({}, config)), Catch::Contains("TUTTI_SIZE is not set"));
  CHECK_THAT(error_of(launch_of({{"OMPI_COMM_WORLD_RANK", "1"}})), Catch::Contains("OMPI_COMM_WORLD_RANK=1"));
  CHECK_THAT(error_of(launch_of({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}})), Catch::Contains("PMI_RANK=4, PMI_SIZE=4"));
  CHECK_THAT(error_of(launch_of({{"RANK", "1"}, {"WORLD_SIZE", "4"}})), Catch::Contains("MASTER_ADDR"));
}

TEST_CASE("launchers that contradict each other are refused with their variables") {
  std::string message = error_of(launch_of(with(kTorchrun, kOpenMpi)));
  CHECK_THAT(message, Catch::Contains("RANK=1, WORLD_SIZE=4") &&
                          Catch::Contains("OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=4"));
}

TEST_CASE("several hosts without a channel for the secret are refused with what to set") {
  auto launch = launch_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}}));
  CHECK_THAT(error_of(launch), Catch::Contains("a job of 4 ranks (torchrun)") && Catch::Contains("TUTTI_SECRET_FILE"));
  launch = launch_of(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}), {}, false);
  CHECK_THAT(error_of(launch), Catch::Contains("TUTTI_SECRET_FILE") && Catch::Contains("TUTTI_ADDRESS"));
}

TEST_CASE("with a secret file torchrun's and Slurm's ranks meet at an address that all of them know") {
  Config config;
  config.secret_file = "/etc/secret";
  CHECK(launch_of(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "2"}}), config)->address == "localhost:29501");
  auto launch = launch_of(with(kSlurm, {{"SLURM_STEP_NUM_NODES", "2"}}), config);
  REQUIRE(launch.ok());
  CHECK(launch->channel == IdChannel::kSecretFile);
  CHECK(launch->address.starts_with("node01:"));
}

TEST_CASE("the first host of a Slurm node list") {
  CHECK(first_host("node7") == "node7");
  CHECK(first_host("node[01-04,7],other") == "node01");
  CHECK(first_host("a,b[1-2]") == "a");
  CHECK(first_host("rack[3]-x,b") == "rack3-x");
  CHECK(first_host("") == "");
  CHECK(first_host("node[") == "");
}

}  // namespace
}  // namespace tutti::bootstrap
