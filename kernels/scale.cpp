#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/partial.h"

namespace tutti {
namespace {

// Copies of the factor, as a second source that stays in the level-1 cache.
class Factors {
 public:
  Factors(const std::byte* factor, size_t element_size, uint64_t count)
      : count_(std::min<uint64_t>(count, sizeof bytes_ / element_size)) {
    const size_t end = count_ * element_size;
    memcpy(bytes_, factor, element_size);
    for (size_t filled = element_size; filled < end; filled *= 2) {
      memcpy(bytes_ + filled, bytes_, std::min(filled, end - filled));
    }
  }

  const std::byte* data() const { return bytes_; }
  uint64_t count() const { return count_; }

 private:
  alignas(kCacheLine) std::byte bytes_[4096];
  uint64_t count_;
};

}  // namespace

void scale(Datatype datatype, std::byte* to, const std::byte* from, uint64_t count, const std::byte* factor) {
  TUTTI_CHECK(is_valid(datatype));
  if (count == 0) return;
  const size_t element_size = size_of(datatype);
  const Factors factors(factor, element_size, count);
  for (uint64_t done = 0; done < count; done += factors.count()) {
    const std::byte* const sources[] = {from + done * element_size, factors.data()};
    std::byte* const destination = to + done * element_size;
    reduce({.datatype = datatype,
            .op = TUTTI_PROD,
            .sources = sources,
            .destinations = {&destination, 1},
            .count = std::min(count - done, factors.count())});
  }
}

}  // namespace tutti
