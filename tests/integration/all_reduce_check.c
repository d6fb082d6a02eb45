/* A rank that all-reduces every type with every operation at odd sizes, in place and not, on both kinds of memory, and
 * compares with a plain loop: all_reduce_check [LARGEST COUNT [FILE]]. Ranks also compare their results bit for bit
 * through a second all-reduce. With FILE, all of it again and again, for the last time once FILE is there: who takes
 * something away from the ranks, and then makes FILE, knows that they had to do without. Exit status 0: all right. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

static const tutti_datatype_t kTypes[] = {TUTTI_INT8,    TUTTI_UINT8,   TUTTI_INT32,   TUTTI_UINT32, TUTTI_INT64,
                                          TUTTI_UINT64,  TUTTI_FLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_BFLOAT16};
static const tutti_op_t kOps[] = {TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG};
static const size_t kCounts[] = {1, 2, 3, 7, 64, 1001, 65537, 400003};

/* Small values that every type holds and whose sums and products are exact: 1 or 2 for products, else 0 .. 7. */
static double value(int rank, size_t index, tutti_op_t op) {
  size_t n = index * 5 + (size_t)rank * 3;
  return op == TUTTI_PROD ? (double)(1 + (n % 17 == 0)) : (double)(n % 8);
}

/* 1 to 2, with `bits` bits behind the point. */
static double inexact_value(int rank, size_t index, int bits) {
  uint32_t n = ((uint32_t)index * 2654435761u) ^ ((uint32_t)(rank + 1) * 40503u);
  return 1 + ldexp(n >> 7 & ((1u << bits) - 1), -bits);
}

static double expected(int nranks, size_t index, tutti_op_t op) {
  double result = value(0, index, op);
  for (int rank = 1; rank < nranks; ++rank) {
    double v = value(rank, index, op);
    if (op == TUTTI_SUM || op == TUTTI_AVG) result += v;
    if (op == TUTTI_PROD) result *= v;
    if (op == TUTTI_MAX) result = fmax(result, v);
    if (op == TUTTI_MIN) result = fmin(result, v);
  }
  return op == TUTTI_AVG ? result / nranks : result;
}

/* Of inputs, which are 0 or normal and exact. By hand: not every compiler has _Float16. */
static uint16_t to_half(double v) {
  int exponent;
  double fraction = frexp(v, &exponent); /* 0.5 .. 1 */
  return v == 0 ? 0 : (uint16_t)(((exponent + 14) << 10) + (int)(fraction * 2048) - 1024);
}

static double from_half(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  double magnitude = exponent == 0 ? ldexp(bits & 1023, -24) : ldexp(1024 + (bits & 1023), exponent - 25);
  if (exponent == 31) magnitude = (bits & 1023) != 0 ? NAN : INFINITY;
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

static uint16_t to_bfloat(double v) {
  float f = (float)v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return (uint16_t)(bits >> 16);
}

static double from_bfloat(uint16_t b) {
  uint32_t bits = (uint32_t)b << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static void store(void* buffer, size_t i, tutti_datatype_t type, double v) {
  switch (type) {
    case TUTTI_INT8: ((int8_t*)buffer)[i] = (int8_t)v; break;
    case TUTTI_UINT8: ((uint8_t*)buffer)[i] = (uint8_t)v; break;
    case TUTTI_INT32: ((int32_t*)buffer)[i] = (int32_t)v; break;
    case TUTTI_UINT32: ((uint32_t*)buffer)[i] = (uint32_t)v; break;
    case TUTTI_INT64: ((int64_t*)buffer)[i] = (int64_t)v; break;
    case TUTTI_UINT64: ((uint64_t*)buffer)[i] = (uint64_t)v; break;
    case TUTTI_FLOAT16: ((uint16_t*)buffer)[i] = to_half(v); break;
    case TUTTI_FLOAT32: ((float*)buffer)[i] = (float)v; break;
    case TUTTI_FLOAT64: ((double*)buffer)[i] = v; break;
    case TUTTI_BFLOAT16: ((uint16_t*)buffer)[i] = to_bfloat(v); break;
    default: break; /* 8-bit floats are left to the tests beside an MPI */
  }
}

static double load(const void* buffer, size_t i, tutti_datatype_t type) {
  switch (type) {
    case TUTTI_INT8: return ((const int8_t*)buffer)[i];
    case TUTTI_UINT8: return ((const uint8_t*)buffer)[i];
    case TUTTI_INT32: return ((const int32_t*)buffer)[i];
    case TUTTI_UINT32: return ((const uint32_t*)buffer)[i];
    case TUTTI_INT64: return (double)((const int64_t*)buffer)[i];
    case TUTTI_UINT64: return (double)((const uint64_t*)buffer)[i];
    case TUTTI_FLOAT16: return from_half(((const uint16_t*)buffer)[i]);
    case TUTTI_FLOAT32: return ((const float*)buffer)[i];
    case TUTTI_FLOAT64: return ((const double*)buffer)[i];
    case TUTTI_BFLOAT16: return from_bfloat(((const uint16_t*)buffer)[i]);
    default: return 0;
  }
}

static int is_float(tutti_datatype_t type) {
  return type == TUTTI_FLOAT16 || type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64 || type == TUTTI_BFLOAT16;
}

/* Averages of integers truncate; those of floats are rounded once to the type. */
static int right(double got, double want, tutti_datatype_t type, tutti_op_t op) {
  if (op != TUTTI_AVG) return got == want;
  if (!is_float(type)) return got == trunc(want);
  double relative = type == TUTTI_BFLOAT16 ? 1.0 / 256 : type == TUTTI_FLOAT16 ? 1.0 / 2048 : 1.0 / (1 << 23);
  return fabs(got - want) <= fabs(want) * relative;
}

static void check(tutti_status_t status, tutti_comm_t* comm, const char* what) {
  if (status == TUTTI_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, tutti_last_error(comm));
  exit(2);
}

/* One call; returns the number of wrong elements. */
static size_t run(tutti_comm_t* comm, int rank, int nranks, tutti_datatype_t type, tutti_op_t op, size_t count,
                  int in_place, void* in, void* out) {
  for (size_t i = 0; i < count; ++i) store(in_place ? out : in, i, type, value(rank, i, op));
  check(tutti_all_reduce(in_place ? out : in, out, count, type, op, comm, NULL), comm, "tutti_all_reduce");
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!right(load(out, i, type), expected(nranks, i, op), type, op) && wrong++ == 0) {
      fprintf(stderr, "rank %d: type %d, op %d, count %zu%s: element %zu is %g and should be %g\n", rank, (int)type,
              (int)op, count, in_place ? ", in place" : "", i, load(out, i, type), expected(nranks, i, op));
    }
  }
  return wrong;
}

/* Whether all ranks hold the same bytes: the largest and the smallest of each byte agree. */
static int same_bits(tutti_comm_t* comm, const void* buffer, size_t size) {
  uint8_t *most = malloc(size), *least = malloc(size);
  check(tutti_all_reduce(buffer, most, size, TUTTI_UINT8, TUTTI_MAX, comm, NULL), comm, "comparing bits");
  check(tutti_all_reduce(buffer, least, size, TUTTI_UINT8, TUTTI_MIN, comm, NULL), comm, "comparing bits");
  int same = memcmp(most, least, size) == 0;
  free(most);
  free(least);
  return same;
}

/* Sums of 16-bit floats with all their bits: of the exact sum they may be off by half a unit in the last place, as one
 * rounding leaves it. float32 holds these sums exactly. */
static size_t check_rounded_once(tutti_comm_t* comm, int nranks, tutti_datatype_t type, size_t count) {
  int bits = type == TUTTI_BFLOAT16 ? 7 : 10;
  uint16_t* buffer = malloc(count * sizeof *buffer);
  int rank = 0;
  size_t wrong = 0;
  tutti_comm_rank(comm, &rank);
  for (size_t i = 0; i < count; ++i) store(buffer, i, type, inexact_value(rank, i, bits));
  check(tutti_all_reduce(buffer, buffer, count, type, TUTTI_SUM, comm, NULL), comm, "summing 16-bit floats");
  for (size_t i = 0; i < count; ++i) {
    double exact = 0;
    for (int r = 0; r < nranks; ++r) exact += inexact_value(r, i, bits);
    double half_a_unit = ldexp(1, ilogb(exact) - bits - 1);
    if (fabs(load(buffer, i, type) - exact) > half_a_unit && wrong++ == 0) {
      fprintf(stderr, "rank %d: type %d: element %zu of %zu is %g, but %g rounded once is nearer\n", rank, (int)type, i,
              count, load(buffer, i, type), exact);
    }
  }
  free(buffer);
  return wrong;
}

/* Every type, operation and kind of memory at all counts up to `largest`; returns the number of wrong elements. */
static size_t check_all(tutti_comm_t* comm, int rank, int nranks, size_t largest, size_t* cases) {
  size_t wrong = 0;
  for (size_t c = 0; c < sizeof kCounts / sizeof *kCounts && kCounts[c] <= largest; ++c) {
    size_t count = kCounts[c], bytes = count * 8;
    void *shared_in = NULL, *shared_out = NULL;
    check(tutti_mem_alloc(&shared_in, bytes), NULL, "tutti_mem_alloc");
    check(tutti_mem_alloc(&shared_out, bytes), NULL, "tutti_mem_alloc");
    void *in = malloc(bytes), *out = malloc(bytes);
    for (size_t t = 0; t < sizeof kTypes / sizeof *kTypes; ++t) {
      for (size_t o = 0; o < sizeof kOps / sizeof *kOps; ++o) {
        for (int variant = 0; variant < 4; ++variant, ++*cases) {
          int shared = variant / 2;
          void* result = shared ? shared_out : out;
          wrong += run(comm, rank, nranks, kTypes[t], kOps[o], count, variant % 2, shared ? shared_in : in, result);
          if (count <= 1001 && !same_bits(comm, result, count * tutti_datatype_size(kTypes[t])) && wrong++ == 0) {
            fprintf(stderr, "rank %d: results of type %d, op %d, count %zu differ between ranks\n", rank,
                    (int)kTypes[t], (int)kOps[o], count);
          }
        }
      }
    }
    wrong += check_rounded_once(comm, nranks, TUTTI_FLOAT16, count);
    wrong += check_rounded_once(comm, nranks, TUTTI_BFLOAT16, count);
    free(in);
    free(out);
    tutti_mem_free(shared_in);
    tutti_mem_free(shared_out);
  }
  return wrong;
}

/* Whether a rank sees the file: all have the same answer. */
static int is_there(tutti_comm_t* comm, const char* file) {
  int32_t there = access(file, F_OK) == 0;
  check(tutti_all_reduce(&there, &there, 1, TUTTI_INT32, TUTTI_MAX, comm, NULL), comm, "whether the file is there");
  return there;
}

int main(int argc, char** argv) {
  size_t largest = argc > 1 ? strtoull(argv[1], NULL, 10) : SIZE_MAX;
  const char* file = argc > 2 ? argv[2] : NULL;
  tutti_comm_t* comm = NULL;
  int rank = 0, nranks = 0, last = 0;
  check(tutti_comm_init_from_environment(&comm, NULL), NULL, "joining");
  tutti_comm_rank(comm, &rank);
  tutti_comm_size(comm, &nranks);
  size_t wrong = 0, cases = 0;
  while (!last) {
    last = file == NULL || is_there(comm, file);
    wrong += check_all(comm, rank, nranks, largest, &cases);
  }
  if (rank == 0) printf("%zu cases on %d ranks: %zu wrong\n", cases, nranks, wrong);
  check(tutti_comm_destroy(comm), NULL, "leaving");
  return wrong == 0 ? 0 : 1;
}
