// The first byte says how the rest is cut into pieces; whole or in pieces, the same frames come out, or the same
// refusal.
#include <algorithm>
#include <utility>
#include <vector>

#include "bootstrap/channel.h"
#include "fuzz/input.h"

namespace {

using namespace tutti::bootstrap;

using Frames = std::vector<std::pair<uint32_t, Bytes>>;

// The frames up to the end or to a refusal, and whether there was one.
std::pair<Frames, bool> parse(ByteView bytes, size_t piece) {
  FrameParser parser(512);
  Frames frames;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    parser.add(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    for (;;) {
      auto frame = parser.next();
      if (!frame.ok()) return {std::move(frames), true};
      if (!frame->has_value()) break;
      TUTTI_CHECK((*frame)->payload.size() <= 512);
      frames.emplace_back((*frame)->type, std::move((*frame)->payload));
    }
  }
  return {std::move(frames), false};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  if (size_bytes == 0) return 0;
  auto bytes = tutti::fuzz::as_bytes(data, size_bytes).subspan(1);
  TUTTI_CHECK(parse(bytes, bytes.size() + 1) == parse(bytes, size_t{data[0]} + 1));
  return 0;
}
