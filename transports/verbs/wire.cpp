#include "transports/verbs/wire.h"

#include <algorithm>

#include "transports/common/bytes.h"

namespace tutti {
namespace {

constexpr uint32_t kMagic = 0x62767474;  // "ttvb"
constexpr size_t kHeadBytes = 8;
constexpr size_t kMostNameBytes = 64;
constexpr size_t kMostReasonBytes = 480;
constexpr size_t kGidBytes = 17;

enum class Tag : uint32_t { kHello = 1, kReady, kVerdict, kLost, kData };

void put_text(FixedWriter& writer, std::string_view text, size_t most) {
  text = text.substr(0, most);
  writer.put(static_cast<uint16_t>(text.size())).put(std::as_bytes(std::span(text)));
}

// False when it cannot be.
bool get_text(FixedReader& reader, size_t most, std::string& text) {
  auto size = reader.get<uint16_t>();
  if (size > most) return false;
  text.resize(size);
  reader.get(std::as_writable_bytes(std::span(text)));
  return true;
}

void put_range(FixedWriter& writer, const RemoteRange& range) { writer.put(range.address).put(range.key); }
RemoteRange get_range(FixedReader& reader) {
  RemoteRange range;
  range.address = reader.get<uint64_t>();
  range.key = reader.get<uint32_t>();
  return range;
}

struct Writing {
  FixedWriter& writer;

  FixedWriter& begin(Tag tag) const { return writer.put(kMagic).put(static_cast<uint32_t>(tag)); }
  void operator()(const SideHello& hello) const {
    begin(Tag::kHello).put(hello.queue.number).put(hello.queue.first_packet).put(hello.receives);
    put_range(writer, hello.probe);
    size_t gids = std::min(hello.port.gids.size(), kMostGids);
    writer.put(static_cast<uint8_t>(hello.port.infiniband ? 1 : 0))
        .put(hello.port.lid)
        .put(static_cast<uint32_t>(hello.port.mtu_bytes))
        .put(static_cast<uint8_t>(gids));
    for (const Gid& gid : std::span(hello.port.gids).first(gids)) {
      writer.put(static_cast<uint8_t>(gid.type)).put(std::span<const std::byte>(gid.bytes));
    }
    put_text(writer, hello.name, kMostNameBytes);
  }
  void operator()(const SideReady&) const { begin(Tag::kReady); }
  void operator()(const SideVerdict& verdict) const {
    begin(Tag::kVerdict).put(static_cast<uint8_t>(verdict.proven ? 1 : 0)).put(verdict.ports).put(verdict.lanes);
    put_text(writer, verdict.reason, kMostReasonBytes);
  }
  void operator()(const SideLost& lost) const { begin(Tag::kLost).put(lost.lane).put(lost.received); }
  void operator()(const SideData& data) const {
    begin(Tag::kData).put(data.payload_bytes).put(std::as_bytes(std::span(&data.head, 1)));
    writer.put(std::as_bytes(std::span(data.line.words)));
  }
};
static_assert(kHeadBytes + 12 + 12 + 8 + kMostGids * kGidBytes + 2 + kMostNameBytes <= kSideMessageBytes);
static_assert(kHeadBytes + 3 + 2 + kMostReasonBytes <= kSideMessageBytes);

Status malformed() { return error(Code::kRemote, "the peer sent what no verbs link says; run one version of tutti"); }

Result<SideMessage> parse_hello_body(FixedReader& reader) {
  SideHello hello;
  hello.queue.number = reader.get<uint32_t>();
  hello.queue.first_packet = reader.get<uint32_t>();
  hello.receives = reader.get<uint32_t>();
  hello.probe = get_range(reader);
  hello.port.infiniband = reader.get<uint8_t>() != 0;
  hello.port.lid = reader.get<uint16_t>();
  hello.port.mtu_bytes = static_cast<int>(reader.get<uint32_t>());
  size_t gids = reader.get<uint8_t>();
  if (gids > kMostGids || mtu_code_of(hello.port.mtu_bytes) == 0 || hello.receives < 2) return malformed();
  for (size_t i = 0; i < gids; ++i) {
    Gid gid{.index = -1};
    auto type = reader.get<uint8_t>();
    if (type > static_cast<uint8_t>(GidType::kInfiniband)) return malformed();
    gid.type = static_cast<GidType>(type);
    reader.get(gid.bytes);
    hello.port.gids.push_back(gid);
  }
  if (!get_text(reader, kMostNameBytes, hello.name)) return malformed();
  return SideMessage(std::move(hello));
}

Result<SideMessage> parse_data_body(FixedReader& reader) {
  SideData data;
  data.payload_bytes = reader.get<uint64_t>();
  reader.get(std::as_writable_bytes(std::span(&data.head, 1)));
  reader.get(std::as_writable_bytes(std::span(data.line.words)));
  if (!has_number(data.head.kind) || data.head.payload_bytes != 0) return malformed();
  return SideMessage(data);
}

}  // namespace

SideBytes encode(const SideMessage& message) {
  SideBytes bytes{};
  FixedWriter writer(bytes);
  std::visit(Writing{writer}, message);
  return bytes;
}

Result<SideMessage> parse_side_message(std::span<const std::byte, kSideMessageBytes> bytes) {
  FixedReader reader(bytes);
  if (reader.get<uint32_t>() != kMagic) return malformed();
  switch (static_cast<Tag>(reader.get<uint32_t>())) {
    case Tag::kHello: return parse_hello_body(reader);
    case Tag::kReady: return SideMessage(SideReady{});
    case Tag::kVerdict: {
      SideVerdict verdict;
      verdict.proven = reader.get<uint8_t>() != 0;
      verdict.ports = reader.get<uint8_t>();
      verdict.lanes = reader.get<uint8_t>();
      bool is_right = verdict.ports > 0 && verdict.lanes > 0 && verdict.lanes <= kMostLanes;
      if (!is_right || !get_text(reader, kMostReasonBytes, verdict.reason)) return malformed();
      return SideMessage(std::move(verdict));
    }
    case Tag::kLost: {
      SideLost lost;
      lost.lane = reader.get<uint8_t>();
      lost.received = reader.get<uint64_t>();
      if (lost.lane >= kMostLanes) return malformed();
      return SideMessage(lost);
    }
    case Tag::kData: return parse_data_body(reader);
  }
  return malformed();
}

}  // namespace tutti
