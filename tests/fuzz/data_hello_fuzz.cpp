// Any bytes are refused as a data connection's hello, or are exactly the encoding of what was read.
#include <algorithm>

#include "fuzz/input.h"
#include "transports/common/hello.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto bytes = tutti::fuzz::as_bytes(data, size_bytes);
  for (tutti::Wire wire : {tutti::Wire::kLoopback, tutti::Wire::kShm, tutti::Wire::kTcp}) {
    auto hello = tutti::parse_hello(bytes, wire);
    if (!hello.ok()) continue;
    auto again = tutti::encode(*hello);
    TUTTI_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  }
  return 0;
}
