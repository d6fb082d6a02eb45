/* A rank that makes every call with counts, and exchanges messages by send_recv, and looks at each element and at the
 * gaps between blocks: counts_check [LARGEST COUNT]. Exit status 0: all right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { kGap = 5, kMostRanks = 64 };
static const size_t kCounts[] = {0, 1, 7, 1001, 65537, 400003};
static const uint32_t kUntouched = 0xEEEEEEEE;

static tutti_comm_t* comm;
static int rank, nranks;
static uint64_t counts[kMostRanks], places[kMostRanks]; /* of the blocks of all ranks, gaps between them */
static uint64_t room;                                   /* elements that hold all of them */
static uint32_t *from, *to;
static size_t most;                                     /* elements of either */

static void require(tutti_status_t status) {
  if (status == TUTTI_SUCCESS) return;
  fprintf(stderr, "%s\n", tutti_last_error(comm));
  exit(3);
}

/* Element i of what `sender` has for `receiver`. */
static uint32_t value(int sender, int receiver, uint64_t i) {
  return (uint32_t)(sender * 1000003 + receiver * 7919) + (uint32_t)i * 31;
}

/* Blocks of different sizes, that of rank 1 empty. */
static void lay_out(size_t count) {
  room = kGap;
  for (int r = 0; r < nranks; ++r) {
    counts[r] = r == 1 ? 0 : count + (uint64_t)r * 3;
    places[r] = room;
    room += counts[r] + kGap;
  }
}

static void clear(void) {
  for (size_t i = 0; i < most; ++i) to[i] = kUntouched;
}

static void fill(uint32_t* block, uint64_t count, int sender, int receiver) {
  for (uint64_t i = 0; i < count; ++i) block[i] = value(sender, receiver, i);
}

/* Whether `to` has what each rank has for `receiver`, blocks of these sizes at their places, and nothing else. */
static int blocks_are_right(int receiver, const uint64_t* sizes) {
  uint64_t at = 0;
  int right = 1;
  for (int r = 0; r < nranks; ++r) {
    for (; at < places[r]; ++at) right = right && to[at] == kUntouched;
    for (uint64_t i = 0; i < sizes[r]; ++i, ++at) right = right && to[at] == value(r, receiver, i);
  }
  for (; at < room; ++at) right = right && to[at] == kUntouched;
  return right;
}

static int all_gather_v(void) {
  fill(from, counts[rank], rank, 0);
  require(tutti_all_gather_v(from, counts[rank], to, counts, places, TUTTI_UINT32, comm, NULL));
  return blocks_are_right(0, counts);
}

static int gather_v(int root) {
  fill(from, counts[rank], rank, root);
  require(tutti_gather_v(from, counts[rank], to, counts, places, TUTTI_UINT32, root, comm, NULL));
  return rank != root || blocks_are_right(root, counts);
}

static int scatter_v(int root) {
  for (int r = 0; r < nranks; ++r) fill(from + places[r], counts[r], root, r);
  require(tutti_scatter_v(from, counts, places, to, counts[rank], TUTTI_UINT32, root, comm, NULL));
  int right = 1;
  for (uint64_t i = 0; i < room; ++i) {
    right = right && to[i] == (i < counts[rank] ? value(root, rank, i) : kUntouched);
  }
  return right;
}

/* From every rank comes a block of this rank's size. */
static int all_to_all_v(void) {
  uint64_t own[kMostRanks], own_places[kMostRanks], all_room = room;
  for (int r = 0; r < nranks; ++r) {
    fill(from + places[r], counts[r], rank, r);
    own[r] = counts[rank];
    own_places[r] = kGap + (uint64_t)r * (counts[rank] + kGap);
  }
  require(tutti_all_to_all_v(from, counts, places, to, own, own_places, TUTTI_UINT32, comm, NULL));
  uint64_t kept[kMostRanks];
  memcpy(kept, places, sizeof kept);
  memcpy(places, own_places, sizeof kept);
  room = kGap + (uint64_t)nranks * (counts[rank] + kGap);
  int right = blocks_are_right(rank, own);
  memcpy(places, kept, sizeof kept);
  room = all_room;
  return right;
}

/* Sums modulo 2^32. */
static int reduce_scatter_v(void) {
  uint64_t at = 0;
  for (int r = 0; r < nranks; ++r) {
    fill(from + at, counts[r], rank, r);
    at += counts[r];
  }
  require(tutti_reduce_scatter_v(from, to, counts, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
  int right = 1;
  for (uint64_t i = 0; i < room; ++i) {
    uint32_t sum = 0;
    for (int r = 0; r < nranks; ++r) sum += value(r, rank, i);
    right = right && to[i] == (i < counts[rank] ? sum : kUntouched);
  }
  return right;
}

/* With the rank so many further on, each as much as it has: the sizes of both ways differ. */
static int send_recv(int distance) {
  int dest = (rank + distance) % nranks, source = (rank + nranks - distance) % nranks;
  tutti_message_t message;
  fill(from, counts[rank], rank, dest);
  require(tutti_send_recv(from, counts[rank], dest, rank, to, counts[source], source, source, TUTTI_UINT32, comm, NULL,
                          &message));
  int right = message.count == counts[source] && message.source == source && message.tag == source;
  for (uint64_t i = 0; i < room; ++i) {
    right = right && to[i] == (i < counts[source] ? value(source, rank, i) : kUntouched);
  }
  return right;
}

int main(int argc, char** argv) {
  if (tutti_comm_init_from_environment(&comm, NULL) != TUTTI_SUCCESS) {
    fprintf(stderr, "%s\n", tutti_last_error(NULL));
    return 2;
  }
  require(tutti_comm_rank(comm, &rank));
  require(tutti_comm_size(comm, &nranks));
  size_t largest = argc > 1 ? strtoull(argv[1], NULL, 10) : 65537;
  most = (largest + 3 * kMostRanks + kGap) * (size_t)(nranks + 1);
  int shared = 0;
  unsigned cases = 0, wrong = 0;
  for (; shared < 2; ++shared) {
    void *a = NULL, *b = NULL;
    if (shared) {
      require(tutti_mem_alloc(&a, most * sizeof *from));
      require(tutti_mem_alloc(&b, most * sizeof *to));
    } else {
      a = malloc(most * sizeof *from);
      b = malloc(most * sizeof *to);
    }
    if (nranks > kMostRanks || a == NULL || b == NULL) return 2;
    from = a;
    to = b;
    for (size_t c = 0; c < sizeof kCounts / sizeof *kCounts && kCounts[c] <= largest; ++c) {
      lay_out(kCounts[c]);
      int roots[] = {0, nranks - 1};
      int results[] = {(clear(), all_gather_v()),      (clear(), gather_v(roots[0])),  (clear(), gather_v(roots[1])),
                       (clear(), scatter_v(roots[0])), (clear(), scatter_v(roots[1])), (clear(), all_to_all_v()),
                       (clear(), reduce_scatter_v()),  (clear(), send_recv(1)),
                       (clear(), send_recv(nranks - 1))};
      for (size_t i = 0; i < sizeof results / sizeof *results; ++i, ++cases) {
        if (!results[i]) fprintf(stderr, "rank %d: call %zu is wrong with blocks of %zu\n", rank, i, kCounts[c]);
        wrong += !results[i];
      }
    }
    if (shared) {
      require(tutti_mem_free(a));
      require(tutti_mem_free(b));
    } else {
      free(a);
      free(b);
    }
  }
  uint32_t all_wrong = wrong;
  require(tutti_all_reduce(&all_wrong, &all_wrong, 1, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
  if (rank == 0) printf("%u cases on %d ranks: %u wrong\n", cases, nranks, all_wrong);
  require(tutti_comm_finalize(comm));
  tutti_comm_destroy(comm);
  return all_wrong == 0 ? 0 : 1;
}
