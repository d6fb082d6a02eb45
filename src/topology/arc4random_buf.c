/* For an expat inside of libtutti.so: that of a system with glibc 2.36 asks glibc for this, which would keep the
   library from systems that are older. */
#include <stdlib.h>
#include <unistd.h>

/* Fills `bytes`, at most 256 (expat asks for 8). As glibc's own it gives random bytes or ends the program. */
void arc4random_buf(void* bytes, size_t size) {
  if (getentropy(bytes, size) != 0) abort();
}
