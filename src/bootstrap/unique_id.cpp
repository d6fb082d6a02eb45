#include "bootstrap/unique_id.h"

#include <unistd.h>

#include <algorithm>

namespace tutti::bootstrap {
namespace {

// Layout, little-endian: magic u32, version u8, kind u8, address count u8, zero u8, job u64, host u64, secret 32 bytes,
// port u16, addresses (family u8, then 4 or 16 bytes each), zeros, checksum u32 over all before it.
constexpr uint32_t kMagic = 0x64497454;  // "TtId"
constexpr uint8_t kVersion = 1;
constexpr size_t kSize = sizeof(tutti_unique_id_t);
constexpr size_t kChecksumAt = kSize - 4;

size_t address_bytes(Endpoint::Family family) { return family == Endpoint::Family::kIpv4 ? 4 : 16; }

uint32_t checksum(ByteView bytes) { return static_cast<uint32_t>(hash64(bytes)); }

}  // namespace

Endpoint UniqueId::unix_endpoint() const {
  return Endpoint::unix_socket(fmt::format("tutti-{}-{:016x}", geteuid(), job));
}

std::array<std::byte, 16> UniqueId::secret_check() const {
  Secret derived = derive(secret, "tutti hello");
  std::array<std::byte, 16> check;
  std::copy_n(derived.begin(), check.size(), check.begin());
  return check;
}

tutti_unique_id_t encode(const UniqueId& id) {
  Writer addresses;
  uint8_t count = 0;
  constexpr size_t kRoom = kChecksumAt - 8 - 8 - 8 - 32 - 2;
  for (const Endpoint& endpoint : id.addresses) {
    size_t length = address_bytes(endpoint.family);
    if (addresses.size() + 1 + length > kRoom) continue;
    addresses.u8(static_cast<uint8_t>(endpoint.family));
    addresses.bytes(ByteView(endpoint.address).first(length));
    ++count;
  }
  Writer out;
  out.u32(kMagic);
  out.u8(kVersion);
  out.u8(static_cast<uint8_t>(id.kind));
  out.u8(count);
  out.u8(0);
  out.u64(id.job);
  out.u64(id.host);
  out.bytes(id.secret);
  out.u16(id.addresses.empty() ? 0 : id.addresses.front().port);
  out.bytes(addresses.view());
  out.pad_to(kChecksumAt);
  out.u32(checksum(out.view()));
  tutti_unique_id_t bytes;
  std::memcpy(bytes.bytes, out.view().data(), kSize);
  return bytes;
}

Result<UniqueId> decode_unique_id(const tutti_unique_id_t& bytes) {
  ByteView all = std::as_bytes(std::span(bytes.bytes));
  Reader in(all.first(kChecksumAt));
  uint32_t magic = in.u32();
  uint8_t version = in.u8();
  bool intact = Reader(all.subspan(kChecksumAt)).u32() == checksum(all.first(kChecksumAt));
  if (magic != kMagic || !intact) {
    return error(Code::kInvalidArgument,
                 "the unique id is damaged or was not made by tutti: pass on all 128 bytes of "
                 "tutti_get_unique_id() unchanged");
  }
  if (version != kVersion) {
    return error(Code::kInvalidArgument,
                 "the unique id has version {}, this library knows {}: use one version of tutti on all ranks", version,
                 kVersion);
  }
  UniqueId id;
  uint8_t kind = in.u8();
  uint8_t count = in.u8();
  in.u8();
  id.kind = static_cast<UniqueId::Kind>(kind);
  id.job = in.u64();
  id.host = in.u64();
  in.into(id.secret);
  uint16_t port = in.u16();
  bool sound = kind >= 1 && kind <= 3;
  for (uint8_t i = 0; i < count && sound; ++i) {
    Endpoint endpoint;
    endpoint.port = port;
    endpoint.family = static_cast<Endpoint::Family>(in.u8());
    sound = endpoint.family == Endpoint::Family::kIpv4 || endpoint.family == Endpoint::Family::kIpv6;
    if (!sound) break;
    ByteView address = in.bytes(address_bytes(endpoint.family));
    std::copy(address.begin(), address.end(), endpoint.address.begin());
    id.addresses.push_back(endpoint);
  }
  if (!sound || !in.ok()) return error(Code::kInvalidArgument, "the unique id is damaged: its addresses do not parse");
  return id;
}

}  // namespace tutti::bootstrap
