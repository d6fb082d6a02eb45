#include "communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <c10/util/Exception.h>

namespace tutti_torch {
namespace {

constexpr const char* kIdKey = "tutti_id";
constexpr char kIsId = '0', kIsSentence = '1';  // how the value begins
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

// A group's store may outlive the group: torchrun gives it to the processes that it starts again. So rank 0 takes the id
// back once all have joined, and a rank that meets nobody by an id looks whether there is a newer one.
constexpr auto kNewerIdWait = std::chrono::seconds(3);
constexpr auto kPoll = std::chrono::milliseconds(50);

using Value = std::vector<uint8_t>;

// What rank 0 says: the id, or what kept it from making one.
Value make_id(tutti_unique_id_t& id) {
  tutti_status_t status = tutti_get_unique_id(&id);
  std::string sentence = status == TUTTI_SUCCESS ? "" : tutti_last_error(nullptr);
  Value value(1 + (status == TUTTI_SUCCESS ? sizeof id.bytes : sentence.size()));
  value[0] = status == TUTTI_SUCCESS ? kIsId : kIsSentence;
  const void* rest = status == TUTTI_SUCCESS ? static_cast<const void*>(id.bytes) : sentence.data();
  std::memcpy(value.data() + 1, rest, value.size() - 1);
  return value;
}

tutti_unique_id_t id_of(const Value& value, Milliseconds timeout) {
  tutti_unique_id_t id{};
  if (value.size() != 1 + sizeof id.bytes || value[0] != kIsId) {
    std::string sentence = value.empty() ? "" : std::string(value.begin() + 1, value.end());
    raise(TUTTI_SYSTEM_ERROR, "rank 0 could not make the group's id", sentence, timeout);
  }
  std::memcpy(id.bytes, value.data() + 1, sizeof id.bytes);
  return id;
}

// Rank 0 may take the key back at any time, and get() would wait for it: compareSet() says at once what is there, and
// `old` if nothing is.
bool has_newer_id(c10d::Store& store, const Value& old) {
  auto end = std::chrono::steady_clock::now() + kNewerIdWait;
  try {
    do {
      if (store.compareSet(kIdKey, old, old) != old) return true;
      std::this_thread::sleep_for(kPoll);
    } while (std::chrono::steady_clock::now() < end);
  } catch (const std::exception&) {  // the store is gone, or cannot tell
  }
  return false;
}

tutti_comm_t* join_by(const tutti_unique_id_t& id, int rank, int size, const Config& config) {
  tutti_comm_t* comm = nullptr;
  tutti_comm_init_rank_config(&comm, size, &id, rank, config.get());
  return comm;
}

std::string hex(const tutti_unique_id_t& id) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : id.bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

struct Meeting {
  tutti_comm_t* comm;
  tutti_unique_id_t id;
};

Meeting meet(c10d::Store& store, int rank, int size, Milliseconds timeout, const Config& config) {
  if (rank == 0) {
    tutti_unique_id_t id{};
    Value value = make_id(id);
    store.set(kIdKey, value);
    id_of(value, timeout);
    tutti_comm_t* comm = join_by(id, rank, size, config);
    std::string sentence = comm == nullptr ? tutti_last_error(nullptr) : "";
    store.deleteKey(kIdKey);
    if (comm == nullptr) raise(TUTTI_REMOTE_ERROR, "joining the group", sentence, timeout);
    return {comm, id};
  }
  for (;;) {
    store.wait({kIdKey}, timeout);
    Value value = store.get(kIdKey);
    tutti_unique_id_t id = id_of(value, timeout);
    tutti_comm_t* comm = join_by(id, rank, size, config);
    if (comm != nullptr) return {comm, id};
    std::string sentence = tutti_last_error(nullptr);
    if (!has_newer_id(store, value)) raise(TUTTI_REMOTE_ERROR, "joining the group", sentence, timeout);
  }
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
  for (auto& [name, value] : settings) config.set(name, value);
  auto watcher = std::make_shared<Watcher>();
  watcher->start();
  try {
    Meeting met = meet(store, rank, size, timeout, config);
    return std::shared_ptr<Communicator>(new Communicator(met.comm, hex(met.id), timeout, watcher));
  } catch (...) {
    watcher->stop();
    throw;
  }
}

Communicator::Communicator(tutti_comm_t* comm, std::string id, Milliseconds timeout, std::shared_ptr<Watcher> watcher)
    : comm_(comm), id_(std::move(id)), timeout_(timeout), process_(::getpid()), watcher_(std::move(watcher)) {}

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
  communicator.changed_.wait(lock, [&] { return communicator.state_ == State::kDestroyed; });
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
    changed_.wait(lock, [this] { return under_way_.load(std::memory_order_seq_cst) == 0; });
  }
  watcher_->stop();
  tutti_comm_finalize(comm_);  // blocks; abort() ends it, and whoever still waits takes what is complete
  destroying_.store(true, std::memory_order_seq_cst);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return users_.load(std::memory_order_seq_cst) == 0; });
    state_ = State::kDestroying;
  }
  tutti_comm_destroy(comm_);
  std::lock_guard lock(mutex_);
  state_ = State::kDestroyed;
  changed_.notify_all();
}

}  // namespace tutti_torch
