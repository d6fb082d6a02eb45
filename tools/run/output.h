// From the ranks' pipes to this process's standard output and error, in whole lines.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "fd.h"

namespace tutti::tool {

// Text on its way to one descriptor. Writing never blocks, though the descriptor may be blocking: its file is shared
// with other processes, so its flags are not ours to change.
class OutputQueue {
 public:
  explicit OutputQueue(int fd);

  void add(std::string_view text) { pending_.append(text); }
  int fd() const { return fd_; }
  bool empty() const { return sent_ == pending_.size(); }
  // Whether readers of the pipes should wait until some of this is written.
  bool full() const { return pending_.size() - sent_ >= kFullBytes; }
  // The reader is gone, or there is no room; everything added later is dropped.
  bool broken() const { return failure_ != 0; }
  // Why, as an errno.
  int failure() const { return failure_; }
  // Writes a piece. Only after poll() said that the descriptor is writable.
  void write_some();
  // Writes all, blocking.
  void write_all();

 private:
  static constexpr size_t kFullBytes = size_t{1} << 20;

  int fd_;
  size_t piece_bytes_;
  std::string pending_;
  size_t sent_ = 0;
  int failure_ = 0;
};

// Lines of all ranks, to tell which of them another rank has written before.
class SaidBefore {
 public:
  // Remembers who was the first to write `line`; returns whether that was another rank.
  bool by_another(int rank, std::string_view line);

 private:
  static constexpr size_t kMostLines = 1000;

  std::map<std::string, int, std::less<>> first_;
};

// One rank's standard output or error: the read end of its pipe, and the line that is not complete yet.
class RankStream {
 public:
  // `tag` begins every line. With `said` a line that another rank has written before is left out.
  RankStream(int rank, Fd pipe, std::string tag, OutputQueue& to, SaidBefore* said)
      : rank_(rank), pipe_(std::move(pipe)), tag_(std::move(tag)), to_(&to), said_(said) {}

  int fd() const { return pipe_.get(); }
  bool open() const { return bool(pipe_); }
  // Whether anything has come.
  bool spoke() const { return spoke_; }
  OutputQueue& to() const { return *to_; }
  // Takes one piece from the pipe and passes its complete lines on. Returns false when there was nothing to take. At
  // the end of the stream closes it.
  bool read_some();
  // Takes what the pipe holds now, and little more if its writers go on.
  void drain();
  // Passes the incomplete last line on, completed, and closes the pipe.
  void close();

 private:
  // Reads that empty the largest pipe an ordinary user can have (1 MiB).
  static constexpr int kDrainReads = 20;
  // A line longer than this is cut into lines.
  static constexpr size_t kLongestLine = size_t{16} << 20;

  void pass_on(std::string_view text);

  int rank_;
  Fd pipe_;
  std::string tag_;
  OutputQueue* to_;
  SaidBefore* said_;
  std::string line_;
  bool spoke_ = false;
};

}  // namespace tutti::tool
