#include "layout.h"

#include <numeric>

namespace tutti::bench {
namespace {

// Unequal: 1, 2, 3, ... parts, and one block that is empty.
uint64_t weight(int block, int ranks) {
  bool is_empty = ranks > 2 && block == ranks / 2;
  return is_empty ? 0 : static_cast<uint64_t>(block) + 1;
}

std::vector<uint64_t> weighted_counts(uint64_t total, int ranks) {
  uint64_t all = 0, until = 0, given = 0;
  for (int block = 0; block < ranks; ++block) all += weight(block, ranks);
  std::vector<uint64_t> counts;
  for (int block = 0; block < ranks; ++block) {
    until += weight(block, ranks);
    uint64_t end = total / all * until + total % all * until / all;  // total * until / all, without overflow
    counts.push_back(end - given);
    given = end;
  }
  return counts;
}

// How many elements the blocks in a buffer of `rank` have. All-to-all has blocks between any two ranks: (i, j) is as
// large as (j, i), so that it can run in place, and every rank has the same total.
std::vector<uint64_t> block_counts(const CollectiveInfo& collective, uint64_t count, int rank, int ranks) {
  if (!collective.has_counts) return std::vector<uint64_t>(static_cast<size_t>(ranks), count);
  auto n = static_cast<uint64_t>(ranks);
  std::vector<uint64_t> counts = weighted_counts(count * n, ranks);
  if (collective.send != Holds::kBlocks || collective.recv != Holds::kBlocks) return counts;
  std::vector<uint64_t> turned;
  for (uint64_t block = 0; block < n; ++block) turned.push_back(counts[(block + static_cast<uint64_t>(rank)) % n]);
  return turned;
}

uint64_t first_of(const std::vector<uint64_t>& counts, int block) {
  return std::accumulate(counts.begin(), counts.begin() + block, uint64_t{0});
}

// A block from every rank.
std::vector<Piece> blocks_of_all(const CollectiveInfo& collective, uint64_t count, int rank, int ranks) {
  std::vector<Piece> pieces;
  uint64_t first = 0;
  for (int source = 0; uint64_t block : block_counts(collective, count, rank, ranks)) {
    bool sends_all = collective.send == Holds::kBlocks;
    uint64_t position = sends_all ? first_of(block_counts(collective, count, source, ranks), rank) : first;
    pieces.push_back({first, block, position, source++});
    first += block;
  }
  return pieces;
}

}  // namespace

Layout::Layout(const CollectiveInfo& collective, uint64_t wanted, int rank, int ranks, int root)
    : total(wanted * collective.blocks(ranks)), count(wanted),
      counts(block_counts(collective, wanted, rank, ranks)) {
  auto at = static_cast<size_t>(rank);
  if (collective.has_counts) count = counts[at];
  auto elements = [&](Holds holds) {
    if (holds == Holds::kNothing) return uint64_t{0};
    return holds == Holds::kBlock ? counts[at] : total;
  };
  bool sends = collective.root != RootPart::kSends || rank == root;
  bool receives = collective.root != RootPart::kReceives || rank == root;
  send_count = sends ? elements(collective.send) : 0;
  recv_count = receives ? elements(collective.recv) : 0;

  uint64_t own_first = first_of(counts, rank);
  send_position = collective.send == Holds::kBlock ? own_first : 0;
  if (sends && receives) {
    if (collective.send == Holds::kBlock) send_first = own_first;
    if (collective.recv == Holds::kBlock) recv_first = own_first;
  }

  if (recv_count == 0) return;
  int source = collective.reduces ? kReduced : root;
  if (collective.recv == Holds::kVector) results = {{0, total, 0, source}};
  if (collective.recv == Holds::kBlock) results = {{0, recv_count, own_first, source}};
  if (collective.recv == Holds::kBlocks) results = blocks_of_all(collective, wanted, rank, ranks);
}

}  // namespace tutti::bench
