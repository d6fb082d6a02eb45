// Unique ids pass through files, environments and other people's hands. Chance never meets a checksum, so it is put
// right here: what follows it has to refuse whatever bytes there are, or to read an id that is written and read back
// as itself.
#include <algorithm>
#include <cstring>

#include "bootstrap/unique_id.h"
#include "bootstrap/wire.h"
#include "fuzz/input.h"

using namespace tutti::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  tutti_unique_id_t id{};
  std::copy_n(data, std::min(size_bytes, sizeof(id.bytes)), id.bytes);
  ByteView all = std::as_bytes(std::span(id.bytes));
  Writer checksum;
  checksum.u32(static_cast<uint32_t>(hash64(all.first(all.size() - sizeof(uint32_t)))));
  std::memcpy(id.bytes + all.size() - sizeof(uint32_t), checksum.view().data(), sizeof(uint32_t));

  auto decoded = decode_unique_id(id);
  if (decoded.ok()) TUTTI_CHECK(decode_unique_id(encode(*decoded)).value() == *decoded);
  return 0;
}
