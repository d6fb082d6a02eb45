#include "plan/expressions.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "plan/collective.h"

namespace tutti {
namespace {

enum Kind : int64_t { kLeaf, kCombined, kFinished };

constexpr int kWordBits = 64;

}  // namespace

Expressions::Expressions(int nranks) : nranks_(nranks), expressions_(1) {}

size_t Expressions::KeyHash::operator()(const Key& key) const {
  uint64_t hash = 0;
  for (int64_t value : key) hash = (std::rotl(hash, 23) ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

int Expressions::intern(Key key, Expression expression) {
  auto [found, fresh] = numbers_.try_emplace(std::move(key), static_cast<int>(expressions_.size()));
  if (fresh) expressions_.push_back(std::move(expression));
  return found->second;
}

int Expressions::leaf(int rank, int call, size_t cell) {
  Expression leaf{call, cell, false, std::vector<uint64_t>(nranks_ / kWordBits + 1)};
  leaf.ranks[rank / kWordBits] = uint64_t{1} << rank % kWordBits;
  return intern({kLeaf, rank, call, static_cast<int64_t>(cell)}, std::move(leaf));
}

int Expressions::combine(std::span<const int> sources, bool finish, std::string& fault) {
  for (int source : sources) {
    if (source == kGarbage) fault = "reads memory that holds no value";
  }
  if (!fault.empty()) return kGarbage;

  Expression sum = expressions_[sources[0]];
  Key key = {kCombined, sources[0]};
  for (size_t i = 1; i < sources.size(); ++i) {
    const Expression& source = expressions_[sources[i]];
    if (source.finished || sum.finished) fault = "combines a value that is already finished";
    if (source.call != sum.call) fault = "combines values of different calls";
    if (source.cell != sum.cell) fault = "combines values of different pieces";
    for (size_t word = 0; word < sum.ranks.size(); ++word) {
      uint64_t both = source.ranks[word] & sum.ranks[word];
      if (both != 0)
        fault = fmt::format("counts the contribution of rank {} twice", word * kWordBits + std::countr_zero(both));
      sum.ranks[word] |= source.ranks[word];
    }
    key.push_back(sources[i]);
  }
  if (finish && sum.finished) fault = "finishes a value twice";
  if (!fault.empty()) return kGarbage;
  int value = sources.size() == 1 ? sources[0] : intern(std::move(key), sum);
  if (!finish) return value;
  sum.finished = true;
  return intern({kFinished, value}, std::move(sum));
}

bool Expressions::is_partial(int value) const {
  const Expression& expression = expressions_[value];
  int ranks = 0;
  for (uint64_t word : expression.ranks) ranks += std::popcount(word);
  return ranks > 1 && !expression.finished;
}

std::string Expressions::fault_of_result(int value, int call, size_t cell, int contributor) const {
  if (value == kGarbage) return "was never written";
  const Expression& result = expressions_[value];
  if (result.call != call) return fmt::format("has values of call {}", result.call);
  if (result.cell != cell) return "has values of another piece";
  for (int rank = 0; rank < nranks_; ++rank) {
    bool wanted = contributor == kAllRanks || contributor == rank;
    bool there = (result.ranks[rank / kWordBits] >> rank % kWordBits & 1) != 0;
    if (wanted && !there) return fmt::format("lacks the contribution of rank {}", rank);
    if (!wanted && there) return fmt::format("has a contribution of rank {}, which has no part in it", rank);
  }
  if (contributor == kAllRanks && !result.finished) return "was not finished";
  if (contributor != kAllRanks && result.finished) return "was finished, which is for results of operations";
  return "";
}

}  // namespace tutti
