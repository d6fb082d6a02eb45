// TCP connections whose two ends are on one host.
#pragma once

namespace tutti {

// Takes the host's congestion control away from a connection, whose guard of networks costs much where there is none:
// BBR takes the time that a process needs for copies of its own for the network's, and both directions at once take
// twice as long. An improvement, no more: where the kernel refuses, all stays as it was.
void disregard_congestion(int socket) noexcept;

}  // namespace tutti
