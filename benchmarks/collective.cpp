#include "collective.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tutti::bench {
namespace {

// As in nccl-tests, which explains them in doc/PERFORMANCE.md.
constexpr BusFactor kTwice{"2(n-1)/n", [](int ranks) { return 2.0 * (ranks - 1) / ranks; }};
constexpr BusFactor kOthers{"(n-1)/n", [](int ranks) { return 1.0 * (ranks - 1) / ranks; }};
constexpr BusFactor kAll{"1", [](int) { return 1.0; }};

// Each input is read once and each result written once; in place, what is there already is not moved.
constexpr Traffic kAllToAllRanks = [](int ranks, bool) { return 2.0 * ranks; };
constexpr Traffic kAllToOne = [](int ranks, bool) { return ranks + 1.0; };
constexpr Traffic kOneToAll = [](int ranks, bool in_place) { return in_place ? ranks : ranks + 1.0; };
constexpr Traffic kBlocksMove = [](int ranks, bool in_place) { return 2.0 * (in_place ? ranks - 1 : ranks); };
constexpr Traffic kBlocksMoveOnce = [](int ranks, bool in_place) { return in_place ? 2.0 * (ranks - 1) / ranks : 2.0; };
constexpr Traffic kNoTraffic = [](int, bool) { return 0.0; };

constexpr Holds kNothing = Holds::kNothing, kVector = Holds::kVector, kBlock = Holds::kBlock, kBlocks = Holds::kBlocks;
constexpr RootPart kNone = RootPart::kNone, kSends = RootPart::kSends, kReceives = RootPart::kReceives;
constexpr bool kReduces = true, kCopies = false, kEven = false, kCounts = true;

constexpr std::array kCollectives = {
    CollectiveInfo{TUTTI_ALL_REDUCE, "all_reduce", "Every rank gets the reduction of all ranks' vectors",
                   kVector, kVector, kReduces, kEven, kNone, kTwice, kAllToAllRanks},
    CollectiveInfo{TUTTI_REDUCE, "reduce", "The root gets the reduction of all ranks' vectors",
                   kVector, kVector, kReduces, kEven, kReceives, kAll, kAllToOne},
    CollectiveInfo{TUTTI_BROADCAST, "broadcast", "Every rank gets the root's vector",
                   kVector, kVector, kCopies, kEven, kSends, kAll, kOneToAll},
    CollectiveInfo{TUTTI_ALL_GATHER, "all_gather", "Every rank gets the blocks of all ranks",
                   kBlock, kBlocks, kCopies, kEven, kNone, kOthers, kOneToAll},
    CollectiveInfo{TUTTI_REDUCE_SCATTER, "reduce_scatter", "Every rank gets its block of the reduction",
                   kBlocks, kBlock, kReduces, kEven, kNone, kOthers, kAllToOne},
    CollectiveInfo{TUTTI_ALL_TO_ALL, "all_to_all", "Every rank gets a block from every rank",
                   kBlocks, kBlocks, kCopies, kEven, kNone, kOthers, kBlocksMove},
    CollectiveInfo{TUTTI_GATHER, "gather", "The root gets the blocks of all ranks",
                   kBlock, kBlocks, kCopies, kEven, kReceives, kOthers, kBlocksMoveOnce},
    CollectiveInfo{TUTTI_SCATTER, "scatter", "Every rank gets its block from the root",
                   kBlocks, kBlock, kCopies, kEven, kSends, kOthers, kBlocksMoveOnce},
    CollectiveInfo{TUTTI_BARRIER, "barrier", "Every rank waits for all ranks",
                   kNothing, kNothing, kCopies, kEven, kNone, kAll, kNoTraffic},
    CollectiveInfo{TUTTI_ALL_GATHER_V, "all_gather_v", "all_gather of blocks of unequal sizes",
                   kBlock, kBlocks, kCopies, kCounts, kNone, kOthers, kOneToAll},
    CollectiveInfo{TUTTI_REDUCE_SCATTER_V, "reduce_scatter_v", "reduce_scatter of blocks of unequal sizes",
                   kBlocks, kBlock, kReduces, kCounts, kNone, kOthers, kAllToOne},
    CollectiveInfo{TUTTI_ALL_TO_ALL_V, "all_to_all_v", "all_to_all of blocks of unequal sizes",
                   kBlocks, kBlocks, kCopies, kCounts, kNone, kOthers, kBlocksMove},
    CollectiveInfo{TUTTI_GATHER_V, "gather_v", "gather of blocks of unequal sizes",
                   kBlock, kBlocks, kCopies, kCounts, kReceives, kOthers, kBlocksMoveOnce},
    CollectiveInfo{TUTTI_SCATTER_V, "scatter_v", "scatter of blocks of unequal sizes",
                   kBlocks, kBlock, kCopies, kCounts, kSends, kOthers, kBlocksMoveOnce},
};

}  // namespace

std::span<const CollectiveInfo> collectives() { return kCollectives; }

const CollectiveInfo& info(tutti_collective_t collective) {
  for (const CollectiveInfo& one : kCollectives) {
    if (one.collective == collective) return one;
  }
  std::abort();
}

const CollectiveInfo* collective_named(std::string_view name) {
  auto found = std::find_if(kCollectives.begin(), kCollectives.end(), [&](auto& one) { return one.name == name; });
  return found == kCollectives.end() ? nullptr : &*found;
}

uint64_t count_of(const CollectiveInfo& collective, uint64_t size_bytes, tutti_datatype_t datatype, int ranks) {
  return size_bytes / tutti_datatype_size(datatype) / collective.blocks(ranks);
}

tutti_status_t run(const tutti_call_t& c, tutti_comm_t* comm) {
  const void* send = c.send_buffer;
  void* recv = c.recv_buffer;
  switch (c.collective) {
    case TUTTI_ALL_REDUCE: return tutti_all_reduce(send, recv, c.count, c.datatype, c.op, comm, c.stream);
    case TUTTI_REDUCE: return tutti_reduce(send, recv, c.count, c.datatype, c.op, c.root, comm, c.stream);
    case TUTTI_BROADCAST: return tutti_broadcast(send, recv, c.count, c.datatype, c.root, comm, c.stream);
    case TUTTI_ALL_GATHER: return tutti_all_gather(send, recv, c.count, c.datatype, comm, c.stream);
    case TUTTI_REDUCE_SCATTER: return tutti_reduce_scatter(send, recv, c.count, c.datatype, c.op, comm, c.stream);
    case TUTTI_ALL_TO_ALL: return tutti_all_to_all(send, recv, c.count, c.datatype, comm, c.stream);
    case TUTTI_GATHER: return tutti_gather(send, recv, c.count, c.datatype, c.root, comm, c.stream);
    case TUTTI_SCATTER: return tutti_scatter(send, recv, c.count, c.datatype, c.root, comm, c.stream);
    case TUTTI_BARRIER: return tutti_barrier(comm, c.stream);
    case TUTTI_ALL_GATHER_V:
      return tutti_all_gather_v(send, c.count, recv, c.recv_counts, c.recv_displacements, c.datatype, comm, c.stream);
    case TUTTI_REDUCE_SCATTER_V:
      return tutti_reduce_scatter_v(send, recv, c.recv_counts, c.datatype, c.op, comm, c.stream);
    case TUTTI_ALL_TO_ALL_V:
      return tutti_all_to_all_v(send, c.send_counts, c.send_displacements, recv, c.recv_counts, c.recv_displacements,
                                c.datatype, comm, c.stream);
    case TUTTI_GATHER_V:
      return tutti_gather_v(send, c.count, recv, c.recv_counts, c.recv_displacements, c.datatype, c.root, comm,
                            c.stream);
    case TUTTI_SCATTER_V:
      return tutti_scatter_v(send, c.send_counts, c.send_displacements, recv, c.count, c.datatype, c.root, comm,
                             c.stream);
    case TUTTI_SEND: return tutti_send(send, c.count, c.datatype, c.peer, c.tag, comm, c.stream);
    case TUTTI_RECV: return tutti_recv(recv, c.count, c.datatype, c.peer, c.tag, comm, c.stream, c.message);
  }
  std::abort();
}

}  // namespace tutti::bench
