#pragma once

// The default directory in which programs of one user find each other. It
// belongs to this user alone, so that no other user can put anything into it.

#include <stddef.h>

// The socket in that directory of memif ports for which no other is chosen.
#define URNIC_OWNER_MEMIF_SOCKET "memif.sock"

#ifdef __cplusplus
extern "C" {
#endif

// Writes the path of the directory, `PLACE/urnic-<effective uid>`, to `path`:
// the first of /run (root only), /tmp and /dev/shm where it belongs to this
// user, with no rights for others, or can be created. It is created (mode 0700)
// if `make` is set. The environment has no influence: two programs of one user
// must find the same directory. Returns 0, or -errno for the last place, whose
// path is then in `path`. Any thread.
int urnic_owner_dir(char* path, size_t size, int make);

#ifdef __cplusplus
}
#endif
