// Frames over a socket whose buffers are tiny: whatever the cuts, what was sent is what arrives.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "transports/checks.h"
#include "transports/common/mapped.h"
#include "transports/fabric.h"
#include "transports/tcp/frame_reader.h"
#include "transports/tcp/frame_sender.h"

namespace tutti::test {
namespace {

constexpr size_t kMemory = 1 << 20;

class Memory final : public FrameSink {
 public:
  std::byte* writable(uint32_t id, uint64_t offset, uint64_t size_bytes) override {
    return id == 1 && in_bounds(kMemory, offset, size_bytes) ? bytes + offset : nullptr;
  }
  Status control(const Frame& frame) override {
    controls.push_back(frame.memory);
    return {};
  }
  alignas(64) std::byte bytes[kMemory] = {};
  std::vector<uint32_t> controls;
};

struct Wires {
  Wires() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    int size = 4096;
    ::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    from = Fd(fds[0]);
    to = Fd(fds[1]);
  }
  Fd from, to;
};

Status receive_some(int socket, FrameReader& reader) {
  auto space = reader.space();
  ssize_t got = ::readv(socket, space.data(), static_cast<int>(space.size()));
  return got > 0 ? reader.filled(static_cast<size_t>(got)) : Status();
}

}  // namespace

TEST_CASE("frames survive a socket that takes little at a time") {
  Wires wires;
  auto memory = std::make_unique<Memory>();
  FrameReader reader(*memory);
  FrameSender sender;
  sender.attach(wires.from.get());
  std::mt19937 random(1);
  auto source = pattern(kMemory, 1);
  std::vector<std::byte> expected(kMemory);
  uint64_t puts = 0, signals = 0;
  uint32_t controls = 0;
  for (int i = 0; i < 1500; ++i) {
    uint64_t size = random() % 3 == 0 ? random() % 150'000 : random() % 200;
    uint64_t offset = 4096 + random() % (kMemory - 4096 - size);
    Frame frame{.memory = 1, .offset = offset, .size_bytes = size, .signal_memory = 1, .signal_offset = 64 * (i % 64u),
                .line = {{static_cast<uint64_t>(i) + 1}}};
    while (true) {
      bool bare = i % 5 == 0;
      if (bare) frame.size_bytes = 0;
      auto result = bare ? sender.signal(frame) : sender.put(frame, std::span(source).subspan(offset, size));
      REQUIRE(result.ok());
      if (*result == PutResult::kDone) {
        ++(bare ? signals : puts);
        if (!bare) std::copy_n(source.begin() + offset, size, expected.begin() + offset);
        break;
      }
      check_ok(sender.flush());
      check_ok(receive_some(wires.to.get(), reader));
    }
    if (i % 7 == 0) check_ok(sender.control({.kind = Frame::Kind::kShare, .memory = ++controls, .line = {}}));
  }
  while (sender.has_kept() || reader.applied() < puts + signals + controls) {
    check_ok(sender.flush());
    check_ok(receive_some(wires.to.get(), reader));
  }
  CHECK(sender.puts_completed() == puts);
  CHECK(std::memcmp(memory->bytes + 4096, expected.data() + 4096, kMemory - 4096) == 0);
  CHECK(memory->controls.size() == controls);
  CHECK(std::is_sorted(memory->controls.begin(), memory->controls.end()));
  CHECK(counter_of(reinterpret_cast<Line*>(memory->bytes + 64 * (1499 % 64))) == 1500);
}

TEST_CASE("what is kept is bounded, and signals still find room behind puts") {
  Wires wires;
  FrameSender sender;
  sender.attach(wires.from.get());
  auto source = pattern(100'000, 1);
  Frame frame{.memory = 1, .size_bytes = source.size(), .signal_memory = 1, .line = {}};
  int puts = 0;
  while (sender.put(frame, source).value() == PutResult::kDone) REQUIRE(++puts < 1000);
  CHECK(puts > 0);
  CHECK(sender.puts_completed() == 0);
  int signals = 0;
  while (sender.signal(frame).value() == PutResult::kDone) REQUIRE(++signals < 1000);
  CHECK(signals > 0);
  CHECK(sender.put(frame, source).value() == PutResult::kFull);
}

TEST_CASE("a frame that may not write where it wants ends the stream and writes nothing") {
  struct Case {
    uint32_t memory;
    uint64_t offset, size;
    uint32_t signal_memory;
    uint64_t signal_offset;
  };
  auto c = GENERATE(Case{2, 0, 8, 1, 0}, Case{1, kMemory, 1, 1, 0}, Case{1, UINT64_MAX, 8, 1, 0},
                    Case{1, 8, UINT64_MAX, 1, 0}, Case{1, 4096, 8, 2, 0}, Case{1, 4096, 8, 1, kMemory},
                    Case{1, 4096, 8, 1, 8}, Case{1, 4096, 8, 1, UINT64_MAX - 63});
  auto memory = std::make_unique<Memory>();
  FrameReader reader(*memory);
  Frame frame{.memory = c.memory, .offset = c.offset, .size_bytes = c.size, .signal_memory = c.signal_memory,
              .signal_offset = c.signal_offset, .line = {{1, 2, 3}}};
  FrameHeader header = encode(frame);
  auto space = reader.space();
  std::memcpy(space[0].iov_base, header.data(), header.size());
  std::memset(static_cast<std::byte*>(space[0].iov_base) + header.size(), 7, 8);
  CHECK(reader.filled(header.size() + 8).code() == Code::kRemote);
  CHECK(is_all(std::span(memory->bytes, kMemory), std::byte{0}));
}

}  // namespace tutti::test
