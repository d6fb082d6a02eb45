// Errors as values. Status says what went wrong and where; Result<T> is a T or a Status. Nothing in tutti throws across
// a boundary of its own: a failing function returns one of these, and TUTTI_TRY passes it on.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "tutti/tutti.h"

namespace tutti {

enum class [[nodiscard]] Code : uint8_t {
  kOk = TUTTI_SUCCESS,
  kCuda = TUTTI_CUDA_ERROR,
  kSystem = TUTTI_SYSTEM_ERROR,
  kInternal = TUTTI_INTERNAL_ERROR,
  kInvalidArgument = TUTTI_INVALID_ARGUMENT,
  kInvalidUsage = TUTTI_INVALID_USAGE,
  kRemote = TUTTI_REMOTE_ERROR,
  kInProgress = TUTTI_IN_PROGRESS,
  kTimeout = TUTTI_TIMEOUT,
  kAborted = TUTTI_ABORTED,
};

// Where an error happened, as far as it is known; -1 means unknown.
struct ErrorPlace {
  int rank = -1;
  int peer = -1;
  std::string link;  // the transport's name, "" if none

  friend bool operator==(const ErrorPlace&, const ErrorPlace&) = default;
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message)
      : detail_(std::make_unique<Detail>(Detail{code, std::move(message), ErrorPlace{}})) {
    TUTTI_CHECK(code != Code::kOk);
  }
  Status(const Status& other) : detail_(other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr) {}
  Status& operator=(const Status& other) {
    detail_ = other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return detail_ == nullptr; }
  Code code() const { return detail_ ? detail_->code : Code::kOk; }
  // The whole sentence; "" when ok.
  std::string_view message() const { return detail_ ? std::string_view(detail_->message) : std::string_view(); }
  ErrorPlace place() const { return detail_ ? detail_->place : ErrorPlace{}; }

  Status at(ErrorPlace place) && {
    if (detail_) detail_->place = std::move(place);
    return std::move(*this);
  }
  // "context: message", for a caller that knows what was being attempted.
  Status within(std::string_view context) && {
    if (detail_) detail_->message = fmt::format("{}: {}", context, detail_->message);
    return std::move(*this);
  }

 private:
  struct Detail {
    Code code;
    std::string message;
    ErrorPlace place;
  };
  std::unique_ptr<Detail> detail_;
};

template <typename... Args>
Status error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return Status(code, fmt::format(text, std::forward<Args>(args)...));
}

// A system call failed: appends errno's text, "cannot open x: No such file or directory".
Status system_error(int errno_value, std::string_view what);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) { TUTTI_CHECK(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  T& value() & { TUTTI_CHECK(ok()); return *value_; }
  const T& value() const& { TUTTI_CHECK(ok()); return *value_; }
  // By value, so that `for (... : f().value())` keeps what it walks alive.
  T value() && { TUTTI_CHECK(ok()); return std::move(*value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

namespace detail {
inline Status take_status(Status&& status) { return std::move(status); }
template <typename T>
Status take_status(Result<T>&& result) { return std::move(result).status(); }
inline void take_value(Status&&) {}
template <typename T>
T take_value(Result<T>&& result) { return std::move(result).value(); }
}  // namespace detail

}  // namespace tutti

// Evaluates to the value of a Result (or to nothing for a Status); on failure returns the Status from this function.
#define TUTTI_TRY(...)                                                             \
  ({                                                                               \
    auto&& tutti_tried = (__VA_ARGS__);                                            \
    if (!tutti_tried.ok()) return ::tutti::detail::take_status(std::move(tutti_tried)); \
    ::tutti::detail::take_value(std::move(tutti_tried));                           \
  })
