// The interpreter's instances as g++ compiles them, for machines without a GPU: tests.
#pragma once

#include <cstddef>
#include <string_view>

#include "kernels/cuda/program_run.h"

namespace tutti::cuda {

// Stands for one thread of a GPU; what the interpreter asks of it is said in program_run.h.
class HostEnv {
 public:
  virtual ~HostEnv() = default;
  virtual uint32_t block() const = 0;
  virtual uint32_t thread() const = 0;
  virtual uint32_t threads() const = 0;
  virtual void read(void* to, uint64_t address, size_t size_bytes) = 0;
  virtual void write(uint64_t address, const void* from, size_t size_bytes) = 0;
  virtual uint64_t load_acquire(uint64_t address, Order order) = 0;
  virtual void store_release(uint64_t address, uint64_t value, Order order) = 0;
  virtual bool sync_or(bool mine, Barrier barrier) = 0;
  virtual bool is_cancelled(const uint32_t* word) = 0;
  virtual void say_late(uint32_t* word, uint32_t value) = 0;
  virtual uint64_t now_ns() = 0;

  template <class Value>
  Value load(uint64_t address) {
    Value value;
    read(&value, address, sizeof value);
    return value;
  }
  template <class Value>
  void store(uint64_t address, const Value& value) {
    write(address, &value, sizeof value);
  }
  void sync(Barrier barrier) { (void)sync_or(false, barrier); }
};

// Runs what one thread of the launch does. `shared`: of its block.
using ProgramBody = void (*)(const ProgramArgs& args, HostEnv& env, ProgramBlock& shared);

// Null when there is no such instance.
ProgramBody program_body(std::string_view name);

}  // namespace tutti::cuda
