#define _GNU_SOURCE
#include "verbs/libc/owner_dir.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// In /tmp, another user may have created it first.
static int is_ours_alone(const char* path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
         st.st_uid == geteuid() && (st.st_mode & 077) == 0 &&
         access(path, R_OK | W_OK | X_OK) == 0;
}

static int can_be_made(const char* place, const char* path) {
  struct stat st;
  return lstat(path, &st) != 0 && errno == ENOENT &&
         access(place, W_OK | X_OK) == 0;
}

int urnic_owner_dir(char* path, size_t size, int make) {
  static const char* const places[] = {"/run", "/tmp", "/dev/shm"};
  const uid_t uid = geteuid();
  int err = ENOENT;
  for (int i = uid == 0 ? 0 : 1; i < 3; ++i) {
    const int len = snprintf(path, size, "%s/urnic-%u", places[i], uid);
    if (len < 0 || (size_t)len >= size) return -ENAMETOOLONG;
    if (is_ours_alone(path)) return 0;
    if (!make && can_be_made(places[i], path)) return 0;
    if (make && mkdir(path, 0700) == 0) return 0;
    // Another program has created it meanwhile, perhaps another user's.
    err = make ? errno : EACCES;
    if (make && err == EEXIST && is_ours_alone(path)) return 0;
  }
  return -err;
}
