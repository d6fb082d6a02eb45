// Memory that ranks of a host reach directly: new tensors in it, and tensors that are registered.
#pragma once

#include <tutti/tutti.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/core/Tensor.h>

namespace tutti_torch {

// New tensors. What goes away is kept for the next one of its size: to map memory costs more than to use it. Of what
// was in use at once at most as much is kept. Any thread.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  static std::shared_ptr<Pool> create() { return std::shared_ptr<Pool>(new Pool); }
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Not initialized. The tensor owns its memory, and the pool lives as long.
  at::Tensor empty(at::IntArrayRef sizes, at::TensorOptions options);

 private:
  Pool() = default;
  void* take(size_t size_bytes);
  void give_back(void* memory, size_t size_bytes);

  std::mutex mutex_;  // guards what follows
  std::map<size_t, std::vector<void*>> free_;
  size_t free_bytes_ = 0;
  size_t used_bytes_ = 0;
  size_t most_used_bytes_ = 0;
};

// Registers memory for all groups of the process. tutti wants nobody to use the communicator meanwhile that it is
// registered by, and groups are always in use: this has one of its own, of one rank.
class Registrar {
 public:
  // Throws DistBackendError.
  static std::shared_ptr<Registrar> create();
  ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

 private:
  friend class Registration;
  explicit Registrar(tutti_comm_t* comm) : comm_(comm) {}

  std::mutex mutex_;  // held while these are used
  tutti_comm_t* const comm_;
  std::vector<at::Tensor> left_registered_;
};

// The memory of a tensor (all of its storage), registered until this object goes away. It keeps the memory.
class Registration {
 public:
  // Throws what torch throws for a wrong tensor, DistBackendError for memory that cannot be registered.
  Registration(std::shared_ptr<Registrar> registrar, at::Tensor tensor);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const std::shared_ptr<Registrar> registrar_;  // shared with the package and other registrations
  const at::Tensor tensor_;
  void* handle_ = nullptr;
};

}  // namespace tutti_torch
