#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "device.h"

namespace tutti::bench {
namespace {

// Calls on host buffers block, so that what is before a mark is done.
class Host : public Device {
 public:
  std::string name() const override { return "cpu"; }
  std::string gpu() const override { return ""; }
  tutti_stream_t stream() const override { return nullptr; }
  void* allocate(size_t) override { return nullptr; }
  void free(void*) noexcept override {}
  void upload(void*, const void*, size_t) override {}
  void download(void*, const void*, size_t) override {}
  void copy(void* to, const void* from, size_t size_bytes) override { std::memcpy(to, from, size_bytes); }
  void synchronize() override {}

  void prepare_marks(size_t count) override { marks_.resize(std::max(count, marks_.size())); }
  void mark(size_t index) override { marks_[index] = Clock::now(); }
  double seconds_between(size_t first, size_t second) const override {
    return std::chrono::duration<double>(marks_[second] - marks_[first]).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<Device> make_host() { return std::make_unique<Host>(); }

}  // namespace tutti::bench
