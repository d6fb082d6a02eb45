#include "bootstrap/messages.h"

#include <algorithm>

namespace tutti::bootstrap {
namespace {

constexpr uint32_t kMagic = 0x74747574;  // "tutt"
constexpr size_t kHostNameSize = 63;
constexpr size_t kMaxNoticeText = 2048;

Status malformed(std::string_view what) {
  return error(Code::kRemote, "it sent a malformed {} message: it is not a tutti process of this version", what);
}

void write(Writer& out, const Endpoint& endpoint) {
  out.u8(static_cast<uint8_t>(endpoint.family));
  out.u16(endpoint.port);
  if (endpoint.is_unix()) {
    out.fixed_text(endpoint.name, endpoint.address.size());
  } else {
    out.bytes(endpoint.address);
  }
}

std::optional<Endpoint> read_endpoint(Reader& in) {
  Endpoint endpoint;
  uint8_t family = in.u8();
  endpoint.family = static_cast<Endpoint::Family>(family);
  endpoint.port = in.u16();
  if (endpoint.is_unix()) {
    endpoint.name = in.fixed_text(endpoint.address.size());
  } else {
    in.into(endpoint.address);
  }
  bool known = family == 0 || family == 4 || family == 6;
  if (!known || !in.ok()) return std::nullopt;
  return endpoint;
}

}  // namespace

std::string Hello::who() const { return fmt::format("pid {} on {}", pid, host_name); }

std::vector<Endpoint> Hello::reachable_from(const HostIdentity& from) const {
  std::vector<Endpoint> found;
  for (const Endpoint& endpoint : endpoints) {
    if (endpoint.is_unix() && host == from) found.push_back(endpoint);
  }
  for (const Endpoint& endpoint : endpoints) {
    if (!endpoint.is_unix()) found.push_back(endpoint);
  }
  return found;
}

Bytes encode(const Hello& hello) {
  Writer out;
  out.u32(kMagic);
  out.u16(hello.version);
  out.u16(0);
  out.u32(static_cast<uint32_t>(hello.rank));
  out.u32(static_cast<uint32_t>(hello.nranks));
  out.u64(static_cast<uint64_t>(hello.pid));
  out.fixed_text(hello.host_name, kHostNameSize);
  out.u8(0);
  // What follows may change with the version.
  out.u64(static_cast<uint64_t>(hello.timeout_ms));
  out.bytes(hello.secret_check);
  out.bytes(hello.host.boot_id);
  out.u64(hello.host.network_namespace);
  out.u32(hello.host.user);
  size_t count = std::min(hello.endpoints.size(), Hello::kMaxEndpoints);
  out.u8(static_cast<uint8_t>(count));
  for (size_t i = 0; i < count; ++i) write(out, hello.endpoints[i]);
  TUTTI_CHECK(out.size() <= kMaxHello);
  out.pad_to(kMaxHello);
  return out.take();
}

Result<Hello> decode_hello(ByteView bytes) {
  Reader in(bytes);
  if (in.u32() != kMagic) return malformed("hello");
  Hello hello;
  hello.version = in.u16();
  in.u16();
  hello.rank = static_cast<int32_t>(in.u32());
  hello.nranks = static_cast<int32_t>(in.u32());
  hello.pid = static_cast<int64_t>(in.u64());
  hello.host_name = in.fixed_text(kHostNameSize);
  in.u8();
  if (!in.ok()) return malformed("hello");
  if (hello.version != kWireVersion) {
    return error(Code::kInvalidUsage,
                 "rank {} ({}) speaks version {} of the meeting protocol, this job speaks {}: run the same version "
                 "of tutti on all ranks",
                 hello.rank, hello.who(), hello.version, kWireVersion);
  }
  hello.timeout_ms = static_cast<int64_t>(in.u64());
  in.into(hello.secret_check);
  in.into(hello.host.boot_id);
  hello.host.network_namespace = in.u64();
  hello.host.user = in.u32();
  uint8_t count = in.u8();
  if (bytes.size() != kMaxHello || count > Hello::kMaxEndpoints || hello.nranks < 1 || hello.nranks > kMaxRanks ||
      hello.rank < 0 || hello.rank >= hello.nranks || hello.timeout_ms < 0) {
    return malformed("hello");
  }
  for (uint8_t i = 0; i < count; ++i) {
    std::optional<Endpoint> endpoint = read_endpoint(in);
    if (!endpoint) return malformed("hello");
    hello.endpoints.push_back(std::move(*endpoint));
  }
  return hello;
}

Bytes encode(const Neighbours& neighbours) {
  Writer out;
  out.u64(neighbours.job);
  out.bytes(neighbours.token);
  for (const Hello& hello : neighbours.hellos) out.bytes(encode(hello));
  return out.take();
}

Result<Neighbours> decode_neighbours(ByteView bytes) {
  Reader in(bytes);
  Neighbours neighbours;
  neighbours.job = in.u64();
  in.into(neighbours.token);
  while (in.ok() && !in.empty()) neighbours.hellos.push_back(TUTTI_TRY(decode_hello(in.bytes(kMaxHello))));
  if (!in.ok()) return malformed("neighbours");
  return neighbours;
}

Bytes encode(const LinkHello& link) {
  Writer out;
  out.u32(kMagic);
  out.u32(static_cast<uint32_t>(link.from));
  out.u32(static_cast<uint32_t>(link.to));
  out.u64(link.job);
  out.bytes(link.token);
  return out.take();
}

Result<LinkHello> decode_link(ByteView bytes) {
  Reader in(bytes);
  LinkHello link;
  bool known = in.u32() == kMagic;
  link.from = static_cast<int32_t>(in.u32());
  link.to = static_cast<int32_t>(in.u32());
  link.job = in.u64();
  in.into(link.token);
  if (!known || !in.ok() || !in.empty()) return malformed("link");
  return link;
}

Bytes encode(const Notice& notice) {
  Writer out;
  out.u32(static_cast<uint32_t>(notice.rank));
  out.u8(static_cast<uint8_t>(notice.code));
  out.text(std::string_view(notice.text).substr(0, kMaxNoticeText));
  return out.take();
}

Result<Notice> decode_notice(ByteView bytes) {
  Reader in(bytes);
  Notice notice;
  notice.rank = static_cast<int32_t>(in.u32());
  uint8_t code = in.u8();
  notice.code = static_cast<Code>(code);
  notice.text = in.text();
  bool known = code != TUTTI_SUCCESS && code <= TUTTI_ABORTED && notice.text.size() <= kMaxNoticeText;
  if (!known || !in.ok() || !in.empty()) return malformed("notice");
  return notice;
}

Bytes encode(uint32_t sequence, int32_t origin, ByteView bytes) {
  Writer out;
  out.u32(sequence);
  out.u32(static_cast<uint32_t>(origin));
  out.bytes(bytes);
  return out.take();
}

Result<Block> decode_block(ByteView bytes) {
  Reader in(bytes);
  Block block;
  block.sequence = in.u32();
  block.origin = static_cast<int32_t>(in.u32());
  if (!in.ok()) return malformed("block");
  ByteView rest = in.rest();
  block.bytes.assign(rest.begin(), rest.end());
  return block;
}

Bytes encode(const Parcel& parcel) {
  Writer out;
  out.u32(static_cast<uint32_t>(parcel.from));
  out.u32(static_cast<uint32_t>(parcel.to));
  out.u32(parcel.type);
  out.u8(static_cast<uint8_t>(parcel.path.size()));
  for (int32_t rank : parcel.path) out.u32(static_cast<uint32_t>(rank));
  out.bytes(parcel.payload);
  return out.take();
}

Result<Parcel> decode_parcel(ByteView bytes) {
  Reader in(bytes);
  Parcel parcel;
  parcel.from = static_cast<int32_t>(in.u32());
  parcel.to = static_cast<int32_t>(in.u32());
  parcel.type = in.u32();
  uint8_t hops = in.u8();
  if (hops > Parcel::kMaxHops) return malformed("parcel");
  for (uint8_t i = 0; i < hops; ++i) parcel.path.push_back(static_cast<int32_t>(in.u32()));
  if (!in.ok()) return malformed("parcel");
  ByteView rest = in.rest();
  parcel.payload.assign(rest.begin(), rest.end());
  return parcel;
}

}  // namespace tutti::bootstrap
