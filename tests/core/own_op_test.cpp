// Operations that the program made: functions, commutative or not, and sums of multiplied contributions.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>

#include "base/sanitizers.h"
#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

// Affine maps of 32-bit integers, one per element: composing them is associative and not commutative.
struct Map {
  uint32_t factor, offset;
};

TUTTI_UNWATCHED uint64_t compose(uint64_t first, uint64_t second) {
  auto a = __builtin_bit_cast(Map, first), b = __builtin_bit_cast(Map, second);
  return __builtin_bit_cast(uint64_t, Map{a.factor * b.factor, a.factor * b.offset + a.offset});
}

void compose_blocks(const void* in, void* in_out, uint64_t count, tutti_datatype_t datatype, void* context) {
  ++*static_cast<std::atomic<int>*>(context);
  if (datatype != TUTTI_UINT64) return;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t first, second;
    std::memcpy(&first, static_cast<const char*>(in) + i * 8, 8);
    std::memcpy(&second, static_cast<char*>(in_out) + i * 8, 8);
    uint64_t both = compose(first, second);
    std::memcpy(static_cast<char*>(in_out) + i * 8, &both, 8);
  }
}

TUTTI_UNWATCHED uint64_t element(int rank, uint64_t index) {
  Map map{static_cast<uint32_t>(2 * (index * 7 + rank) + 1), static_cast<uint32_t>(rank + 3)};
  return __builtin_bit_cast(uint64_t, map);
}

TUTTI_UNWATCHED uint64_t composed(int nranks, uint64_t index) {
  uint64_t result = element(0, index);
  for (int rank = 1; rank < nranks; ++rank) result = compose(result, element(rank, index));
  return result;
}

TUTTI_UNWATCHED void work_out(uint64_t* values, uint64_t count, int nranks, uint64_t first) {
  for (uint64_t i = 0; i < count; ++i) values[i] = composed(nranks, first + i);
}

// "" or which element of `values`, the elements from `first` on, is wrong.
std::string compare(const std::vector<uint64_t>& values, int nranks, uint64_t first) {
  auto wanted = worked_out<uint64_t>(
      values.size(), [&](uint64_t* all) { work_out(all, values.size(), nranks, first); });
  if (values == wanted) return "";
  auto wrong = std::mismatch(values.begin(), values.end(), wanted.begin()).first - values.begin();
  return fmt::format("element {} is wrong", first + static_cast<uint64_t>(wrong));
}

std::string run_all(tutti_comm_t* comm, int nranks, int rank, tutti_op_t op, uint64_t count) {
  std::vector<uint64_t> in(count * nranks), all(count * nranks), block(count);
  for (uint64_t i = 0; i < in.size(); ++i) in[i] = element(rank, i);
  auto failed = [&](tutti_status_t status) { return status != TUTTI_SUCCESS; };
  if (failed(tutti_all_reduce(in.data(), all.data(), in.size(), TUTTI_UINT64, op, comm, nullptr)) ||
      failed(tutti_reduce_scatter(in.data(), block.data(), count, TUTTI_UINT64, op, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  std::string wrong = compare(all, nranks, 0) + compare(block, nranks, count * rank);
  int root = nranks / 2;
  std::fill(all.begin(), all.end(), 0);
  if (failed(tutti_reduce(in.data(), all.data(), in.size(), TUTTI_UINT64, op, root, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  if (rank == root) wrong += compare(all, nranks, 0);
  if (failed(tutti_all_reduce(in.data(), in.data(), in.size(), TUTTI_UINT64, op, comm, nullptr))) {
    return tutti_last_error(comm);
  }
  return wrong + compare(in, nranks, 0);
}

// Rank r multiplies by r + 2.
template <class T>
std::string multiply_first(tutti_comm_t* comm, int nranks, int rank, tutti_datatype_t datatype, uint64_t count) {
  T factor = static_cast<T>(rank + 2);
  tutti_op_t op{};
  if (tutti_op_create_pre_mul_sum(&op, &factor, datatype, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
  std::vector<T> in(count), out(count);
  for (uint64_t i = 0; i < count; ++i) in[i] = static_cast<T>((i + rank) % 5);
  if (tutti_all_reduce(in.data(), out.data(), count, datatype, op, comm, nullptr) != TUTTI_SUCCESS ||
      tutti_all_reduce(in.data(), in.data(), count, datatype, op, comm, nullptr) != TUTTI_SUCCESS) {
    return tutti_last_error(comm);
  }
  for (uint64_t i = 0; i < count; ++i) {
    T want = 0;
    for (int r = 0; r < nranks; ++r) want = static_cast<T>(want + static_cast<T>((i + r) % 5) * static_cast<T>(r + 2));
    if (out[i] != want || in[i] != want) return fmt::format("element {} of {} is wrong", i, count);
  }
  return tutti_op_destroy(op, comm) == TUTTI_SUCCESS ? "" : tutti_last_error(comm);
}

}  // namespace

TEST_CASE("functions combine in rank order, whatever the size, the transport and the number of ranks") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    for (int nranks : {1, 2, 3, 5, 8}) {
      INFO(transport << ", " << nranks << " ranks");
      std::atomic<int> calls{0};
      check_all(with_ranks(nranks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
        tutti_op_t op{};
        if (tutti_op_create(&op, compose_blocks, 0, &calls, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
        std::string problems;
        for (uint64_t count : {1, 3, 700, 20'001}) problems += run_all(comm, nranks, rank, op, count);
        return problems;
      }));
      CHECK((calls > 0) == (nranks > 1));
    }
  }
}

TEST_CASE("algorithms that do not keep the order of ranks do not run functions that need it") {
  for (const char* algorithm : {"binomial_tree", "recursive_doubling", "direct_one_shot"}) {
    INFO(algorithm);
    check_all(with_ranks(4, {{"algorithm", algorithm}}, [&](tutti_comm_t* comm, int rank) -> std::string {
      std::atomic<int> calls{0};
      tutti_op_t op{};
      if (tutti_op_create(&op, compose_blocks, 0, &calls, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
      return run_all(comm, 4, rank, op, 100);
    }));
  }
  auto said = with_ranks(4, {{"algorithm", "ring"}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    std::atomic<int> calls{0};
    tutti_op_t op{};
    if (tutti_op_create(&op, compose_blocks, 0, &calls, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
    return run_all(comm, 4, rank, op, 100);
  });
  for (const std::string& sentence : said) CHECK_THAT(sentence, Catch::Matchers::Contains("rank order"));
}

TEST_CASE("contributions are multiplied by each rank's own factor first") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    for (int nranks : {1, 2, 3, 4}) {
      INFO(transport << ", " << nranks << " ranks");
      check_all(with_ranks(nranks, {{"transport", transport}}, [&](tutti_comm_t* comm, int rank) -> std::string {
        std::string wrong;
        for (uint64_t count : {1, 9, 1000, 300'001}) {
          wrong += multiply_first<float>(comm, nranks, rank, TUTTI_FLOAT32, count);
          wrong += multiply_first<int32_t>(comm, nranks, rank, TUTTI_INT32, count);
          wrong += multiply_first<uint8_t>(comm, nranks, rank, TUTTI_UINT8, count);
        }
        return wrong;
      }));
    }
  }
}

TEST_CASE("operations that cannot be are refused") {
  check_all(with_ranks(1, {}, [](tutti_comm_t* comm, int) -> std::string {
    float value = 1;
    tutti_op_t op{};
    if (tutti_op_create(&op, nullptr, 1, nullptr, comm) != TUTTI_INVALID_ARGUMENT) return "took no function";
    if (tutti_op_create_pre_mul_sum(&op, &value, static_cast<tutti_datatype_t>(77), comm) != TUTTI_INVALID_ARGUMENT) {
      return "took no datatype";
    }
    if (tutti_op_destroy(TUTTI_SUM, comm) != TUTTI_INVALID_ARGUMENT) return "destroyed sum";
    if (tutti_op_create_pre_mul_sum(&op, &value, TUTTI_FLOAT32, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
    int32_t number = 1;
    if (tutti_all_reduce(&number, &number, 1, TUTTI_INT32, op, comm, nullptr) != TUTTI_INVALID_ARGUMENT) {
      return "multiplied another type";
    }
    if (std::string(tutti_last_error(comm)).find("was made for float32, not for int32") == std::string::npos) {
      return tutti_last_error(comm);
    }
    if (tutti_op_destroy(op, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, op, comm, nullptr) != TUTTI_INVALID_ARGUMENT) {
      return "ran what was destroyed";
    }
    for (int i = 0; i < 192; ++i) {
      if (tutti_op_create_pre_mul_sum(&op, &value, TUTTI_FLOAT32, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
    }
    return tutti_op_create_pre_mul_sum(&op, &value, TUTTI_FLOAT32, comm) == TUTTI_INVALID_USAGE ? "" : "made 193";
  }));
}

TEST_CASE("ranks that combine by different operations of their own are told apart") {
  auto said = with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    std::atomic<int> calls{0};
    tutti_op_t ops[2] = {};
    for (tutti_op_t& op : ops) {
      if (tutti_op_create(&op, compose_blocks, 1, &calls, comm) != TUTTI_SUCCESS) return tutti_last_error(comm);
    }
    uint64_t value = 1;
    tutti_status_t status = tutti_all_reduce(&value, &value, 1, TUTTI_UINT64, ops[rank], comm, nullptr);
    return status == TUTTI_INVALID_USAGE ? tutti_last_error(comm) : "no error";
  });
  for (const std::string& sentence : said) {
    CHECK_THAT(sentence, Catch::Matchers::Contains("(operation 64)") && Catch::Matchers::Contains("(operation 65)"));
  }
}

}  // namespace tutti::test
