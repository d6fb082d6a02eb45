#include "topology/digest.h"

namespace tutti {

uint64_t digest_of(std::string_view bytes) {
  uint64_t digest = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001b3;
  return digest;
}

}  // namespace tutti
