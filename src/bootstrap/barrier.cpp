#include "bootstrap/overlay.h"

namespace tutti::bootstrap {

Barrier::Barrier(Overlay& overlay) : overlay_(overlay) {
  overlay.begin_gather();
  tell();
}

void Barrier::tell() {
  int to = (overlay_.rank() + distance_) % overlay_.nranks();
  if (distance_ < overlay_.nranks()) overlay_.send_block(to, overlay_.rank(), {});
}

int Barrier::awaited() const {
  int nranks = overlay_.nranks();
  return (overlay_.rank() - distance_ % nranks + nranks) % nranks;
}

// In each step another rank is heard, so a block needs no number of its step.
bool Barrier::advance() {
  while (distance_ < overlay_.nranks()) {
    if (!overlay_.blocks().contains(awaited())) return false;
    distance_ *= 2;
    tell();
  }
  return true;
}

}  // namespace tutti::bootstrap
