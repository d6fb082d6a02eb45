/* All collectives, sends and receives, in all types: results beside a plain loop's. */
#include "nccl/bodies.h"
#include "nccl/check.h"
#include "nccl/memory.h"
#include "nccl/values.h"

enum kind {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kBcast,
  kAllGather,
  kAllToAll,
  kGather,
  kScatter,
  kKinds
};

struct shape {
  enum kind kind;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  size_t count;
  int in_place;
};

/* Elements of a rank's buffers. */
static size_t inputs(const struct shape* shape, int nranks) {
  int has_blocks = shape->kind == kReduceScatter || shape->kind == kAllToAll || shape->kind == kScatter;
  return has_blocks ? shape->count * (size_t)nranks : shape->count;
}

static size_t outputs(const struct shape* shape, int nranks) {
  int has_blocks = shape->kind == kAllGather || shape->kind == kAllToAll || shape->kind == kGather;
  return has_blocks ? shape->count * (size_t)nranks : shape->count;
}

static int has_output(const struct shape* shape, int rank) {
  int is_of_root = shape->kind == kReduce || shape->kind == kGather;
  return !is_of_root || rank == shape->root;
}

/* Where the two begin in one buffer, for calls in place. */
static size_t input_place(const struct shape* shape, int rank) {
  return shape->kind == kAllGather ? (size_t)rank * shape->count : 0;
}

static size_t output_place(const struct shape* shape, int rank) {
  return shape->kind == kReduceScatter ? (size_t)rank * shape->count : 0;
}

/* On every rank: gather and scatter can be on the root alone. */
static int can_be_in_place(enum kind kind) {
  return kind == kAllReduce || kind == kReduce || kind == kReduceScatter || kind == kBroadcast || kind == kAllGather;
}

static double expected(const struct shape* shape, int nranks, int rank, size_t i) {
  size_t count = shape->count, own = (size_t)rank * count;
  switch (shape->kind) {
    case kAllReduce:
    case kReduce: return reduced_value(nranks, i, shape->op, shape->type);
    case kReduceScatter: return reduced_value(nranks, own + i, shape->op, shape->type);
    case kAllGather:
    case kGather: return input_value((int)(i / count), i % count);
    case kAllToAll: return input_value((int)(i / count), own + i % count);
    case kScatter: return input_value(shape->root, own + i);
    default: return input_value(shape->root, i);
  }
}

static ncclResult_t call(const struct shape* shape, const void* in, void* out, ncclComm_t comm, cudaStream_t stream) {
  size_t count = shape->count;
  ncclDataType_t type = shape->type;
  switch (shape->kind) {
    case kAllReduce: return ncclAllReduce(in, out, count, type, shape->op, comm, stream);
    case kReduce: return ncclReduce(in, out, count, type, shape->op, shape->root, comm, stream);
    case kReduceScatter: return ncclReduceScatter(in, out, count, type, shape->op, comm, stream);
    case kBroadcast: return ncclBroadcast(in, out, count, type, shape->root, comm, stream);
    case kBcast: return ncclBcast(out, count, type, shape->root, comm, stream);
    case kAllGather: return ncclAllGather(in, out, count, type, comm, stream);
    case kAllToAll: return ncclAlltoAll(in, out, count, type, comm, stream);
    case kGather: return ncclGather(in, out, count, type, shape->root, comm, stream);
    default: return ncclScatter(in, out, count, type, shape->root, comm, stream);
  }
}

struct buffers {
  char *in, *out;  /* the test's memory */
  char *from, *to; /* what the call gets */
  char* host;
};

static struct buffers fill(const struct shape* shape, int nranks, int rank) {
  size_t size = size_of_type(shape->type), in = inputs(shape, nranks), out = outputs(shape, nranks);
  size_t most = in > out ? in : out;
  struct buffers buffers = {.host = calloc(most, size)};
  CHECK(buffers.host != NULL);
  int is_one = shape->in_place || shape->kind == kBcast;
  buffers.in = memory_get(most * size);
  buffers.out = is_one ? buffers.in : memory_get(most * size);
  buffers.from = buffers.in + (is_one ? input_place(shape, rank) * size : 0);
  buffers.to = buffers.out + (is_one ? output_place(shape, rank) * size : 0);
  memory_write(buffers.out, buffers.host, most * size);
  for (size_t i = 0; i < in; ++i) put_value(buffers.host, i, shape->type, input_value(rank, i));
  memory_write(buffers.from, buffers.host, in * size);
  return buffers;
}

static void check_and_free(const struct shape* shape, int nranks, int rank, struct buffers* buffers) {
  size_t size = size_of_type(shape->type), out = outputs(shape, nranks);
  memory_read(buffers->host, buffers->to, out * size);
  for (size_t i = 0; i < out && has_output(shape, rank); ++i) {
    double got = get_value(buffers->host, i, shape->type), wanted = expected(shape, nranks, rank, i);
    if (got == wanted) continue;
    fprintf(stderr, "kind %d type %d op %d root %d count %zu%s, rank %d of %d: element %zu is %g and not %g\n",
            shape->kind, shape->type, shape->op, shape->root, shape->count, shape->in_place ? " in place" : "", rank,
            nranks, i, got, wanted);
    fail();
  }
  memory_put(buffers->in);
  if (buffers->out != buffers->in) memory_put(buffers->out);
  free(buffers->host);
}

static void run(struct ranks* ranks, struct shape shape) {
  struct buffers buffers[kMostRanks];
  for (int i = 0; i < ranks->local; ++i) buffers[i] = fill(&shape, ranks->count, ranks->first + i);
  if (ranks->local > 1) OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    OK(call(&shape, buffers[i].from, buffers[i].to, ranks->comms[i], ranks->streams[i]));
  }
  if (ranks->local > 1) OK(ncclGroupEnd());
  wait_for_streams(ranks);
  for (int i = 0; i < ranks->local; ++i) check_and_free(&shape, ranks->count, ranks->first + i, &buffers[i]);
}

void test_collectives(struct ranks* ranks) {
  for (int kind = 0; kind < kKinds; ++kind) {
    int reduces = kind <= kReduceScatter;
    for (int type = 0; type < ncclNumTypes; ++type) {
      for (int op = 0; op < (reduces ? ncclNumOps : 1); ++op) {
        struct shape shape = {kind, (ncclDataType_t)type, (ncclRedOp_t)op, (type + op) % ranks->count, 37, 0};
        run(ranks, shape);
        shape.in_place = 1;
        if (can_be_in_place(kind)) run(ranks, shape);
      }
    }
    run(ranks, (struct shape){kind, ncclFloat32, ncclSum, ranks->count - 1, 1, 0});
    run(ranks, (struct shape){kind, ncclFloat32, ncclSum, 0, 100003, 0});
  }
}

/* ---- Groups */

/* Calls of all kinds in one group: none has to wait for an earlier one. */
void test_group_of_calls(struct ranks* ranks) {
  enum { kCalls = 2 * kKinds };
  struct shape shapes[kCalls];
  struct buffers buffers[kCalls][kMostRanks];
  for (int c = 0; c < kCalls; ++c) {
    shapes[c] = (struct shape){c % kKinds, c % 2 ? ncclInt32 : ncclFloat64, ncclSum, c % ranks->count, 50 + 100 * c, 0};
    for (int i = 0; i < ranks->local; ++i) buffers[c][i] = fill(&shapes[c], ranks->count, ranks->first + i);
  }
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  for (int c = 0; c < kCalls; ++c) {
    for (int i = 0; i < ranks->local; ++i) {
      OK(call(&shapes[c], buffers[c][i].from, buffers[c][i].to, ranks->comms[i], ranks->streams[i]));
    }
  }
  OK(ncclGroupEnd());
  OK(ncclGroupEnd());
  wait_for_streams(ranks);
  for (int c = 0; c < kCalls; ++c) {
    for (int i = 0; i < ranks->local; ++i) {
      check_and_free(&shapes[c], ranks->count, ranks->first + i, &buffers[c][i]);
    }
  }
}

/* ---- Sends and receives */

/* To each rank from each, itself included, sends before receives: message (from, to) has its own length and contents.
 * What is sent as float is received as bytes, which NCCL does not mind. */
void test_messages(struct ranks* ranks) {
  enum { kMost = 5000 };
  int n = ranks->count;
  float *out[kMostRanks], *in[kMostRanks];
  float* host = calloc((size_t)n * kMost, sizeof *host);
  CHECK(host != NULL);
  for (int i = 0; i < ranks->local; ++i) {
    out[i] = memory_get((size_t)n * kMost * sizeof *host);
    in[i] = memory_get((size_t)n * kMost * sizeof *host);
    memory_write(in[i], host, (size_t)n * kMost * sizeof *host);
  }
  for (int i = 0; i < ranks->local; ++i) {
    for (int at = 0; at < n * kMost; ++at) host[at] = (float)(10 * (ranks->first + i) + at / kMost) + at % kMost;
    memory_write(out[i], host, (size_t)n * kMost * sizeof *host);
  }
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    int rank = ranks->first + i;
    for (int to = 0; to < n; ++to) {
      size_t length = to == 0 && rank == 0 ? 0 : (size_t)(to + 1) * (size_t)(rank + 1) * 300 % kMost;
      OK(ncclSend(out[i] + to * kMost, length, ncclFloat32, to, ranks->comms[i], ranks->streams[i]));
    }
  }
  for (int i = 0; i < ranks->local; ++i) {
    int rank = ranks->first + i;
    for (int from = 0; from < n; ++from) {
      size_t length = rank == 0 && from == 0 ? 0 : (size_t)(rank + 1) * (size_t)(from + 1) * 300 % kMost;
      size_t size = length * sizeof(float);
      OK(ncclRecv(in[i] + from * kMost, size, ncclUint8, from, ranks->comms[i], ranks->streams[i]));
    }
  }
  OK(ncclGroupEnd());
  wait_for_streams(ranks);
  for (int i = 0; i < ranks->local; ++i) {
    int rank = ranks->first + i;
    memory_read(host, in[i], (size_t)n * kMost * sizeof *host);
    for (int at = 0; at < n * kMost; ++at) {
      int from = at / kMost, place = at % kMost;
      size_t length = rank == 0 && from == 0 ? 0 : (size_t)(rank + 1) * (size_t)(from + 1) * 300 % kMost;
      CHECK(host[at] == ((size_t)place < length ? (float)(10 * from + rank) + place : 0));
    }
    memory_put(out[i]);
    memory_put(in[i]);
  }
  free(host);
}

/* ---- Sums of multiplied contributions */

static void check_multiplied(struct ranks* ranks, ncclScalarResidence_t residence) {
  enum { kCount = 1000 };
  float host[kCount];
  float* data[kMostRanks];
  float* scalars[kMostRanks];
  ncclRedOp_t ops[kMostRanks];
  for (int i = 0; i < ranks->local; ++i) {
    int rank = ranks->first + i;
    float scalar = (float)(rank + 2);
    for (int at = 0; at < kCount; ++at) host[at] = (float)input_value(rank, at);
    data[i] = memory_get(sizeof host);
    scalars[i] = memory_get(sizeof scalar);
    memory_write(data[i], host, sizeof host);
    memory_write(scalars[i], &scalar, sizeof scalar);
    void* given = residence == ncclScalarDevice ? scalars[i] : &scalar;
    OK(ncclRedOpCreatePreMulSum(&ops[i], given, ncclFloat32, residence, ranks->comms[i]));
    CHECK(ops[i] >= ncclNumOps);
    scalar = -1;
    if (residence == ncclScalarHostImmediate) memory_write(scalars[i], &scalar, sizeof scalar);
  }
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    OK(ncclAllReduce(data[i], data[i], kCount, ncclFloat32, ops[i], ranks->comms[i], ranks->streams[i]));
  }
  OK(ncclGroupEnd());
  for (int i = 0; i < ranks->local; ++i) OK(ncclRedOpDestroy(ops[i], ranks->comms[i]));
  wait_for_streams(ranks);
  for (int i = 0; i < ranks->local; ++i) {
    memory_read(host, data[i], sizeof host);
    for (int at = 0; at < kCount; ++at) {
      double wanted = 0;
      for (int rank = 0; rank < ranks->count; ++rank) wanted += (rank + 2) * input_value(rank, at);
      CHECK(host[at] == wanted);
    }
    memory_put(data[i]);
    memory_put(scalars[i]);
  }
}

void test_multiplied_sums(struct ranks* ranks) {
  check_multiplied(ranks, ncclScalarHostImmediate);
  check_multiplied(ranks, ncclScalarDevice);
}

void check_all_reduce(struct ranks* ranks) {
  run(ranks, (struct shape){kAllReduce, ncclInt64, ncclSum, 0, 200, 0});
}
