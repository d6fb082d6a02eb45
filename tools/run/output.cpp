#include "output.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tutti::tool {

OutputQueue::OutputQueue(int fd) : fd_(fd) {
  // A pipe or terminal that is writable takes PIPE_BUF bytes at once; a file takes any number.
  struct stat about;
  bool file = ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  piece_bytes_ = file ? size_t{256} << 10 : size_t{PIPE_BUF};
}

void OutputQueue::write_some() {
  size_t size = std::min(piece_bytes_, pending_.size() - sent_);
  ssize_t written = ::write(fd_, pending_.data() + sent_, size);
  if (written < 0) {
    if (errno == EINTR || errno == EAGAIN) return;
    failure_ = errno;
    written = static_cast<ssize_t>(pending_.size() - sent_);
  }
  sent_ += static_cast<size_t>(written);
  if (empty() || sent_ >= kFullBytes) {
    pending_.erase(0, sent_);
    sent_ = 0;
  }
}

void OutputQueue::write_all() {
  while (!empty()) {
    pollfd writable{fd_, POLLOUT, 0};
    ::poll(&writable, 1, -1);
    write_some();
  }
}

bool SaidBefore::by_another(int rank, std::string_view line) {
  auto found = first_.find(line);
  if (found != first_.end()) return found->second != rank;
  if (first_.size() < kMostLines) first_.emplace(line, rank);
  return false;
}

bool RankStream::read_some() {
  std::array<char, 64 * 1024> piece;
  ssize_t size = ::read(pipe_.get(), piece.data(), piece.size());
  if (size < 0) return false;
  if (size == 0) {
    close();
    return false;
  }
  pass_on({piece.data(), static_cast<size_t>(size)});
  return true;
}

void RankStream::drain() {
  for (int reads = 0; reads < kDrainReads && open() && read_some(); ++reads) continue;
}

void RankStream::close() {
  if (!line_.empty()) pass_on("\n");
  pipe_.reset();
}

void RankStream::pass_on(std::string_view text) {
  spoke_ = spoke_ || !text.empty();
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    line_.append(text.substr(0, end + 1));
    if (said_ == nullptr || !said_->by_another(rank_, line_)) {
      to_->add(tag_);
      to_->add(line_);
    }
    line_.clear();
  }
  line_.append(text);
  if (line_.size() >= kLongestLine) pass_on("\n");
}

}  // namespace tutti::tool
