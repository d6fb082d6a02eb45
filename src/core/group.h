// Group: the calls that a thread makes between tutti_group_begin() and tutti_group_end(). They start together at the
// end; small ones of one kind become one call.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/handles.h"

namespace tutti {

class Group {
 public:
  // The calling thread's.
  static Group& of_thread();

  bool is_open() const { return depth_ > 0; }
  void begin() { ++depth_; }
  // Whether it has calls of `comm`.
  bool holds(const tutti_comm& comm) const;
  // Keeps a call for the end; `on_stream`: for a stream, which may be the default one, null. Errors: its arguments are
  // wrong; its communicator has failed.
  Status add(tutti_comm& comm, const CallArguments& arguments, std::optional<tutti_stream_t> on_stream = {});
  // Such an error of a call that was not even kept.
  void refuse(tutti_comm& comm, const Status& why);
  // Of the outermost group: puts its calls for streams there, as one batch, runs all others, and blocks until those
  // are complete. Errors: there is no group; the first one of add() for a wrong argument, and then nothing was started;
  // else the first one of a communicator that had failed, or of a call.
  Status end();

 private:
  struct Member {
    tutti_comm* comm;
    std::unique_ptr<tutti_request> request;
    std::optional<tutti_stream_t> on_stream;
  };
  std::vector<Member> members_;
  Status refused_;  // the first call whose arguments are wrong
  Status failed_;   // the first one of a communicator that has failed
  int depth_ = 0;
};

}  // namespace tutti
