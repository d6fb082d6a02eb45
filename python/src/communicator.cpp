#include "communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <c10/util/Exception.h>

#include "store.h"

namespace tutti_torch {
namespace {

constexpr const char* kKey = "tutti_id";  // in the store, which is the group's alone
constexpr int64_t kLongestMs = 2'592'000'000;   // that tutti's options take

// Options from the environment, then the group's.
class Config {
 public:
  Config() { check(tutti_config_create(&config_)); }
  ~Config() { tutti_config_destroy(config_); }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  void set(const std::string& name, const std::string& value) {
    check(tutti_config_set(config_, name.c_str(), value.c_str()));
  }
  const tutti_config_t* get() const { return config_; }

 private:
  static void check(tutti_status_t status) {
    if (status != TUTTI_SUCCESS) raise(status, "the options", tutti_last_error(nullptr), {});
  }
  tutti_config_t* config_ = nullptr;
};

tutti_comm_t* join(c10d::Store& store, int rank, int size, Milliseconds timeout, const Config& config) {
  tutti_store_t as_tutti_has_it = store_of(store);
  tutti_comm_t* comm = nullptr;
  tutti_status_t status = tutti_comm_init_store(&comm, size, rank, &as_tutti_has_it, kKey, config.get());
  if (status != TUTTI_SUCCESS) raise(status, "joining the group", tutti_last_error(nullptr), timeout);
  return comm;
}

std::string name_of(tutti_comm_t* comm) {
  uint64_t id = 0;
  tutti_comm_id(comm, &id);
  return c10::str(id);
}

}  // namespace

void raise(tutti_status_t status, const std::string& what, const std::string& sentence, Milliseconds timeout) {
  std::string waited = status == TUTTI_TIMEOUT ? c10::str("Timed out waiting ", timeout.count(), "ms: ") : "";
  std::string text = sentence.empty() ? tutti_status_text(status) : sentence;
  C10_THROW_ERROR(DistBackendError, c10::str("tutti: ", what, ": ", waited, text));
}

std::shared_ptr<Communicator> Communicator::create(c10d::Store& store, int rank, int size, Milliseconds timeout,
                                                   const Settings& settings) {
  std::string timeout_ms = std::to_string(std::clamp<int64_t>(timeout.count(), 1, kLongestMs));
  Config config;
  config.set("timeout_ms", timeout_ms);
  config.set("bootstrap_timeout_ms", timeout_ms);
  // A send that a NIC reads from the GPU holds its stream until it is received. Those of a group share one, and are
  // received in any order.
  const char* wish = std::getenv("TUTTI_IB_DMABUF");
  if (wish == nullptr || std::string_view(wish) != "0") config.set("ib_dmabuf", "2");
  for (auto& [name, value] : settings) config.set(name, value);
  auto watcher = std::make_shared<Watcher>();
  watcher->start();
  try {
    tutti_comm_t* comm = join(store, rank, size, timeout, config);
    return std::shared_ptr<Communicator>(new Communicator(comm, timeout, watcher));
  } catch (...) {
    watcher->stop();
    throw;
  }
}

Communicator::Communicator(tutti_comm_t* comm, Milliseconds timeout, std::shared_ptr<Watcher> watcher)
    : comm_(comm), name_(name_of(comm)), timeout_(timeout), process_(::getpid()), watcher_(std::move(watcher)) {}

Communicator::~Communicator() { close(); }

// Each says that it is there before it looks whether it may be, and close() the other way round: one of them sees the
// other.
Communicator::Use::Use(Communicator& communicator, For what) : communicator_(communicator), what_(what) {
  if (what == For::kCall) {
    communicator.call_started();
    if (!communicator.closing_.load(std::memory_order_seq_cst)) return;
    communicator.call_completed();
    C10_THROW_ERROR(DistBackendError, "tutti: this process group was shut down: it takes no more calls");
  }
  communicator.users_.fetch_add(1, std::memory_order_seq_cst);
  if (!communicator.destroying_.load(std::memory_order_seq_cst)) return;
  communicator.leave();
  is_destroyed_ = true;
  std::unique_lock lock(communicator.mutex_);
  communicator.changed_.wait_for(lock, kForever, [&] { return communicator.state_ == State::kDestroyed; });
}

Communicator::Use::~Use() {
  if (what_ == For::kCall) {
    communicator_.call_completed();
  } else if (!is_destroyed_) {
    communicator_.leave();
  }
}

void Communicator::leave() {
  int before = users_.fetch_sub(1, std::memory_order_seq_cst);
  if (before == 1 && destroying_.load(std::memory_order_seq_cst)) announce();
}

void Communicator::announce() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Communicator::call_completed() {
  int before = under_way_.fetch_sub(1, std::memory_order_seq_cst);
  if (before == 1 && closing_.load(std::memory_order_seq_cst)) announce();
}

std::string Communicator::sentence() const {
  std::lock_guard lock(mutex_);
  return tutti_last_error(state_ == State::kOpen ? comm_ : nullptr);
}

void Communicator::abort() {
  std::lock_guard lock(mutex_);
  if (state_ == State::kOpen) tutti_comm_abort(comm_);
}

tutti_status_t Communicator::status() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kOpen ? tutti_comm_status(comm_) : TUTTI_SUCCESS;
}

void Communicator::drop() {
  bool was_closed = closing_.load(std::memory_order_seq_cst);
  if (!was_closed && ::getpid() == process_ && under_way_.load(std::memory_order_seq_cst) > 0) abort();
  close();
}

void Communicator::close() {
  if (closing_.exchange(true, std::memory_order_seq_cst)) return;
  if (::getpid() != process_) return;  // the parent has the threads and the connections
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kForever, [this] { return under_way_.load(std::memory_order_seq_cst) == 0; });
  }
  watcher_->stop();
  tutti_comm_finalize(comm_);  // blocks; abort() ends it, and whoever still waits takes what is complete
  destroying_.store(true, std::memory_order_seq_cst);
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kForever, [this] { return users_.load(std::memory_order_seq_cst) == 0; });
    state_ = State::kDestroying;
  }
  tutti_comm_destroy(comm_);
  std::lock_guard lock(mutex_);
  state_ = State::kDestroyed;
  changed_.notify_all();
}

}  // namespace tutti_torch
