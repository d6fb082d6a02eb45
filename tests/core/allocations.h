// The allocations of the test's executable, which the calling thread may count or refuse.
#pragma once

#include <cstddef>

namespace tutti::test {

// Those of the calling thread while one of these lives.
class Counted {
 public:
  Counted();
  ~Counted();
  Counted(const Counted&) = delete;
  size_t count() const;
};

// The calling thread's next `count` allocations throw std::bad_alloc, as long as this lives.
class Refused {
 public:
  explicit Refused(size_t count);
  ~Refused();
  Refused(const Refused&) = delete;
};

}  // namespace tutti::test
