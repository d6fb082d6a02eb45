/* What every part of the test program needs. A check that fails ends the process: the ranks that are left know why. It
 * ends at once, since other ranks' threads still use what would be destroyed. */
#ifndef TUTTI_TESTS_NCCL_CHECK_H
#define TUTTI_TESTS_NCCL_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/interface.h"

static inline _Noreturn void fail(void) {
  fflush(stderr);
  _Exit(1);
}

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (condition) break;                                                      \
    fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
    fail();                                                                    \
  } while (0)

#define GIVES(result, call)                                                                                     \
  do {                                                                                                          \
    ncclResult_t got = (call);                                                                                  \
    if (got == (result)) break;                                                                                 \
    fprintf(stderr, "%s:%d: %s is %d (%s) and not %d\n", __FILE__, __LINE__, #call, (int)got, ncclGetLastError(NULL), \
            (int)(result));                                                                                     \
    fail();                                                                                                     \
  } while (0)

#define OK(call) GIVES(ncclSuccess, call)

#define SAYS(text)                                                                                            \
  do {                                                                                                        \
    const char* said = ncclGetLastError(NULL);                                                                \
    if (strstr(said, text) != NULL) break;                                                                    \
    fprintf(stderr, "%s:%d: the sentence is \"%s\", without \"%s\"\n", __FILE__, __LINE__, said, text);       \
    fail();                                                                                                   \
  } while (0)

#endif
