// CallRecord: which call a rank is in. Its signature travels in every message; the record itself
// is told to ranks that ask.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/types.h"

namespace tutti {

struct CallRecord {
  uint64_t number = 0;   // from 1; 0: no collective yet
  Collective collective = TUTTI_ALL_REDUCE;
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  int32_t root = -1;
  uint64_t count = 0;
  uint64_t plan_digest = 0;  // 0: unknown, as the rank's GPU is to do the call
  uint64_t counts_digest = 0;  // of the calls that this one stands for; 0: it is one
  uint32_t members = 0;        // how many they are
  int32_t tag = 0;         // of a send or a receive, whose other rank is the root and whose number is 0
  int32_t waits_for = -1;  // the rank that this one has been waiting for, if it is slow; no part of the signature

  // Never 0.
  uint64_t signature() const;
  // "all_reduce #12 of 1024 float32 (sum)"
  std::string text() const;
  // Whether the two are different calls in the same place of the order.
  bool contradicts(const CallRecord& other) const {
    if (number == 0 || number != other.number) return false;
    bool are_planned = plan_digest != 0 && other.plan_digest != 0;
    return are_planned ? signature() != other.signature() : !same_call(other);
  }

  // Whether only the plans differ: the callers did the same, and their libraries chose differently.
  bool same_call(const CallRecord& other) const;

  static constexpr size_t kBytes = 48;
  std::array<std::byte, kBytes> encode() const;
  static std::optional<CallRecord> decode(std::span<const std::byte> bytes);

 private:
  friend class PublishedRecord;
  friend class NumberedRecord;
  static constexpr size_t kWords = kBytes / sizeof(uint64_t);
  using Words = std::array<uint64_t, kWords>;
  Words words() const;
  static CallRecord of(const Words& words);
  std::string direct_text() const;
  uint64_t sum_without_number() const;
};

// A record of which nothing but the number changes from call to call.
class NumberedRecord {
 public:
  NumberedRecord() = default;
  explicit NumberedRecord(const CallRecord& record) : words_(record.words()), sum_(record.sum_without_number()) {}

  void set_number(uint64_t number) { words_[0] = number; }
  uint64_t number() const { return words_[0]; }
  uint64_t signature() const;

 private:
  friend class PublishedRecord;
  CallRecord::Words words_{};
  uint64_t sum_ = 0;
};

// A record that one thread writes and any thread reads without making that one wait.
class PublishedRecord {
 public:
  void publish(const CallRecord& record) { publish(record.words()); }
  void publish(const NumberedRecord& record) { publish(record.words_); }
  CallRecord read() const;

 private:
  void publish(const CallRecord::Words& words);
  std::atomic<uint64_t> version_{0};  // odd while publish() writes
  std::array<std::atomic<uint64_t>, CallRecord::kWords> words_{};
};

// The records of a rank's last calls, the current one among them. Messages name a call by its signature only, and may
// be read when their sender has long gone on.
class PublishedRecords {
 public:
  void publish(const CallRecord& record) { publish(NumberedRecord(record)); }
  void publish(const NumberedRecord& record);
  // The last of them.
  CallRecord read() const { return records_[published_.load(std::memory_order_acquire) % kKept].read(); }
  // Empty when it is no longer, or not yet, there.
  std::optional<CallRecord> of_number(uint64_t number) const;
  std::optional<CallRecord> of_signature(uint64_t signature) const;

 private:
  static constexpr size_t kKept = 64;
  std::atomic<uint64_t> published_{0};  // so many were; numbers may have gaps
  std::array<PublishedRecord, kKept> records_;
};

}  // namespace tutti
