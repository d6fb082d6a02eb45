/* What every part of the test program needs. A check that fails ends the process: the ranks that are left know why. */
#ifndef TUTTI_TESTS_NCCL_CHECK_H
#define TUTTI_TESTS_NCCL_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/interface.h"

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (condition) break;                                                      \
    fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
    exit(1);                                                                   \
  } while (0)

#define GIVES(result, call)                                                                                     \
  do {                                                                                                          \
    ncclResult_t got = (call);                                                                                  \
    if (got == (result)) break;                                                                                 \
    fprintf(stderr, "%s:%d: %s is %d (%s) and not %d\n", __FILE__, __LINE__, #call, (int)got, ncclGetLastError(NULL), \
            (int)(result));                                                                                     \
    exit(1);                                                                                                    \
  } while (0)

#define OK(call) GIVES(ncclSuccess, call)

#define SAYS(text)                                                                                            \
  do {                                                                                                        \
    const char* said = ncclGetLastError(NULL);                                                                \
    if (strstr(said, text) != NULL) break;                                                                    \
    fprintf(stderr, "%s:%d: the sentence is \"%s\", without \"%s\"\n", __FILE__, __LINE__, said, text);       \
    exit(1);                                                                                                  \
  } while (0)

#endif
