// What GCC's headers ask the C++ library for, and that of GCC 8 (GLIBCXX_3.4.24, manylinux_2_28's) lacks or has under
// an older version. It is linked into what shares that library with others, and seen by nobody else.
#include <condition_variable>
#include <mutex>
#include <new>

#define MANYLINUX_HIDDEN(symbol) __asm__(symbol) __attribute__((visibility("hidden")))

extern "C" {
// std::__throw_bad_array_new_length(), of GCC 11
[[noreturn]] void throw_bad_array_new_length() MANYLINUX_HIDDEN("_ZSt28__throw_bad_array_new_lengthv");
// std::condition_variable::wait(std::unique_lock<std::mutex>&), which GCC 12 declares noexcept
void wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock) noexcept
    MANYLINUX_HIDDEN("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
}

void throw_bad_array_new_length() { throw std::bad_array_new_length(); }

void wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock) noexcept {
  pthread_cond_wait(condition.native_handle(), lock.mutex()->native_handle());
}
