// Ranks that meet through a key-value store of the program's.
#include <catch2/catch.hpp>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {
namespace {

using Catch::Matchers::Contains;

// What a program brings along: texts by key, and a wait for them.
struct Store {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  bool takes = true;
  bool waits = true;
  bool removes = true;
  int gone = 0;  // removals

  static tutti_status_t set(void* context, const char* key, const char* value) {
    auto& store = *static_cast<Store*>(context);
    std::lock_guard lock(store.mutex);
    if (!store.takes) return TUTTI_SYSTEM_ERROR;
    store.values[key] = value;
    store.changed.notify_all();
    return TUTTI_SUCCESS;
  }
  static tutti_status_t get(void* context, const char* key, char* value, size_t size_bytes, int64_t timeout_ms) {
    auto& store = *static_cast<Store*>(context);
    std::unique_lock lock(store.mutex);
    if (!store.takes) return TUTTI_SYSTEM_ERROR;
    auto is_there = [&] { return store.values.count(key) > 0; };
    if (store.waits) store.changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), is_there);
    if (!is_there()) return TUTTI_TIMEOUT;
    snprintf(value, size_bytes, "%s", store.values[key].c_str());
    return TUTTI_SUCCESS;
  }
  static tutti_status_t remove(void* context, const char* key) {
    auto& store = *static_cast<Store*>(context);
    std::lock_guard lock(store.mutex);
    store.gone += static_cast<int>(store.values.erase(key));
    return TUTTI_SUCCESS;
  }

  tutti_store_t handed_over() { return {sizeof(tutti_store_t), set, get, removes ? remove : nullptr, this}; }
};

struct Joined {
  tutti_status_t status = TUTTI_SUCCESS;
  std::string sentence;
  uint64_t id = 0;
  float sum = 0;
  int64_t took_ms = 0;
};

Joined join(Store& store, int nranks, int rank, int64_t timeout_ms, const char* interface = "") {
  Joined joined;
  tutti_config_t* config = nullptr;
  tutti_config_create(&config);
  tutti_config_set(config, "calibration", "off");
  tutti_config_set(config, "interface", interface);
  tutti_config_set(config, "bootstrap_timeout_ms", std::to_string(timeout_ms).c_str());
  tutti_store_t handed_over = store.handed_over();
  tutti_comm_t* comm = nullptr;
  auto begin = std::chrono::steady_clock::now();
  joined.status = tutti_comm_init_store(&comm, nranks, rank, &handed_over, "the job", config);
  auto took = std::chrono::steady_clock::now() - begin;
  joined.took_ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  joined.sentence = tutti_last_error(nullptr);
  tutti_config_destroy(config);
  if (joined.status != TUTTI_SUCCESS) return joined;
  tutti_comm_id(comm, &joined.id);
  float one = 1;
  tutti_all_reduce(&one, &joined.sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
  tutti_comm_destroy(comm);
  return joined;
}

// All ranks, on threads; rank 0 comes that much later.
std::vector<Joined> join_all(Store& store, int nranks, int64_t timeout_ms = 20'000,
                             std::chrono::milliseconds later = {}, const char* interface_of_rank_0 = "") {
  std::vector<Joined> joined(nranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (rank == 0) std::this_thread::sleep_for(later);
      joined[rank] = join(store, nranks, rank, timeout_ms, rank == 0 ? interface_of_rank_0 : "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  return joined;
}

void check_all(const std::vector<Joined>& joined) {
  for (const Joined& rank : joined) {
    INFO(rank.sentence);
    CHECK(rank.status == TUTTI_SUCCESS);
    CHECK(rank.sum == static_cast<float>(joined.size()));
    CHECK(rank.id == joined[0].id);
  }
}


}  // namespace

TEST_CASE("ranks meet through the program's store and leave nothing there") {
  Store store;
  auto first = join_all(store, 3);
  check_all(first);
  CHECK(store.values.empty());
  CHECK(store.gone == 1);
  auto second = join_all(store, 3);
  check_all(second);
  CHECK(second[0].id != first[0].id);
}

TEST_CASE("a store that cannot wait is asked again") {
  Store store;
  store.waits = false;
  check_all(join_all(store, 2, 20'000, std::chrono::milliseconds(150)));
}

TEST_CASE("an id that an earlier run has left in the store is replaced") {
  Store store;
  store.removes = false;
  check_all(join_all(store, 3));
  REQUIRE(store.values["the job"].size() > 100);
  check_all(join_all(store, 3, 20'000, std::chrono::milliseconds(300)));
}

TEST_CASE("a rank 0 that does not come is missed in time") {
  Store store;
  Joined joined = join(store, 2, 1, 300);
  CHECK(joined.status == TUTTI_TIMEOUT);
  CHECK_THAT(joined.sentence, Contains("rank 0 has not put its id into the program's store as \"the job\""));
  CHECK(joined.took_ms >= 300);
  CHECK(joined.took_ms < 5'000);
}

TEST_CASE("a rank 0 that cannot make an id tells the others why") {
  Store store;
  auto joined = join_all(store, 2, 20'000, {}, "none-such");
  CHECK(joined[0].status != TUTTI_SUCCESS);
  CHECK_THAT(joined[0].sentence, Contains("none-such"));
  CHECK(joined[1].status == TUTTI_REMOTE_ERROR);
  CHECK_THAT(joined[1].sentence, Contains("rank 0 could not make the communicator's id") && Contains("none-such"));
  CHECK(joined[1].took_ms < 10'000);
}

TEST_CASE("a store that fails, and one that holds something else, are named") {
  Store store;
  store.takes = false;
  for (const Joined& rank : join_all(store, 2)) {
    CHECK(rank.status == TUTTI_SYSTEM_ERROR);
    CHECK_THAT(rank.sentence, Contains("the program's store"));
  }
  Store other;
  other.values["the job"] = "someone else's";
  Joined joined = join(other, 2, 1, 1'000);
  CHECK(joined.status == TUTTI_INVALID_USAGE);
  CHECK_THAT(joined.sentence, Contains("is no id of tutti"));
}

TEST_CASE("wrong arguments for a store are refused") {
  Store mine;
  tutti_comm_t* comm = nullptr;
  auto joins = [&](int nranks, int rank, const tutti_store_t* store, const char* key) {
    return tutti_comm_init_store(&comm, nranks, rank, store, key, nullptr);
  };
  tutti_store_t store = mine.handed_over();
  CHECK(tutti_comm_init_store(nullptr, 1, 0, &store, "key", nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(joins(2, 2, &store, "key") == TUTTI_INVALID_ARGUMENT);
  CHECK(joins(2, 0, nullptr, "key") == TUTTI_INVALID_ARGUMENT);
  CHECK(joins(2, 0, &store, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(joins(2, 0, &store, "") == TUTTI_INVALID_ARGUMENT);
  store.set = nullptr;
  CHECK(joins(2, 0, &store, "key") == TUTTI_INVALID_ARGUMENT);
  CHECK(std::string(tutti_last_error(nullptr)) == "tutti_comm_init_store: store.set is NULL");
  store = mine.handed_over();
  store.struct_size = 8;
  CHECK(joins(2, 0, &store, "key") == TUTTI_INVALID_ARGUMENT);
  CHECK(comm == nullptr);
}

}  // namespace tutti::test
