/* What GCC's C++ library and expat, as newer systems have them, ask glibc for, and glibc 2.28 lacks. It is linked into
   whatever asks for it, and seen by nobody else. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* While this is true, GCC's library counts references without atomics. It need not ever be. */
char __libc_single_threaded = 0;

/* As glibc's own it gives random bytes or ends the program. */
void arc4random_buf(void* bytes, size_t size) {
  enum { kMost = 256 }; /* of getentropy() */
  for (char* at = bytes; size > 0;) {
    size_t part = size < kMost ? size : kMost;
    if (getentropy(at, part) != 0) abort();
    at += part;
    size -= part;
  }
}

uint32_t arc4random(void) {
  uint32_t number;
  arc4random_buf(&number, sizeof number);
  return number;
}
