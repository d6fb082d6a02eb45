// An open RDMA device and the port of it that a rank uses.
#pragma once

#include <memory>

#include "transports/device_memory.h"
#include "transports/verbs/library.h"
#include "transports/verbs/path.h"
#include "transports/verbs/verbs.h"

namespace tutti {

class VerbsDevice {
 public:
  // The ports that the options ask for, the fastest first. Errors: there is none that is up, or no library.
  static Result<std::vector<PortFacts>> find(const VerbsOptions& options);
  // Opens the library and this port.
  static Result<std::unique_ptr<VerbsDevice>> open(const VerbsOptions& options, const PortFacts& port);
  ~VerbsDevice();
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;

  const VerbsLibrary& library() const { return library_; }
  const VerbsOptions& options() const { return options_; }
  const PortFacts& port() const { return port_; }
  // What peers are told of the port.
  Result<PortAddress> address() const { return address_of(port_, options_.gid_index, options_.mtu_bytes); }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }

 private:
  VerbsDevice(const VerbsLibrary& library, const VerbsOptions& options) : library_(library), options_(options) {}

  const VerbsLibrary library_;
  const VerbsOptions options_;
  PortFacts port_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
};

// A range of memory that the device may read and, with `remote`, peers may write.
class Registration {
 public:
  enum class By : uint8_t { kDevice, kPeers };
  // `is_full`: whether the error is that no more can be registered until something is given up.
  static Result<Registration> create(const VerbsDevice& device, std::span<std::byte> memory, By by,
                                     bool* is_full = nullptr);
  // Of a GPU's memory, for peers. Errors: the library, the kernel or the device has no dmabuf.
  static Result<Registration> create(const VerbsDevice& device, const DeviceMemory& memory);
  Registration() = default;
  Registration(Registration&& other) noexcept { *this = std::move(other); }
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();

  uint32_t local_key() const { return region_->lkey; }
  uint32_t remote_key() const { return region_->rkey; }
  explicit operator bool() const { return region_ != nullptr; }

 private:
  const VerbsDevice* device_ = nullptr;
  ibv_mr* region_ = nullptr;
};

}  // namespace tutti
