#include "core/own_ops.h"

#include <algorithm>

namespace tutti {
namespace {

Status unknown(ReduceOp number) {
  return error(Code::kInvalidArgument, "there is no operation with the number {}", static_cast<int>(number));
}

}  // namespace

Result<ReduceOp> OwnOps::add(const OwnOp& op) {
  std::lock_guard lock(mutex_);
  auto unused = std::find(ops_.begin(), ops_.end(), std::nullopt);
  if (unused == ops_.end()) {
    return error(Code::kInvalidUsage, "this communicator has {} operations, which is the most; destroy some", kMost);
  }
  *unused = op;
  (*unused)->number = static_cast<ReduceOp>(kFirst + (unused - ops_.begin()));
  return (*unused)->number;
}

Status OwnOps::remove(ReduceOp number) {
  std::lock_guard lock(mutex_);
  int index = static_cast<int>(number) - kFirst;
  if (index < 0 || index >= kMost || !ops_[index]) return unknown(number);
  ops_[index].reset();
  return {};
}

Result<OwnOp> OwnOps::find(ReduceOp number, Datatype datatype) const {
  std::lock_guard lock(mutex_);
  int index = static_cast<int>(number) - kFirst;
  if (index < 0 || index >= kMost || !ops_[index]) return unknown(number);
  const OwnOp& op = *ops_[index];
  if (op.kind == kPreMulSum && op.datatype != datatype) {
    return error(Code::kInvalidArgument, "operation {} was made for {}, not for {}", static_cast<int>(number),
                 name_of(op.datatype), name_of(datatype));
  }
  return op;
}

}  // namespace tutti
