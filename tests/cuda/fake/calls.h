// How the fake driver's entry points begin. Their names and parameters are the driver's.
#pragma once

#include "cuda/fake/fake.h"

#define CALL extern "C" __attribute__((visibility("default"))) CUresult
#define FOR_TESTS extern "C" __attribute__((visibility("default")))
#define BEGIN(name)                                             \
  do {                                                          \
    if (CUresult wrong = tutti::fake::injected(#name); wrong != CUDA_SUCCESS) return wrong; \
  } while (false)
#define NEEDS_CONTEXT() \
  if (tutti::fake::current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT
