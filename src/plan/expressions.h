// Symbolic values: what was combined with what, in which order. Equal expressions have equal numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti {

class Expressions {
 public:
  static constexpr int kGarbage = 0;  // memory that holds nothing meaningful

  explicit Expressions(int nranks);

  // The contribution of `rank` in `call` to `cell` (a number for channel, chunk and slice).
  int leaf(int rank, int call, size_t cell);

  // sources[0] op sources[1] op ...; of one source the value itself. Sets `fault` when a source is garbage, of another
  // call or cell, already finished, or has a contribution that another source has too.
  int combine(std::span<const int> sources, bool finish, std::string& fault);

  // Whether `value` combines contributions and is not finished.
  bool is_partial(int value) const;

  // Why `value` is not the data of `contributor` for `cell` in `call`, or with kAllRanks the finished sum of all ranks'
  // contributions; "" when it is.
  std::string fault_of_result(int value, int call, size_t cell, int contributor) const;

 private:
  struct Expression {
    int call = -1;
    size_t cell = 0;
    bool finished = false;
    std::vector<uint64_t> ranks;  // bits: whose contributions it has
  };

  // The first number is what kind it is; see the definitions.
  using Key = std::vector<int64_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  int intern(Key key, Expression expression);

  int nranks_;
  std::vector<Expression> expressions_;
  std::unordered_map<Key, int, KeyHash> numbers_;
};

}  // namespace tutti
