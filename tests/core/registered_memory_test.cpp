// Ordinary memory that tutti_comm_register() makes reachable: what it is before, meanwhile and afterwards.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

const size_t kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

// A communicator of this rank alone.
struct Alone {
  tutti_comm_t* comm = nullptr;
  Alone() { REQUIRE(tutti_comm_init_rank(&comm, 1, nullptr, 0) == TUTTI_SUCCESS); }
  ~Alone() { tutti_comm_destroy(comm); }
};

// Pages of their own, of which tests use what lies from `offset` on.
struct Pages {
  explicit Pages(size_t count) : bytes(count * kPage) {
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    data = static_cast<unsigned char*>(mapped);
    for (size_t i = 0; i < bytes; ++i) data[i] = pattern(i);
  }
  Pages(const Pages&) = delete;
  ~Pages() { ::munmap(data, bytes); }
  static unsigned char pattern(size_t i) { return static_cast<unsigned char>(i * 131 + i / 251); }
  bool holds_pattern() const {
    for (size_t i = 0; i < bytes; ++i) {
      if (data[i] != pattern(i)) return false;
    }
    return true;
  }

  size_t bytes;
  unsigned char* data = nullptr;
};

size_t lines_of_maps_with(const std::string& word) {
  std::ifstream maps("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(maps, line);) lines += line.find(word) != line.npos;
  return lines;
}

size_t open_files() {
  auto files = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("peers map what is registered, and let go of it") {
  std::atomic<size_t> meanwhile{0};
  check_all(with_ranks(2, {{"transport", "shm"}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    std::vector<float> values(100'000);
    void* handle = nullptr;
    if (tutti_comm_register(comm, values.data(), 400'000, &handle) != TUTTI_SUCCESS) return tutti_last_error(comm);
    tutti_all_reduce(values.data(), values.data(), 100'000, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
    tutti_all_reduce(values.data(), values.data(), 100'000, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
    if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (rank == 0) meanwhile = lines_of_maps_with("tutti-registered");
    if (tutti_barrier(comm, nullptr) != TUTTI_SUCCESS) return tutti_last_error(comm);
    return tutti_comm_deregister(comm, handle) == TUTTI_SUCCESS ? "" : tutti_last_error(comm);
  }));
  CHECK(meanwhile == 6);  // of each rank: in place, once more, and by the peer
  CHECK(lines_of_maps_with("tutti-registered") == 0);
}

TEST_CASE("memory that was freed after a call on it is gone before the next call") {
  std::barrier both(2);
  check_all(with_ranks(2, {{"transport", "loopback"}}, [&](tutti_comm_t* comm, int) -> std::string {
    void* values = nullptr;
    tutti_status_t done = tutti_mem_alloc(&values, 400'000);
    for (int i = 0; i < 2 && done == TUTTI_SUCCESS; ++i) {
      done = tutti_all_reduce(values, values, 100'000, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
    }
    both.arrive_and_wait();
    size_t before = lines_of_maps_with("tutti-memory");
    both.arrive_and_wait();
    if (done == TUTTI_SUCCESS) done = tutti_mem_free(values);
    both.arrive_and_wait();
    size_t after = lines_of_maps_with("tutti-memory");
    both.arrive_and_wait();
    if (done != TUTTI_SUCCESS) return tutti_last_error(comm);
    return before == 2 && after == 0 ? "" : fmt::format("mapped {} times before and {} after", before, after);
  }));
}

TEST_CASE("registered memory keeps its address and what it holds, and is ordinary again afterwards") {
  Alone alone;
  Pages pages(64);
  size_t files = open_files();
  for (int round = 0; round < 100; ++round) {
    void* handle = nullptr;
    REQUIRE(tutti_comm_register(alone.comm, pages.data + 100, pages.bytes - 200, &handle) == TUTTI_SUCCESS);
    if (round == 0) CHECK(lines_of_maps_with("tutti-registered") == 2);
    REQUIRE(pages.holds_pattern());
    REQUIRE(tutti_comm_deregister(alone.comm, handle) == TUTTI_SUCCESS);
    REQUIRE(pages.holds_pattern());
  }
  CHECK(lines_of_maps_with("tutti-registered") == 0);
  CHECK(open_files() == files);
  REQUIRE(::madvise(pages.data + kPage, kPage, MADV_DONTNEED) == 0);
  CHECK(pages.data[kPage] == 0);
}

TEST_CASE("MADV_DONTNEED takes nothing from registered memory") {
  Alone alone;
  Pages pages(4);
  void* handle = nullptr;
  REQUIRE(tutti_comm_register(alone.comm, pages.data, pages.bytes, &handle) == TUTTI_SUCCESS);
  REQUIRE(::madvise(pages.data, pages.bytes, MADV_DONTNEED) == 0);
  CHECK(pages.holds_pattern());
  CHECK(tutti_comm_deregister(alone.comm, handle) == TUTTI_SUCCESS);
  CHECK(pages.holds_pattern());
}

TEST_CASE("a forked child does not have registered memory, and has it as its own afterwards", "[kernel]") {
  Alone alone;
  Pages pages(4);
  void* handle = nullptr;
  REQUIRE(tutti_comm_register(alone.comm, pages.data + 8, pages.bytes - 16, &handle) == TUTTI_SUCCESS);
  auto in_child = [&](const std::function<bool()>& is_right) {
    pid_t child = ::fork();
    if (child == 0) ::_exit(is_right() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  unsigned char resident = 0;
  CHECK(in_child([&] {
    bool has_middle = ::mincore(pages.data + kPage, kPage, &resident) == 0;
    return !has_middle && pages.data[8] == Pages::pattern(8);
  }));
  REQUIRE(tutti_comm_deregister(alone.comm, handle) == TUTTI_SUCCESS);
  CHECK(in_child([&] {
    bool holds = pages.holds_pattern();
    std::memset(pages.data, 0, pages.bytes);
    return holds;
  }));
  CHECK(pages.holds_pattern());
}

TEST_CASE("who reads memory, or forks, while it is registered and deregistered sees what it holds", "[kernel]") {
  Alone alone;
  Pages pages(64);
  std::atomic<bool> stops{false};
  std::atomic<int> wrong{0}, forks{0};
  std::thread reader([&] {
    while (!stops) {
      if (!pages.holds_pattern()) ++wrong;
    }
  });
  std::thread parent([&] {
    while (!stops) {
      pid_t child = ::fork();
      if (child == 0) {
        unsigned char resident = 0;
        for (size_t at = 0; at < pages.bytes; at += kPage) {
          if (::mincore(pages.data + at, kPage, &resident) == 0) pages.data[at] = 0xee;
        }
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
      ++forks;
    }
  });
  for (int round = 0; round < 200 || forks < 20; ++round) {
    void* handle = nullptr;
    REQUIRE(tutti_comm_register(alone.comm, pages.data, pages.bytes, &handle) == TUTTI_SUCCESS);
    REQUIRE(tutti_comm_deregister(alone.comm, handle) == TUTTI_SUCCESS);
  }
  stops = true;
  reader.join();
  parent.join();
  CHECK(wrong == 0);
  CHECK(pages.holds_pattern());
}

TEST_CASE("memory that was freed while it was registered is taken as ordinary memory, and left alone") {
  std::string freed = "freed or mapped anew while it was registered";
  check_all(with_ranks(2, {{"transport", "shm"}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    constexpr size_t kBytes = 1 << 20;
    constexpr size_t kCount = kBytes / sizeof(int32_t);
    auto map = [](void* address) {
      int flags = MAP_PRIVATE | MAP_ANONYMOUS | (address != nullptr ? MAP_FIXED : 0);
      return ::mmap(address, kBytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    };
    auto* data = static_cast<int32_t*>(map(nullptr));
    auto sum = [&] {
      std::fill(data, data + kCount, rank + 1);
      return tutti_all_reduce(data, data, kCount, TUTTI_INT32, TUTTI_SUM, comm, nullptr) == TUTTI_SUCCESS &&
             std::all_of(data, data + kCount, [](int32_t value) { return value == 3; });
    };
    void* handle = nullptr;
    if (tutti_comm_register(comm, data, kBytes, &handle) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (!sum()) return "registered: wrong";
    map(data);  // as freeing it and allocating again may do
    if (!sum() || !sum()) return "mapped anew: wrong";
    void* again = nullptr;
    if (tutti_comm_register(comm, data, kBytes, &again) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (!sum() || !sum()) return "registered again: wrong";
    if (tutti_comm_deregister(comm, again) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (tutti_comm_deregister(comm, handle) != TUTTI_SUCCESS) return "the first registration, which is gone by now";
    if (!sum()) return "ordinary again: wrong";
    if (tutti_comm_register(comm, data, kBytes, &handle) != TUTTI_SUCCESS) return tutti_last_error(comm);
    map(data);
    data[0] = 7;
    if (tutti_comm_deregister(comm, handle) != TUTTI_INVALID_USAGE) return "freed memory was moved";
    std::string why = tutti_last_error(comm);
    if (why.find(freed) == why.npos) return why;
    bool is_left_alone = data[0] == 7;
    ::munmap(data, kBytes);
    return is_left_alone ? "" : "the new memory has changed";
  }));
}

TEST_CASE("memory that malloc gives out again, freed while it was registered, is taken as what it is", "[kernel]") {
  struct Block {
    size_t bytes;
    bool is_unmapped;  // by free(), and mapped anew by malloc(); else it stays what it was, and registered
  };
  // malloc() maps blocks of more than 32 MiB one by one whatever it has learned from others.
  const Block block = GENERATE(Block{(33 << 20) + 40, true}, Block{100'000, false});
  INFO(block.bytes << " bytes");
  std::mutex one_at_a_time;
  std::atomic<int> reused{0};
  check_all(with_ranks(2, {{"transport", "shm"}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    const size_t count = block.bytes / sizeof(int32_t);
    auto* data = static_cast<int32_t*>(std::malloc(block.bytes));
    auto sum = [&] {
      std::fill(data, data + count, rank + 1);
      return tutti_all_reduce(data, data, count, TUTTI_INT32, TUTTI_SUM, comm, nullptr) == TUTTI_SUCCESS &&
             std::all_of(data, data + count, [](int32_t value) { return value == 3; });
    };
    void* handle = nullptr;
    if (tutti_comm_register(comm, data, block.bytes, &handle) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (!sum() || !sum()) return "registered: wrong";
    bool is_reused = false;
    {
      std::lock_guard lock(one_at_a_time);
      auto before = reinterpret_cast<uintptr_t>(data);
      std::free(data);
      std::vector<void*> elsewhere;
      for (int tries = 0; tries < 16 && !is_reused; ++tries) {
        if (tries > 0) elsewhere.push_back(data);
        data = static_cast<int32_t*>(std::malloc(block.bytes));
        is_reused = reinterpret_cast<uintptr_t>(data) == before;
      }
      for (void* other : elsewhere) std::free(other);
    }
    if (is_reused) ++reused;
    if (!sum() || !sum()) return "freed and allocated again: wrong";
    tutti_status_t status = tutti_comm_deregister(comm, handle);
    bool is_told = status == TUTTI_INVALID_USAGE;
    bool holds = std::all_of(data, data + count, [](int32_t value) { return value == 3; });
    bool is_right = sum();
    std::free(data);
    if (is_reused && is_told != block.is_unmapped) return fmt::format("deregister: {}", static_cast<int>(status));
    return holds && is_right ? "" : "deregistered: wrong";
  }));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(reused == 2);  // sanitizers' allocators keep what was freed for a while
#endif
}

TEST_CASE("registered memory of which a page was mapped anew is not moved back: that page stays as it is") {
  Alone alone;
  Pages pages(64);
  for (size_t anew : {0, 1, 31, 62, 63}) {
    INFO("page " << anew);
    void* handle = nullptr;
    REQUIRE(tutti_comm_register(alone.comm, pages.data, pages.bytes, &handle) == TUTTI_SUCCESS);
    unsigned char* page = pages.data + anew * kPage;
    REQUIRE(::mmap(page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
    for (size_t i = 0; i < kPage; ++i) page[i] = Pages::pattern(anew * kPage + i);
    CHECK(tutti_comm_deregister(alone.comm, handle) == TUTTI_INVALID_USAGE);
    CHECK_THAT(tutti_last_error(alone.comm), Catch::Contains("freed or mapped anew while it was registered"));
    CHECK(pages.holds_pattern());
    // What lies there now is half shared, and no ordinary memory: whoever uses it further maps it himself.
    REQUIRE(::mmap(pages.data, pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            pages.data);
    for (size_t i = 0; i < pages.bytes; ++i) pages.data[i] = Pages::pattern(i);
  }
  CHECK(lines_of_maps_with("tutti-registered") == 0);
}

TEST_CASE("what cannot be registered is refused with what it is, and unchanged") {
  Alone alone;
  void* handle = &handle;
  auto refused = [&](void* data, size_t size, tutti_status_t code, const std::string& word) {
    CHECK(tutti_comm_register(alone.comm, data, size, &handle) == code);
    CHECK(handle == nullptr);
    CHECK_THAT(tutti_last_error(alone.comm), Catch::Contains(word));
  };
  Pages pages(8);
  refused(nullptr, 1, TUTTI_INVALID_ARGUMENT, "buffer");
  refused(pages.data, 0, TUTTI_INVALID_ARGUMENT, "size is 0");
  refused(pages.data, SIZE_MAX, TUTTI_INVALID_ARGUMENT, "more than any memory");
  refused(pages.data, size_t{1} << 46, TUTTI_INVALID_ARGUMENT, "only private memory");
  REQUIRE(::mprotect(pages.data, kPage, PROT_READ) == 0);
  refused(pages.data, pages.bytes, TUTTI_INVALID_ARGUMENT, "r--p");
  REQUIRE(::mprotect(pages.data, kPage, PROT_READ | PROT_WRITE) == 0);
  int self = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  void* file = ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, self, 0);
  refused(file, 2 * kPage, TUTTI_INVALID_ARGUMENT, "test_core");
  ::munmap(file, 2 * kPage);
  ::close(self);
  CHECK(tutti_comm_register(alone.comm, pages.data, 1, nullptr) == TUTTI_INVALID_ARGUMENT);

  void *first = nullptr, *inside = nullptr, *small = nullptr;
  REQUIRE(tutti_comm_register(alone.comm, pages.data, 4 * kPage, &first) == TUTTI_SUCCESS);
  refused(pages.data + 2 * kPage, 4 * kPage, TUTTI_INVALID_USAGE, "overlap");
  refused(pages.data, 5 * kPage, TUTTI_INVALID_USAGE, "overlap");
  REQUIRE(tutti_comm_register(alone.comm, pages.data + 10, kPage, &inside) == TUTTI_SUCCESS);
  REQUIRE(tutti_comm_register(alone.comm, pages.data + 5 * kPage + 1, kPage, &small) == TUTTI_SUCCESS);
  CHECK(tutti_comm_deregister(alone.comm, first) == TUTTI_SUCCESS);
  CHECK(lines_of_maps_with("tutti-registered") == 2);
  CHECK(tutti_comm_deregister(alone.comm, inside) == TUTTI_SUCCESS);
  CHECK(lines_of_maps_with("tutti-registered") == 0);
  CHECK(tutti_comm_deregister(alone.comm, inside) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_comm_deregister(alone.comm, nullptr) == TUTTI_SUCCESS);
  CHECK(pages.holds_pattern());
}

TEST_CASE("destroying a communicator deregisters what is left") {
  Pages pages(8);
  {
    Alone alone;
    void* handle = nullptr;
    REQUIRE(tutti_comm_register(alone.comm, pages.data, pages.bytes, &handle) == TUTTI_SUCCESS);
    CHECK(lines_of_maps_with("tutti-registered") == 2);
  }
  CHECK(lines_of_maps_with("tutti-registered") == 0);
  CHECK(pages.holds_pattern());
}

}  // namespace tutti::test
