// Little-endian values in a byte buffer: how every message of the control plane is written and read. Reading is
// bounded: a Reader that runs past the end answers zeros and says so in ok().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::bootstrap {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

class Writer {
 public:
  void u8(uint8_t value) { integer(value); }
  void u16(uint16_t value) { integer(value); }
  void u32(uint32_t value) { integer(value); }
  void u64(uint64_t value) { integer(value); }
  void bytes(ByteView value) { out_.insert(out_.end(), value.begin(), value.end()); }
  // At most 65535 bytes; longer text is cut.
  void text(std::string_view value) {
    value = value.substr(0, UINT16_MAX);
    u16(static_cast<uint16_t>(value.size()));
    bytes(as_bytes(value));
  }
  // Exactly `size` bytes: cut, or filled with zeros.
  void fixed_text(std::string_view value, size_t size) {
    value = value.substr(0, size);
    bytes(as_bytes(value));
    out_.resize(out_.size() + size - value.size());
  }
  void pad_to(size_t size) { out_.resize(size); }

  size_t size() const { return out_.size(); }
  ByteView view() const { return out_; }
  Bytes take() { return std::move(out_); }

 private:
  template <typename T>
  void integer(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  Bytes out_;
};

class Reader {
 public:
  explicit Reader(ByteView in) : in_(in) {}

  uint8_t u8() { return integer<uint8_t>(); }
  uint16_t u16() { return integer<uint16_t>(); }
  uint32_t u32() { return integer<uint32_t>(); }
  uint64_t u64() { return integer<uint64_t>(); }
  // Empty when fewer than `size` bytes are left.
  ByteView bytes(size_t size) {
    if (size > in_.size()) {
      fail();
      return {};
    }
    ByteView value = in_.first(size);
    in_ = in_.subspan(size);
    return value;
  }
  template <size_t N>
  void into(std::array<std::byte, N>& out) {
    ByteView value = bytes(N);
    if (!value.empty()) std::memcpy(out.data(), value.data(), N);
  }
  std::string text() { return string_of(bytes(u16())); }
  std::string fixed_text(size_t size) {
    std::string value = string_of(bytes(size));
    return value.substr(0, value.find('\0'));
  }
  ByteView rest() { return bytes(in_.size()); }

  bool ok() const { return ok_; }
  bool empty() const { return in_.empty(); }

 private:
  static std::string string_of(ByteView value) {
    return std::string(reinterpret_cast<const char*>(value.data()), value.size());
  }
  void fail() {
    ok_ = false;
    in_ = {};
  }
  template <typename T>
  T integer() {
    ByteView value = bytes(sizeof(T));
    T result = 0;
    for (size_t i = 0; i < value.size(); ++i) result |= static_cast<T>(static_cast<T>(value[i]) << (8 * i));
    return result;
  }
  ByteView in_;
  bool ok_ = true;
};

}  // namespace tutti::bootstrap
