// What the thread of a meeting point does: takes guests in, lets them hear of each other, and sends them off.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <set>
#include <vector>

#include "base/fd.h"
#include "bootstrap/channel.h"
#include "bootstrap/meeting.h"
#include "bootstrap/sockets.h"
#include "bootstrap/tls.h"
#include "bootstrap/unique_id.h"

namespace tutti::bootstrap {

class MeetingServer {
 public:
  static Result<std::unique_ptr<MeetingServer>> create(const UniqueId& id, std::vector<Listener> listeners);

  // Serves one meeting after another until stop(), and then delivers the last answers, for one second at most.
  void run();
  // Any thread.
  void stop();

 private:
  // One connection.
  struct Guest {
    Channel channel;
    Deadline deadline;  // for the hello, later for the last answer
    int rank = -1;      // -1: a stranger
    bool ready = false;
    bool leaving = false;

    void queue(MessageType type, ByteView payload) { channel.queue(static_cast<uint32_t>(type), payload); }
    void dismiss();
  };

  void wait();
  void begin_to_stop();
  void accept_guests();
  void bound_strangers();
  void serve(Guest& guest);
  void handle(Guest& guest, const Frame& frame);
  void welcome(Guest& guest, const Hello& hello);
  void refuse(Guest& guest, const Status& why);
  void drop(Guest& guest, const Status& why);
  void check_deadlines();
  void begin_overlay();
  void go_if_ready();
  void fail(const Status& why);
  void begin_anew();

  std::vector<Listener> listeners_;
  Fd wake_;
  std::unique_ptr<TlsContext> tls_;
  std::array<std::byte, 16> secret_check_{};
  bool serves_once_ = false;

  std::list<Guest> guests_;
  Meeting meeting_;
  Deadline overlay_deadline_ = Deadline::never();
  int wrong_secrets_ = 0;
  Status failure_;      // of the last meeting
  std::set<int> told_;  // the ranks that know it
  std::atomic<bool> stop_requested_{false};
  bool stopping_ = false;
};

}  // namespace tutti::bootstrap
