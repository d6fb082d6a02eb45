// Memory accesses narrower than a vector, and where streaming may begin.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tutti {

static_assert(std::endian::native == std::endian::little, "bytes are moved as the low ends of words");

constexpr size_t kCacheLine = 64;

inline bool is_line_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kCacheLine == 0; }

// Bytes to write by ordinary stores until a destination is at a cache line: the first destination whose elements ever
// are. Others take part in streaming only when they have the same offset in their lines.
inline size_t stream_head(std::span<std::byte* const> destinations, size_t element_size) {
  for (const std::byte* destination : destinations) {
    const size_t head = -reinterpret_cast<uintptr_t>(destination) % kCacheLine;
    if (head % element_size == 0) return head;
  }
  return 0;
}

template <class Word>
inline uint64_t load_word(const void* from) {
  Word word;
  memcpy(&word, from, sizeof word);
  return word;
}

template <class Word>
inline void store_word(uint64_t value, void* to) {
  const Word word = static_cast<Word>(value);
  memcpy(to, &word, sizeof word);
}

// Two words overlap in the middle where `size` is no power of two. size: 1..7; the rest of the result is zero.
inline uint64_t load_below_8(const uint8_t* from, size_t size) {
  if (size >= 4) return load_word<uint32_t>(from) | load_word<uint32_t>(from + size - 4) << 8 * (size - 4);
  if (size >= 2) return load_word<uint16_t>(from) | load_word<uint16_t>(from + size - 2) << 8 * (size - 2);
  return *from;
}

inline void store_below_8(uint64_t value, uint8_t* to, size_t size) {
  if (size >= 4) {
    store_word<uint32_t>(value, to);
    store_word<uint32_t>(value >> 8 * (size - 4), to + size - 4);
  } else if (size >= 2) {
    store_word<uint16_t>(value, to);
    store_word<uint16_t>(value >> 8 * (size - 2), to + size - 2);
  } else {
    *to = static_cast<uint8_t>(value);
  }
}

struct Words {
  uint64_t low;
  uint64_t high;
};

// size: 1..15; bytes beyond are neither read nor written, and zero in the words.
inline Words load_first_bytes(const uint8_t* from, size_t size) {
  if (size < 8) return {load_below_8(from, size), 0};
  return {load_word<uint64_t>(from), size > 8 ? load_below_8(from + 8, size - 8) : 0};
}

inline void store_first_bytes(Words words, uint8_t* to, size_t size) {
  if (size < 8) return store_below_8(words.low, to, size);
  store_word<uint64_t>(words.low, to);
  if (size > 8) store_below_8(words.high, to + 8, size - 8);
}

}  // namespace tutti
