// Calls of every collective, type and operation on buffers of devices, beside what a loop in float64 gives. For tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/gpu.h"
#include "differential/float_format.h"
#include "tutti/tutti.h"

namespace tutti::test {

struct TestedType {
  tutti_datatype_t id;
  const char* name;
  size_t size;
  bool is_signed;
  std::optional<differential::FloatFormat> format;

  bool is_float() const { return format.has_value(); }
};
const std::vector<TestedType>& tested_types();

// Makes element `i` of that type the nearest to `value`.
void put(std::vector<uint8_t>& bytes, size_t i, double value, const TestedType& type);

struct TestedOp {
  tutti_op_t id;
  const char* name;
};
inline constexpr TestedOp kSumOp = {TUTTI_SUM, "sum"};

inline constexpr tutti_collective_t kReducing[] = {TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER};
inline constexpr tutti_collective_t kMoving[] = {TUTTI_BROADCAST, TUTTI_ALL_GATHER, TUTTI_ALL_TO_ALL, TUTTI_GATHER,
                                                 TUTTI_SCATTER};

struct TestedCall {
  tutti_collective_t collective;
  TestedType type;
  TestedOp op;
  uint64_t count = 0;
  bool in_place = false;
  size_t misalignment = 0;
};

// Of all collectives that combine, with every type and operation that go together.
std::vector<TestedCall> calls_of_every_type_and_op(uint64_t count);

// And those that move data, with every type.
std::vector<TestedCall> moving_calls_of_every_type(uint64_t count);

// Makes the call on this rank's buffers, which are there, and gives "", or what is wrong; what a call that
// succeeds stores beside the output is found, too.
std::string run(const TestedCall& call, tutti_comm_t* comm, int rank, int nranks, const Stream& stream,
                Where where = Where::kDevice);

}  // namespace tutti::test
