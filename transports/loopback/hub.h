// How the two ends of a loopback link find each other.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "transports/common/doorbell.h"
#include "transports/common/hello.h"
#include "transports/common/mapped.h"

namespace tutti {

// One rank's end of one link. Shared by that rank's Link and the peer's, and for its doorbell by the rank's BellRow.
struct LoopbackEnd {
  struct Note {  // the peer shares memory, or with no bytes takes it back
    uint32_t id = 0;
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner = {};  // of the bytes, beside the peer
    bool released = false;
  };

  Token token{};
  std::unique_ptr<Doorbell> bell;
  std::atomic<bool> left{false};  // this rank has closed or aborted its end
  AccessWords access;

  std::mutex mutex;
  std::vector<Note> notes;        // from the peer, not read yet
  std::atomic<bool> has_notes{false};
};

class LoopbackHub {
 public:
  // Offers `mine` as rank's end of its link to `peer`, whose take() returns it.
  void offer(uint64_t job, int rank, int peer, std::shared_ptr<LoopbackEnd> mine);
  // The peer's end; nullptr while it has not offered one.
  std::shared_ptr<LoopbackEnd> take(uint64_t job, int rank, int peer);
  // Takes an offer back that nobody has taken.
  void withdraw(uint64_t job, int rank, int peer, const std::shared_ptr<LoopbackEnd>& mine);

 private:
  using Place = std::tuple<uint64_t, int, int>;  // job, whose end, to whom

  std::mutex mutex_;
  std::map<Place, std::shared_ptr<LoopbackEnd>> offers_;
};

}  // namespace tutti
