/* The public headers are C11, and a C program links with the library. */
#include <stdio.h>
#include <tutti/tutti.h>
#include <tutti/tutti_topology.h>

int main(void) {
  if (tutti_version() != TUTTI_VERSION) {
    fprintf(stderr, "the library is version %d, the header %d\n", tutti_version(), TUTTI_VERSION);
    return 1;
  }
  if (tutti_datatype_size(TUTTI_BFLOAT16) != 2) return 1;
  puts(tutti_status_text(TUTTI_SUCCESS));
  return 0;
}
