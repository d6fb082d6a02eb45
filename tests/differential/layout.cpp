#include "layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace differential {
namespace {

Blocks packed(std::vector<uint64_t> counts) {
  Blocks blocks{.counts = std::move(counts)};
  blocks.displacements.resize(blocks.counts.size());
  std::exclusive_scan(blocks.counts.begin(), blocks.counts.end(), blocks.displacements.begin(), uint64_t{0});
  return blocks;
}

// In any order with gaps between them, or packed.
Blocks scattered(std::vector<uint64_t> counts, Random& own) {
  Blocks blocks = packed(std::move(counts));
  if (own.one_in(4)) return blocks;
  blocks.packed = false;
  std::vector<size_t> order(blocks.counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); own.one_in(2) && i > 1; --i) std::swap(order[i - 1], order[own.below(i)]);
  uint64_t end = 0;
  for (size_t block : order) {
    blocks.displacements[block] = end + (own.one_in(2) ? own.below(20) : 0);
    end = blocks.displacements[block] + blocks.counts[block];
  }
  return blocks;
}

std::vector<uint64_t> row_of(const Call& call, uint64_t ranks, uint64_t sender) {
  auto begin = call.counts.begin() + static_cast<ptrdiff_t>(sender * ranks);
  return {begin, begin + static_cast<ptrdiff_t>(ranks)};
}

std::vector<uint64_t> column_of(const Call& call, uint64_t ranks, uint64_t receiver) {
  std::vector<uint64_t> column(ranks);
  for (uint64_t i = 0; i < ranks; ++i) column[i] = call.counts[i * ranks + receiver];
  return column;
}

void lay_out_blocks(Layout& layout, const Call& call, const Job& job, Random& own) {
  auto n = static_cast<uint64_t>(job.ranks), rank = static_cast<uint64_t>(job.rank);
  bool is_root = job.rank == call.root;
  Blocks one = packed({call.count});
  Blocks all = packed(std::vector<uint64_t>(n, call.count));
  Blocks none;
  switch (call.collective->id) {
    case TUTTI_ALL_REDUCE: layout.send = one, layout.recv = one; break;
    case TUTTI_REDUCE: layout.send = one, layout.recv = is_root ? one : none; break;
    case TUTTI_BROADCAST: layout.send = is_root ? one : none, layout.recv = one; break;
    case TUTTI_ALL_GATHER: layout.send = one, layout.recv = all; break;
    case TUTTI_REDUCE_SCATTER: layout.send = all, layout.recv = one; break;
    case TUTTI_ALL_TO_ALL: layout.send = all, layout.recv = all; break;
    case TUTTI_GATHER: layout.send = one, layout.recv = is_root ? all : none; break;
    case TUTTI_SCATTER: layout.send = is_root ? all : none, layout.recv = one; break;
    case TUTTI_BARRIER:
    case TUTTI_SEND:
    case TUTTI_RECV: break;
    case TUTTI_ALL_GATHER_V:
      layout.send = packed({call.counts[rank]}), layout.recv = scattered(call.counts, own);
      break;
    case TUTTI_REDUCE_SCATTER_V: layout.send = packed(call.counts), layout.recv = packed({call.counts[rank]}); break;
    case TUTTI_ALL_TO_ALL_V:
      layout.send = scattered(row_of(call, n, rank), own);
      layout.recv = layout.in_place ? layout.send : scattered(column_of(call, n, rank), own);
      break;
    case TUTTI_GATHER_V:
      layout.send = packed({call.counts[rank]}), layout.recv = is_root ? scattered(call.counts, own) : none;
      break;
    case TUTTI_SCATTER_V:
      layout.send = is_root ? scattered(call.counts, own) : none, layout.recv = packed({call.counts[rank]});
      break;
  }
}

uint64_t own_displacement(const Blocks& blocks, const Job& job) {
  bool has_all = blocks.counts.size() == static_cast<size_t>(job.ranks);
  return blocks.displacements[has_all ? static_cast<size_t>(job.rank) : 0];
}

}  // namespace

uint64_t Blocks::extent() const {
  uint64_t end = 0;
  for (size_t i = 0; i < counts.size(); ++i) end = std::max(end, displacements[i] + counts[i]);
  return end;
}

uint64_t Layout::extent() const { return std::max(send_at + send.extent(), recv_at + recv.extent()); }

Layout layout_of(const Call& call, const Job& job, Random& own) {
  Layout layout;
  bool wanted = own.one_in(2) ? call.in_place != InPlace::kNowhere : call.in_place == InPlace::kEverywhere;
  bool is_elsewhere = call.collective->has_root && job.rank != call.root;
  layout.in_place = wanted && !is_elsewhere && call.collective->id != TUTTI_BARRIER;
  lay_out_blocks(layout, call, job, own);
  if (!layout.in_place || call.collective->id == TUTTI_ALL_TO_ALL || call.collective->id == TUTTI_ALL_TO_ALL_V) {
    return layout;
  }
  // One buffer holds this rank's block alone, and is where that block lies in the other one.
  layout.send_at = own_displacement(layout.recv, job);
  layout.recv_at = own_displacement(layout.send, job);
  return layout;
}

}  // namespace differential
