#pragma once

// Where programs of one user meet that were told nothing else: a directory that
// belongs to this user alone, so that no other one can put anything into it.

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Writes the path of the directory, `PLACE/urnic-<effective uid>`, to `path`:
// the first of /run (root only), /tmp and /dev/shm where it belongs to this
// user, with no rights for others, or can be made. It is made (mode 0700) if
// `make` is set. The environment has no say: two programs of one user must
// arrive at the same place. 0, or -errno of the last place, which then stands
// in `path`. Any thread.
int urnic_owner_dir(char* path, size_t size, int make);

#ifdef __cplusplus
}
#endif
