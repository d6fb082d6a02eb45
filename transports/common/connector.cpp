#include "transports/common/connector.h"

namespace tutti {

Result<Progress> Connector::advance() {
  Progress progress = Progress::kBlocked;
  if (accepts()) {
    progress = TUTTI_TRY(acceptor_.advance());
    connection_ = acceptor_.take(peer_);
  } else {
    progress = TUTTI_TRY(dialer_->advance());
    if (progress == Progress::kDone) connection_ = dialer_->take();
  }
  return connection_ ? Progress::kDone : progress;
}

void Connector::watch(WaitSet& waits) const {
  if (accepts()) {
    acceptor_.watch(waits);
  } else {
    dialer_->watch(waits);
  }
}

}  // namespace tutti
