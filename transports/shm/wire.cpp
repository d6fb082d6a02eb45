#include "transports/shm/wire.h"

#include "transports/common/bytes.h"

namespace tutti {
namespace {

constexpr uint32_t kAddressMagic = 0x6d687374;  // "tshm"
constexpr uint16_t kAddressVersion = 1;
constexpr size_t kAddressHeadBytes = 8;

}  // namespace

Blob encode_shm_address(std::string_view name) {
  TUTTI_CHECK(!name.empty() && name.size() <= kMostShmNameBytes);
  Blob blob(kAddressHeadBytes + name.size());
  FixedWriter(blob)
      .put(kAddressMagic)
      .put(kAddressVersion)
      .put(static_cast<uint16_t>(name.size()))
      .put(std::as_bytes(std::span(name)));
  return blob;
}

Result<std::string> parse_shm_address(std::span<const std::byte> bytes) {
  auto bad = [] { return error(Code::kRemote, "the peer's address is not one of the shm transport"); };
  if (bytes.size() < kAddressHeadBytes) return bad();
  FixedReader reader(bytes);
  if (reader.get<uint32_t>() != kAddressMagic) return bad();
  if (reader.get<uint16_t>() != kAddressVersion) {
    return error(Code::kRemote, "the peer's shm address has another version");
  }
  size_t size = reader.get<uint16_t>();
  if (size == 0 || size > kMostShmNameBytes || size != reader.left()) return bad();
  return std::string(reinterpret_cast<const char*>(bytes.data()) + kAddressHeadBytes, size);
}

std::array<std::byte, kShmEndBytes> encode(const ShmEnd& end) {
  std::array<std::byte, kShmEndBytes> bytes{};
  FixedWriter(bytes).put(end.pattern_at).put(std::span<const std::byte>(end.pattern));
  return bytes;
}

Result<ShmEnd> parse_shm_end(std::span<const std::byte> bytes) {
  if (bytes.size() != kShmEndBytes) return error(Code::kRemote, "the peer's description of its end has a wrong size");
  FixedReader reader(bytes);
  ShmEnd end;
  end.pattern_at = reader.get<uint64_t>();
  reader.get(end.pattern);
  return end;
}

std::array<std::byte, kShmNoteBytes> encode(const ShmNote& note) {
  std::array<std::byte, kShmNoteBytes> bytes{};
  FixedWriter(bytes).put(static_cast<uint32_t>(note.kind)).put(note.id).put(note.size_bytes).put(uint64_t{0});
  return bytes;
}

Result<ShmNote> parse_shm_note(std::span<const std::byte> bytes) {
  if (bytes.size() != kShmNoteBytes) return error(Code::kRemote, "the peer sent a message of wrong size");
  FixedReader reader(bytes);
  uint32_t kind = reader.get<uint32_t>();
  if (kind < static_cast<uint32_t>(ShmNote::Kind::kMet) || kind > static_cast<uint32_t>(ShmNote::Kind::kAbort)) {
    return error(Code::kRemote, "the peer sent a message of unknown kind {}", kind);
  }
  ShmNote note{.kind = static_cast<ShmNote::Kind>(kind), .id = 0, .size_bytes = 0};
  note.id = reader.get<uint32_t>();
  note.size_bytes = reader.get<uint64_t>();
  if (reader.get<uint64_t>() != 0) return error(Code::kRemote, "the peer sent a message with bits that must be zero");
  return note;
}

}  // namespace tutti
