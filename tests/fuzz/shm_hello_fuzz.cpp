// Any bytes are refused as an address or a message of the shm transport, or are exactly the encoding of what was read.
#include <algorithm>

#include "fuzz/input.h"
#include "transports/shm/wire.h"

namespace {

template <typename Bytes>
void check_same(const Bytes& again, std::span<const std::byte> bytes) {
  TUTTI_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto bytes = tutti::fuzz::as_bytes(data, size_bytes);
  if (auto name = tutti::parse_shm_address(bytes); name.ok()) check_same(tutti::encode_shm_address(*name), bytes);
  if (auto end = tutti::parse_shm_end(bytes); end.ok()) check_same(tutti::encode(*end), bytes);
  if (auto note = tutti::parse_shm_note(bytes); note.ok()) check_same(tutti::encode(*note), bytes);
  return 0;
}
