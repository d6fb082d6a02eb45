#include "base/local_tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string_view>

namespace tutti {

void disregard_congestion(int socket) noexcept {
  constexpr std::string_view kEveryKernelHas = "reno";  // and it slows down for nothing but losses
  (void)::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kEveryKernelHas.data(), kEveryKernelHas.size());
}

}  // namespace tutti
