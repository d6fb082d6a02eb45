// Devices: whether this process uses a GPU, and the module for it. A process that does not pays for the question alone:
// nothing is opened before the program itself has opened the driver.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace tutti {

struct DeviceOptions {
  std::string driver = "libcuda.so.1";  // the driver's library, by name or path
  std::string module;                   // the path of ours; "": beside this library
};

class Devices {
 public:
  // Before the first question; later ones change nothing once the module is open.
  void configure(DeviceOptions options);

  // The module if the program has loaded the driver, and null if not: then no pointer is a device's. A library that was
  // loaded since the last look costs a look. Null, too, where the driver is there but the module is not, or does not
  // fit; that is said once.
  DeviceModule* if_used();
  // Why there is none: for who has passed a stream.
  Status why_not() const;

 private:
  Status open();

  std::atomic<DeviceModule*> opened_{nullptr};
  std::atomic<uint64_t> loads_seen_{0};
  mutable std::mutex mutex_;  // guards what follows
  DeviceOptions options_;
  Status failure_;            // to open the module
};

}  // namespace tutti
