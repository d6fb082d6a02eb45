#include "core/call_record.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tutti {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint64_t kinds_of(const CallRecord& record) {
  return static_cast<uint64_t>(record.collective) | static_cast<uint64_t>(record.datatype) << 8 |
         static_cast<uint64_t>(record.op) << 16 | static_cast<uint64_t>(static_cast<uint32_t>(record.root)) << 32;
}

uint64_t signature_of(uint64_t number, uint64_t sum_without_number) {
  uint64_t digest = mix(number * 0x9e3779b97f4a7c15 + sum_without_number);
  return digest == 0 ? 1 : digest;
}

}  // namespace

// Products with odd constants, which do not wait for each other, and the finalizer.
uint64_t CallRecord::sum_without_number() const {
  return kinds_of(*this) * 0xd1342543de82ef95 + count * 0xaf251af3b0f025b5 + plan_digest * 0xda942042e4dd58b5 +
         counts_digest * 0xb564ef22ec7aece5;
}

uint64_t CallRecord::signature() const { return signature_of(number, sum_without_number()); }

uint64_t NumberedRecord::signature() const { return signature_of(words_[0], sum_); }

std::string CallRecord::direct_text() const {
  bool is_send = collective == TUTTI_SEND;
  std::string whom = root == TUTTI_ANY_SOURCE ? "any rank" : fmt::format("rank {}", root);
  std::string which = tag == TUTTI_ANY_TAG ? "any tag" : fmt::format("tag {}", tag);
  return fmt::format("{} of {}{} {} {} {} with {}", name_of(collective), is_send ? "" : "up to ", count,
                     name_of(datatype), is_send ? "to" : "from", whom, which);
}

std::string CallRecord::text() const {
  if (is_point_to_point(collective)) return direct_text();
  if (number == 0) return "no collective yet";
  std::string text = fmt::format("{} #{}", name_of(collective), number);
  if (collective == TUTTI_BARRIER) return text;
  text += has_private_counts(collective) ? fmt::format(" of {}", name_of(datatype))
                                         : fmt::format(" of {} {}", count, name_of(datatype));
  if (members > 0) text += fmt::format(" in a group of {}", members);
  if (reduces(collective) && is_valid(op)) text += fmt::format(" ({})", name_of(op));
  if (reduces(collective) && !is_valid(op)) text += fmt::format(" (operation {})", static_cast<int>(op));
  bool from_root = without_counts(collective) == TUTTI_BROADCAST || without_counts(collective) == TUTTI_SCATTER;
  if (has_root(collective)) text += fmt::format(" {} rank {}", from_root ? "from" : "to", root);
  return text;
}

bool CallRecord::same_call(const CallRecord& other) const {
  return number == other.number && kinds_of(*this) == kinds_of(other) && count == other.count &&
         counts_digest == other.counts_digest;
}

CallRecord::Words CallRecord::words() const {
  uint64_t waits_and_members = static_cast<uint32_t>(waits_for) | static_cast<uint64_t>(members) << 32;
  uint64_t last = is_point_to_point(collective) ? static_cast<uint32_t>(tag) : counts_digest;
  return {number, kinds_of(*this), count, plan_digest, waits_and_members, last};
}

CallRecord CallRecord::of(const Words& words) {
  auto collective = static_cast<Collective>(words[1] & 0xff);
  bool is_direct = is_point_to_point(collective);
  return {.number = words[0],
          .collective = collective,
          .datatype = static_cast<Datatype>(words[1] >> 8 & 0xff),
          .op = static_cast<ReduceOp>(words[1] >> 16 & 0xff),
          .root = static_cast<int32_t>(words[1] >> 32),
          .count = words[2],
          .plan_digest = words[3],
          .counts_digest = is_direct ? 0 : words[5],
          .members = static_cast<uint32_t>(words[4] >> 32),
          .tag = is_direct ? static_cast<int32_t>(words[5]) : 0,
          .waits_for = static_cast<int32_t>(words[4] & UINT32_MAX)};
}

std::array<std::byte, CallRecord::kBytes> CallRecord::encode() const {
  return std::bit_cast<std::array<std::byte, kBytes>>(words());
}

std::optional<CallRecord> CallRecord::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kBytes) return std::nullopt;
  Words words;
  std::memcpy(words.data(), bytes.data(), kBytes);
  return of(words);
}

void PublishedRecord::publish(const CallRecord::Words& words) {
  uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  // Not before version_ is odd.
  for (size_t i = 0; i < words.size(); ++i) words_[i].store(words[i], std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

CallRecord PublishedRecord::read() const {
  for (;;) {
    uint64_t before = version_.load(std::memory_order_acquire);
    CallRecord::Words words;
    // Not after the second look at version_.
    for (size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) return CallRecord::of(words);
  }
}

void PublishedRecords::publish(const NumberedRecord& record) {
  uint64_t published = published_.load(std::memory_order_relaxed) + 1;
  records_[published % kKept].publish(record);
  published_.store(published, std::memory_order_release);
}

std::optional<CallRecord> PublishedRecords::of_number(uint64_t number) const {
  for (const PublishedRecord& each : records_) {
    CallRecord record = each.read();
    if (record.number != 0 && record.number == number) return record;
  }
  return std::nullopt;
}

std::optional<CallRecord> PublishedRecords::of_signature(uint64_t signature) const {
  for (const PublishedRecord& each : records_) {
    CallRecord record = each.read();
    if (record.number != 0 && record.signature() == signature) return record;
  }
  return std::nullopt;
}

}  // namespace tutti
