// What the compiler adds to the tests.
#pragma once

namespace tutti::test {

// Everything takes 10 to 30 times as long then: tests make less of what differs only in the amount of data.
#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

}  // namespace tutti::test
