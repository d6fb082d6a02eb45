// The first byte chooses a message of the control plane; any bytes after it are refused, or decode to a value that
// encodes and decodes to the same bytes again.
#include "bootstrap/messages.h"
#include "fuzz/input.h"

namespace {

using namespace tutti::bootstrap;

Bytes encode_again(const Block& block) { return encode(block.sequence, block.origin, block.bytes); }
template <typename Message>
Bytes encode_again(const Message& message) {
  return encode(message);
}

template <typename Message>
void read(tutti::Result<Message> (*decode)(ByteView), ByteView bytes) {
  auto first = decode(bytes);
  if (!first.ok()) {
    TUTTI_CHECK(!first.status().message().empty());
    return;
  }
  Bytes text = encode_again(*first);
  auto second = decode(text);
  TUTTI_CHECK(second.ok() && encode_again(*second) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  if (size_bytes == 0) return 0;
  auto bytes = tutti::fuzz::as_bytes(data, size_bytes).subspan(1);
  switch (data[0] % 6) {
    case 0: read(decode_hello, bytes); break;
    case 1: read(decode_neighbours, bytes); break;
    case 2: read(decode_link, bytes); break;
    case 3: read(decode_notice, bytes); break;
    case 4: read(decode_block, bytes); break;
    case 5: read(decode_parcel, bytes); break;
  }
  return 0;
}
