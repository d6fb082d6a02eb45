// A short wait for a word that another processor is about to store.
#pragma once

namespace tutti {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Asks for less than a microsecond, as long as the answer is yes. A small message comes in that time.
template <typename StillWaits>
void watch_while(StillWaits&& still_waits) {
  constexpr int kLooks = 16;
  for (int i = 0; i < kLooks && still_waits(); ++i) pause_cpu();
}

}  // namespace tutti
