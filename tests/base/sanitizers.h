// What the compiler adds to the tests.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace tutti::test {

// Everything takes 10 to 30 times as long then: tests make less of what differs only in the amount of data.
#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

// Of functions that only work out what a test expects, in memory of their own thread: there is nothing to be found, and
// they take most of a test's time otherwise. Functions that they call are watched all the same, operator[] too, so they
// take pointers.
#define TUTTI_UNWATCHED __attribute__((no_sanitize("thread")))

// As many elements as `fill`, which gets a pointer to them, stores: watched as a whole, once.
template <typename T, typename Fill>
std::vector<T> worked_out(size_t count, const Fill& fill) {
  std::unique_ptr<T[]> values(new T[count]);
  fill(values.get());
  return {values.get(), values.get() + count};
}

}  // namespace tutti::test
