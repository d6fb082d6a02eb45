// What the compiler adds to the tests.
#pragma once

namespace tutti::test {

// Everything takes 10 to 30 times as long then: tests make less of what differs only in the amount of data.
#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

// Of functions that only work out what a test expects, in memory of their own thread: there is nothing to be found, and
// they take most of a test's time otherwise. They go by pointers, as what they call is looked at.
#define TUTTI_UNWATCHED __attribute__((no_sanitize("thread")))

}  // namespace tutti::test
