// Numbers that all ranks draw alike from the same seeds.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace differential {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): any seed will do, and streams of different seeds are unrelated.
class Random {
 public:
  explicit Random(std::initializer_list<uint64_t> seeds) {
    for (uint64_t seed : seeds) state_ = mixed(state_ ^ mixed(seed + kStep)) + kStep;
  }

  uint64_t next() { return mixed(state_ += kStep); }
  // 0 .. limit - 1; limit > 0.
  uint64_t below(uint64_t limit) { return next() % limit; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <class T>
  const T& one_of(std::span<const T> choices) { return choices[below(choices.size())]; }
  template <class T>
  T one_of(std::initializer_list<T> choices) { return choices.begin()[below(choices.size())]; }
  // 1 .. limit, small ones as likely as large ones.
  uint64_t logarithmic(uint64_t limit) {
    double exponent = static_cast<double>(next() >> 11) * 0x1p-53 * std::log2(static_cast<double>(limit));
    return static_cast<uint64_t>(std::exp2(exponent));
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  static uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_ = 0;
};

}  // namespace differential
