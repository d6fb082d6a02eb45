// Memory as a GPU's: the host finds nothing at its addresses, and its bytes lie in a file, which is its dma-buf.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "transports/device_memory.h"

namespace tutti::test {

class GpuMemory final : public DeviceMemory {
 public:
  // Begins `within` bytes behind the start of a page.
  explicit GpuMemory(size_t size_bytes, size_t within = 512) : within_(within) {
    size_t whole = within + size_bytes;
    dma_buf_ = {create_memfd("tutti-test-gpu", whole).value(), within};
    contents_ = Mapping::create(dma_buf_.fd.get(), whole).value();
    void* address = ::mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TUTTI_CHECK(address != MAP_FAILED);
    bytes_ = {static_cast<std::byte*>(address) + within, size_bytes};
  }
  ~GpuMemory() override { ::munmap(bytes_.data() - within_, within_ + bytes_.size()); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::span<std::byte> bytes() const override { return bytes_; }
  const DmaBuf& dma_buf() const override { return dma_buf_; }
  Status read(std::span<std::byte> to, const std::byte* from) const override {
    if (has_failed) return error(Code::kCuda, "this GPU has failed");
    ++reads;
    std::memcpy(to.data(), contents(from - bytes_.data()), to.size());
    return {};
  }
  Status write(std::byte* to, std::span<const std::byte> from) const override {
    if (has_failed) return error(Code::kCuda, "this GPU has failed");
    ++writes;
    std::memcpy(contents(to - bytes_.data()), from.data(), from.size());
    return {};
  }

  // As the GPU sees them.
  std::byte* contents(ptrdiff_t offset = 0) const {
    return contents_.bytes().data() + within_ + offset;
  }
  int copies() const { return reads + writes; }

  std::atomic<bool> has_failed{false};
  mutable std::atomic<int> reads{0}, writes{0};  // through the host

 private:
  const size_t within_;
  DmaBuf dma_buf_;
  Mapping contents_;
  std::span<std::byte> bytes_;
};

}  // namespace tutti::test
