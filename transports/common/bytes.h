// Little-endian integers in fixed-size messages.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tutti {

// Writes into a message of known size; more than fits is a defect.
class FixedWriter {
 public:
  explicit FixedWriter(std::span<std::byte> out) : out_(out) {}

  template <std::unsigned_integral T>
  FixedWriter& put(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) out_[i] = static_cast<std::byte>(value >> (8 * i));
    out_ = out_.subspan(sizeof(T));
    return *this;
  }
  FixedWriter& put(std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(out_.data(), bytes.data(), bytes.size());
    out_ = out_.subspan(bytes.size());
    return *this;
  }

 private:
  std::span<std::byte> out_;
};

// Reads a message whose size has been checked.
class FixedReader {
 public:
  explicit FixedReader(std::span<const std::byte> in) : in_(in) {}

  template <std::unsigned_integral T>
  T get() {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (static_cast<T>(in_[i]) << (8 * i)));
    in_ = in_.subspan(sizeof(T));
    return value;
  }
  void get(std::span<std::byte> out) {
    std::memcpy(out.data(), in_.data(), out.size());
    in_ = in_.subspan(out.size());
  }
  size_t left() const { return in_.size(); }

 private:
  std::span<const std::byte> in_;
};

}  // namespace tutti
