// The operations that a program has made for one communicator.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "base/status.h"
#include "executor/own_op.h"

namespace tutti {

class OwnOps {
 public:
  // The number that calls name it by. Any thread. Errors: there are too many.
  Result<ReduceOp> add(const OwnOp& op);
  Status remove(ReduceOp number);
  // Any thread. Errors: there is none of that number; it is for another datatype.
  Result<OwnOp> find(ReduceOp number, Datatype datatype) const;

 private:
  static constexpr int kFirst = 64;  // the numbers before are for operations that everybody knows
  static constexpr int kMost = 192;

  mutable std::mutex mutex_;
  std::array<std::optional<OwnOp>, kMost> ops_;
};

}  // namespace tutti
