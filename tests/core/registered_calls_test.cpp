// Every call on ordinary memory that tutti_comm_register() makes reachable.
#include <algorithm>

#include "core/contents.h"
#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

// Ordinary memory with room for `count` floats at an address that is no page's, and guards round them.
struct Floats {
  Floats(size_t count, size_t offset)
      : memory(count + 2 * kGuard + offset, kGuardValue), count(count), at(kGuard + offset) {}
  float* data() { return memory.data() + at; }
  bool guards_hold() const {
    auto is_guard = [](float value) { return value == kGuardValue; };
    auto begin = memory.begin(), end = memory.end();
    auto from = begin + static_cast<ptrdiff_t>(at);
    return std::all_of(begin, from, is_guard) && std::all_of(from + static_cast<ptrdiff_t>(count), end, is_guard);
  }

  static constexpr size_t kGuard = 64;
  static constexpr float kGuardValue = 12345;
  std::vector<float> memory;
  size_t count;
  size_t at;
};

// Sums of all sizes in memory that is registered on ranks whose bit in `who` is set, in place and not.
std::string sums(tutti_comm_t* comm, int nranks, int rank, unsigned who) {
  constexpr size_t kMost = 300'007;
  Floats in(kMost, 3 + static_cast<size_t>(rank)), out(kMost, 17);
  void *in_handle = nullptr, *out_handle = nullptr;
  if ((who >> rank & 1) != 0) {
    if (tutti_comm_register(comm, in.data(), kMost * sizeof(float), &in_handle) != TUTTI_SUCCESS ||
        tutti_comm_register(comm, out.data(), kMost * sizeof(float), &out_handle) != TUTTI_SUCCESS) {
      return tutti_last_error(comm);
    }
  }
  int round = 0;
  for (size_t count : {1, 300, 5'000, 20'000, 65'536, 300'007}) {
    for (size_t skipped : {size_t{0}, size_t{1}, (kMost - count) / 2, kMost - count}) {
      if (count + skipped > kMost) continue;
      ++round;
      auto values = contribution(rank, round, count), want = sum_of_all(nranks, round, count);
      float* from = in.data() + skipped;
      float* to = out.data() + skipped;
      std::copy(values.begin(), values.end(), from);
      if (tutti_all_reduce(from, to, count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS ||
          tutti_all_reduce(from, from, count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS) {
        return tutti_last_error(comm);
      }
      std::string name = fmt::format("{} elements at {}", count, skipped);
      if (auto wrong = compare(to, want, name); !wrong.empty()) return wrong;
      if (auto wrong = compare(from, want, name + " in place"); !wrong.empty()) return wrong;
    }
  }
  if (tutti_comm_deregister(comm, in_handle) != TUTTI_SUCCESS) return tutti_last_error(comm);
  if (tutti_comm_deregister(comm, out_handle) != TUTTI_SUCCESS) return tutti_last_error(comm);
  return in.guards_hold() && out.guards_hold() ? "" : "what lies beside the buffers has changed";
}

// The calls whose buffers have blocks, in place too, in registered memory.
std::string blocks(tutti_comm_t* comm, int nranks, int rank) {
  constexpr size_t kBlock = 9'001;
  const size_t all = kBlock * static_cast<size_t>(nranks);
  Floats in(all, 5), out(all, 9);
  void *in_handle = nullptr, *out_handle = nullptr;
  if (tutti_comm_register(comm, in.data(), all * sizeof(float), &in_handle) != TUTTI_SUCCESS ||
      tutti_comm_register(comm, out.data(), all * sizeof(float), &out_handle) != TUTTI_SUCCESS) {
    return tutti_last_error(comm);
  }
  auto fill = [&](float* to, size_t count, int round) {
    auto values = contribution(rank, round, count);
    std::copy(values.begin(), values.end(), to);
  };
  std::string wrong;
  auto ok = [&](tutti_status_t status) {
    if (status != TUTTI_SUCCESS && wrong.empty()) wrong = tutti_last_error(comm);
  };
  auto expect = [&](const char* what, const float* got, const std::vector<float>& want) {
    if (wrong.empty()) wrong = compare(got, want, what);
  };
  float* mine = out.data() + static_cast<size_t>(rank) * kBlock;
  const size_t own = static_cast<size_t>(rank) * kBlock;

  fill(in.data(), kBlock, 1);
  ok(tutti_all_gather(in.data(), out.data(), kBlock, TUTTI_FLOAT32, comm, nullptr));
  expect("all_gather", out.data(), blocks_of_all(nranks, 1, kBlock));
  fill(mine, kBlock, 2);
  ok(tutti_all_gather(mine, out.data(), kBlock, TUTTI_FLOAT32, comm, nullptr));
  expect("all_gather in place", out.data(), blocks_of_all(nranks, 2, kBlock));
  fill(in.data(), all, 3);
  ok(tutti_reduce_scatter(in.data(), out.data(), kBlock, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr));
  expect("reduce_scatter", out.data(), sum_of_all(nranks, 3, kBlock, own));
  fill(out.data(), all, 4);
  ok(tutti_reduce_scatter(out.data(), mine, kBlock, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr));
  expect("reduce_scatter in place", mine, sum_of_all(nranks, 4, kBlock, own));
  fill(out.data(), all, 5);
  ok(tutti_reduce_scatter(out.data(), out.data(), kBlock, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr));
  expect("reduce_scatter onto its input", out.data(), sum_of_all(nranks, 5, kBlock, own));
  fill(in.data(), all, 6);
  ok(tutti_all_to_all(in.data(), out.data(), kBlock, TUTTI_FLOAT32, comm, nullptr));
  expect("all_to_all", out.data(), blocks_of_all(nranks, 6, kBlock, own));
  fill(out.data(), all, 7);
  ok(tutti_all_to_all(out.data(), out.data(), kBlock, TUTTI_FLOAT32, comm, nullptr));
  expect("all_to_all in place", out.data(), blocks_of_all(nranks, 7, kBlock, own));
  fill(in.data(), all, 8);
  ok(tutti_broadcast(in.data(), out.data(), all, TUTTI_FLOAT32, nranks - 1, comm, nullptr));
  expect("broadcast", out.data(), contribution(nranks - 1, 8, all));
  fill(in.data(), all, 9);
  ok(tutti_reduce(in.data(), out.data(), all, TUTTI_FLOAT32, TUTTI_SUM, 0, comm, nullptr));
  if (rank == 0) expect("reduce", out.data(), sum_of_all(nranks, 9, all));
  // With gaps, which keep what they hold.
  std::vector<uint64_t> counts(static_cast<size_t>(nranks), kBlock - 100), displacements;
  for (int each = 0; each < nranks; ++each) displacements.push_back(static_cast<uint64_t>(each) * kBlock + 50);
  std::fill(out.data(), out.data() + all, -99.0F);
  fill(in.data(), kBlock, 10);
  ok(tutti_all_gather_v(in.data(), kBlock - 100, out.data(), counts.data(), displacements.data(), TUTTI_FLOAT32, comm,
                        nullptr));
  std::vector<float> with_gaps(all, -99.0F);
  for (int each = 0; each < nranks; ++each) {
    auto block = contribution(each, 10, kBlock - 100);
    std::copy(block.begin(), block.end(), with_gaps.begin() + static_cast<ptrdiff_t>(displacements[each]));
  }
  expect("all_gather_v", out.data(), with_gaps);
  // A message, which the other rank reads where it lies.
  fill(in.data(), all, 11);
  int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;
  ok(tutti_send_recv(in.data(), all, next, 0, out.data(), all, before, 0, TUTTI_FLOAT32, comm, nullptr, nullptr));
  expect("send_recv", out.data(), contribution(before, 11, all));

  ok(tutti_comm_deregister(comm, in_handle));
  ok(tutti_comm_deregister(comm, out_handle));
  if (wrong.empty() && !(in.guards_hold() && out.guards_hold())) wrong = "what lies beside the buffers has changed";
  return wrong;
}

}  // namespace

TEST_CASE("sums in registered memory are right, whoever has registered his") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    for (unsigned who : {0b111U, 0b001U, 0b110U}) {
      INFO(transport << ", registered by " << who);
      check_all(with_ranks(3, {{"transport", transport}},
                           [&](tutti_comm_t* comm, int rank) { return sums(comm, 3, rank, who); }));
    }
  }
}

TEST_CASE("every call is right in registered memory, edges and gaps included") {
  for (int nranks : {2, 4}) {
    INFO(nranks << " ranks");
    check_all(with_ranks(nranks, {{"transport", "shm"}},
                         [&](tutti_comm_t* comm, int rank) { return blocks(comm, nranks, rank); }));
  }
}

}  // namespace tutti::test
