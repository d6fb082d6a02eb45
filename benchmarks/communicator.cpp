#include "communicator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace tutti::bench {
namespace {

[[noreturn]] void fail_without_communicator(tutti_status_t status) {
  std::string_view sentence = tutti_last_error(nullptr);
  throw std::runtime_error(std::string(sentence.empty() ? tutti_status_text(status) : sentence));
}

void require(tutti_status_t status) {
  if (status != TUTTI_SUCCESS) fail_without_communicator(status);
}

using Config = std::unique_ptr<tutti_config_t, void (*)(tutti_config_t*)>;

Config config_of(const Options& options) {
  tutti_config_t* raw = nullptr;
  require(tutti_config_create(&raw));
  Config config(raw, tutti_config_destroy);
  if (!options.transport.empty()) require(tutti_config_set(raw, "transport", options.transport.c_str()));
  if (!options.algorithm.empty()) require(tutti_config_set(raw, "algorithm", options.algorithm.c_str()));
  if (!options.tuning.empty()) require(tutti_config_set(raw, "tuning", options.tuning.c_str()));
  if (options.deterministic) require(tutti_config_set(raw, "deterministic", "1"));
  return config;
}

}  // namespace

std::string cuda_driver() {
  Config config = config_of({});
  const char* library = nullptr;
  require(tutti_config_get(config.get(), "cuda_driver", &library));
  return library;
}

tutti_unique_id_t make_job() {
  tutti_unique_id_t id{};
  require(tutti_get_unique_id(&id));
  return id;
}

Communicator::Communicator(const Options& options, const Seat* seat) {
  Config config = config_of(options);
  require(seat == nullptr
              ? tutti_comm_init_from_environment(&comm_, config.get())
              : tutti_comm_init_rank_config(&comm_, seat->ranks, &seat->id, seat->rank, config.get()));
  tutti_comm_rank(comm_, &rank_);
  tutti_comm_size(comm_, &size_);
}

Communicator::Communicator(Communicator& other, const Options& options) : rank_(other.rank_), size_(other.size_) {
  other.check(tutti_comm_dup(other.comm_, &comm_, config_of(options).get()));
}

Communicator::~Communicator() {
  if (!finished_) tutti_comm_abort(comm_);
  tutti_comm_destroy(comm_);
}

void Communicator::fail(tutti_status_t status) const {
  std::string_view sentence = tutti_last_error(comm_);
  throw std::runtime_error(fmt::format("rank {}: {}", rank_, sentence.empty() ? tutti_status_text(status) : sentence));
}

tutti_plan_info_t Communicator::plan_info(const tutti_call_t& call) {
  tutti_plan_info_t plan = {};
  plan.struct_size = sizeof plan;
  check(tutti_comm_plan_info(comm_, &call, &plan));
  return plan;
}

tutti_request_t* Communicator::start(const tutti_call_t& call) {
  tutti_request_t* request = nullptr;
  check(tutti_start(comm_, &call, &request));
  return request;
}

std::string Communicator::store_tuning(std::span<const tutti_tuned_t> lines, const std::string& path) {
  char* stored = nullptr;
  require(tutti_comm_store_tuning(comm_, lines.data(), lines.size(), path.empty() ? nullptr : path.c_str(), &stored));
  std::unique_ptr<char, void (*)(char*)> text(stored, tutti_text_free);
  return text.get();
}

// Of a communicator of these two, since it says what it has for all its ranks.
std::string Communicator::transport_of_first_pair() {
  bool is_one = rank_ < 2;
  tutti_comm_t* raw = nullptr;
  check(tutti_comm_split(comm_, is_one ? 0 : -1, rank_, &raw, nullptr));
  std::unique_ptr<tutti_comm_t, tutti_status_t (*)(tutti_comm_t*)> pair(raw, tutti_comm_destroy);
  if (!is_one) return "";
  tutti_call_t call = {};
  call.struct_size = sizeof call;
  call.collective = TUTTI_BARRIER;
  tutti_plan_info_t plan = {};
  plan.struct_size = sizeof plan;
  tutti_status_t status = tutti_barrier(pair.get(), nullptr);  // a way that turns out not to work is known only then
  if (status == TUTTI_SUCCESS) status = tutti_comm_plan_info(pair.get(), &call, &plan);
  if (status != TUTTI_SUCCESS) {
    throw std::runtime_error(fmt::format("rank {}: {}", rank_, tutti_last_error(pair.get())));
  }
  return plan.transport;
}

int64_t Communicator::agree(int64_t value, tutti_op_t op) {
  int64_t result = 0;
  all_reduce(&value, &result, 1, TUTTI_INT64, op);
  return result;
}

double Communicator::agree(double value, tutti_op_t op) {
  double result = 0;
  all_reduce(&value, &result, 1, TUTTI_FLOAT64, op);
  return result;
}

std::vector<RankInfo> Communicator::introduce(const Device& device) {
  struct Card {
    int64_t pid;
    char host[120];
    char device[80];
    char gpu[40];
  };
  auto write = [](const std::string& text, std::span<char> field) {
    std::memcpy(field.data(), text.data(), std::min(text.size(), field.size()));
  };
  auto read = [](std::span<const char> field) {
    return std::string(field.data(), ::strnlen(field.data(), field.size()));
  };
  // Each rank fills only its own place: the sum of the bytes is everybody's.
  std::vector<Card> mine(size_), all(size_);
  Card& card = mine[rank_];
  card.pid = ::getpid();
  ::gethostname(card.host, sizeof card.host - 1);
  write(device.name(), card.device);
  write(device.gpu(), card.gpu);
  all_reduce(mine.data(), all.data(), all.size() * sizeof(Card), TUTTI_UINT8, TUTTI_SUM);
  std::vector<RankInfo> ranks;
  for (const Card& one : all) ranks.push_back({one.pid, read(one.host), read(one.device), read(one.gpu)});
  return ranks;
}

int Communicator::local_rank() {
  std::vector<RankInfo> ranks = introduce(*make_host());
  auto own = ranks.begin() + rank_;
  return static_cast<int>(std::count_if(ranks.begin(), own, [&](auto& one) { return one.host == own->host; }));
}

void Communicator::finish() {
  check(tutti_comm_finalize(comm_));
  finished_ = true;
}

}  // namespace tutti::bench
