#include "bootstrap/pmi1.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::bootstrap {
namespace {

constexpr size_t kMaxLine = 8'192;
constexpr size_t kMaxFields = 64;

Status broken(std::string_view why) {
  return error(Code::kRemote, "the process manager at PMI_FD {}: check that this process was started by mpiexec itself",
               why);
}

}  // namespace

Result<PmiFields> parse_pmi(std::string_view line) {
  PmiFields fields;
  while (!line.empty()) {
    size_t space = line.find(' ');
    std::string_view word = line.substr(0, space);
    line = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    if (word.empty()) continue;
    size_t equals = word.find('=');
    // Free text, such as msg=key not found, runs over several words.
    if (equals == std::string_view::npos && !fields.empty()) continue;
    if (equals == std::string_view::npos || equals == 0 || fields.size() >= kMaxFields) {
      return error(Code::kRemote, "a line that is not PMI-1");
    }
    fields.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

Result<Pmi1> Pmi1::open(int fd, Deadline deadline) {
  Pmi1 pmi(fd);
  TUTTI_TRY(pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline));
  PmiFields answer = TUTTI_TRY(pmi.ask("cmd=get_my_kvsname", "my_kvsname", deadline));
  pmi.space_ = answer["kvsname"];
  if (pmi.space_.empty()) return broken("did not name a key space");
  return pmi;
}

Status Pmi1::put(std::string_view key, std::string_view value, Deadline deadline) {
  TUTTI_TRY(ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result", deadline));
  return {};
}

Status Pmi1::barrier(Deadline deadline) {
  TUTTI_TRY(ask("cmd=barrier_in", "barrier_out", deadline));
  return {};
}

Result<std::string> Pmi1::get(std::string_view key, Deadline deadline) {
  PmiFields answer = TUTTI_TRY(ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result", deadline));
  return answer["value"];
}

Status Pmi1::finalize(Deadline deadline) {
  TUTTI_TRY(ask("cmd=finalize", "finalize_ack", deadline));
  return {};
}

Result<PmiFields> Pmi1::ask(std::string_view line, std::string_view expected, Deadline deadline) {
  std::string out = fmt::format("{}\n", line);
  for (std::string_view rest = out; !rest.empty();) {
    ssize_t sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return system_error(errno, "cannot write to the process manager at PMI_FD");
    TUTTI_TRY(await(POLLOUT, line, deadline));
  }
  for (;;) {
    if (size_t end = unread_.find('\n'); end != std::string::npos) {
      Result<PmiFields> fields = parse_pmi(std::string_view(unread_).substr(0, end));
      unread_.erase(0, end + 1);
      if (!fields.ok()) return broken("sent a line that is not PMI-1");
      if ((*fields)["cmd"] != expected)
        return broken(fmt::format("answered \"{}\" where \"{}\" was due", (*fields)["cmd"], expected));
      auto rc = fields->find("rc");
      if (rc != fields->end() && rc->second != "0")
        return broken(fmt::format("refused \"{}\" (rc={})", line, rc->second));
      return fields;
    }
    if (unread_.size() > kMaxLine) return broken("sent a line without end");
    char bytes[1024];
    ssize_t got = ::recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0) return broken("closed the connection");
    if (got > 0) {
      unread_.append(bytes, static_cast<size_t>(got));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return system_error(errno, "cannot read from the process manager at PMI_FD");
    TUTTI_TRY(await(POLLIN, line, deadline));
  }
}

Status Pmi1::await(short events, std::string_view line, Deadline deadline) const {
  if (deadline.passed()) {
    return error(Code::kTimeout,
                 "the process manager at PMI_FD did not answer \"{}\" in time: have all ranks been started?", line);
  }
  pollfd wait{fd_, events, 0};
  if (::poll(&wait, 1, deadline.left_ms()) >= 0 || errno == EINTR) return {};
  return system_error(errno, "cannot wait for the process manager at PMI_FD");
}

}  // namespace tutti::bootstrap
