// DeviceWatch: a thread of the process that asks the driver now and then whether a device has failed on which calls are
// under way: nothing there may ever be reached or done. It may have to wait in the driver, so it does nothing else.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti {

class StreamEntry;

class DeviceWatch {
 public:
  DeviceWatch() = default;
  DeviceWatch(const DeviceWatch&) = delete;
  DeviceWatch& operator=(const DeviceWatch&) = delete;
  ~DeviceWatch();

  // Until all of its calls are done. Any thread. Starts the thread with the first.
  void add(const std::shared_ptr<StreamEntry>& entry);

 private:
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::shared_ptr<StreamEntry>> entries_;  // shared with their communicators and what is on streams
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tutti
