// Closes the gaps that dead ranks leave in the overlay. A rank that lost its neighbours cannot hear of deaths beyond
// them: so it knocks at the next rank, and the next, until one answers. What does not answer is dead.
#pragma once

#include <map>
#include <memory>

#include "bootstrap/dialer.h"
#include "bootstrap/doorman.h"

namespace tutti::bootstrap {

class Mender {
 public:
  // `hellos` has every rank's, in rank order. `tls` is what `doorman` uses, and is taken over with it.
  Mender(int rank, std::vector<Hello> hellos, uint64_t job, const Secret& token, std::unique_ptr<TlsContext> tls,
         Doorman doorman, int64_t silence_ms);

  // Starts knocking at `rank`, once.
  void knock(int rank);
  void forget(int rank) { knocking_.erase(rank); }
  std::string who(int rank) const { return hellos_[static_cast<size_t>(rank)].who(); }

  struct News {
    std::map<int, NewLink> links;  // ranks that answered, or that knocked here
    std::map<int, Status> silent;  // ranks that are not there any more
  };
  // Goes on without blocking. `linked(rank)`: there is a link already.
  News advance(const std::function<bool(int rank)>& linked);
  void watch(std::vector<pollfd>& fds, Clock::time_point& next) const;

 private:
  struct Knock {
    Dialer dialer;
    Deadline deadline;
  };

  const int rank_;
  const std::vector<Hello> hellos_;
  const uint64_t job_;
  const Secret token_;
  const std::unique_ptr<TlsContext> tls_;
  const int64_t silence_ms_;
  Doorman doorman_;
  std::map<int, Knock> knocking_;
};

}  // namespace tutti::bootstrap
