#include "core/store_meeting.h"

#include <array>
#include <charconv>
#include <cstring>
#include <thread>

#include "base/log.h"

namespace tutti {
namespace {

constexpr std::string_view kIsId = "id ", kIsSentence = "error ";  // how the value begins
constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr int64_t kNewerWaitMs = 3'000;

std::optional<tutti_unique_id_t> parse_id(std::string_view digits) {
  tutti_unique_id_t id{};
  if (digits.size() != 2 * sizeof id.bytes) return std::nullopt;
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    const char* first = digits.data() + 2 * i;
    auto [end, problem] = std::from_chars(first, first + 2, id.bytes[i], 16);
    if (problem != std::errc() || end != first + 2) return std::nullopt;
  }
  return id;
}

}  // namespace

Status StoreMeeting::tell(const Result<tutti_unique_id_t>& id) {
  std::string value = id.ok() ? fmt::format("{}{:02x}", kIsId, fmt::join(id->bytes, ""))
                              : fmt::format("{}{}", kIsSentence, id.status().message());
  value.resize(std::min<size_t>(value.size(), TUTTI_STORE_VALUE_SIZE - 1));
  if (store_.set(store_.context, key_.c_str(), value.c_str()) == TUTTI_SUCCESS) return {};
  return error(Code::kSystem, "the program's store did not take \"{}\", by which the ranks meet: is it still there?",
               key_);
}

void StoreMeeting::take_away() {
  if (store_.remove == nullptr || store_.remove(store_.context, key_.c_str()) == TUTTI_SUCCESS) return;
  log_warn("the program's store did not remove \"{}\", by which the ranks have met", key_);
}

Result<std::string> StoreMeeting::get(int64_t timeout_ms) const {
  std::array<char, TUTTI_STORE_VALUE_SIZE> value{};
  tutti_status_t got = store_.get(store_.context, key_.c_str(), value.data(), value.size(), timeout_ms);
  if (got == TUTTI_SUCCESS) return std::string(value.data(), ::strnlen(value.data(), value.size() - 1));
  if (got == TUTTI_TIMEOUT) return error(Code::kTimeout, "nothing is there");
  return error(Code::kSystem, "the program's store gave \"{}\" for \"{}\", by which the ranks meet: is it still there?",
               tutti_status_text(got), key_);
}

Result<tutti_unique_id_t> StoreMeeting::learn(Deadline deadline) {
  auto value = get(deadline.left_ms());
  while (!value.ok() && value.status().code() == Code::kTimeout && !deadline.passed()) {
    std::this_thread::sleep_for(kPoll);
    value = get(deadline.left_ms());
  }
  if (!value.ok() && value.status().code() == Code::kTimeout) {
    return error(Code::kTimeout,
                 "rank 0 has not put its id into the program's store as \"{}\": is it running, with the same store and "
                 "key? TUTTI_BOOTSTRAP_TIMEOUT_MS says how long to wait",
                 key_);
  }
  if (!value.ok()) return std::move(value).status();
  seen_ = *value;
  std::string_view text = seen_;
  if (text.starts_with(kIsSentence)) {
    return error(Code::kRemote, "rank 0 could not make the communicator's id: {}", text.substr(kIsSentence.size()));
  }
  auto id = text.starts_with(kIsId) ? parse_id(text.substr(kIsId.size())) : std::nullopt;
  if (id) return *id;
  return error(Code::kInvalidUsage,
               "what the program's store holds as \"{}\" is no id of tutti: use a key that nothing else uses", key_);
}

bool StoreMeeting::has_newer(Deadline deadline) {
  Deadline end = Deadline::after_ms(std::min<int64_t>(deadline.left_ms(), kNewerWaitMs));
  do {
    auto value = get(0);
    if (value.ok() && *value != seen_) return true;
    if (!value.ok() && value.status().code() != Code::kTimeout) return false;
    std::this_thread::sleep_for(kPoll);
  } while (!end.passed());
  return false;
}

}  // namespace tutti
