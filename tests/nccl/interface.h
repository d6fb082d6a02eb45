/* NCCL's own header where the machine has one, so that the tests are what a program of NCCL's is; else ours, which
 * layout.c compares with it. */
#ifndef TUTTI_TESTS_NCCL_INTERFACE_H
#define TUTTI_TESTS_NCCL_INTERFACE_H

#ifdef TUTTI_TEST_OF_NCCLS_HEADER
#include <nccl.h>
#else
#include "nccl/abi.h"
#endif

#endif
