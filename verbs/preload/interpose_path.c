#define _GNU_SOURCE
// The libc functions that take a path. Each passes through unless the path may
// be RDMA. Then the path is resolved, and the answer is that of the rendered
// tree or of a device node. The 64 and __xstat variants exist because programs
// built against older or large-file headers call them.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "verbs/preload/counter_file.h"
#include "verbs/preload/device_node.h"
#include "verbs/preload/export.h"
#include "verbs/preload/fd_table.h"
#include "verbs/preload/libc_call.h"
#include "verbs/preload/next_call.h"
#include "verbs/preload/rdma_path.h"
#include "verbs/preload/sysfs_tree.h"

// Where to send a call that treats nodes like any file. NULL: errno is set.
static const char* redirect(int* dirfd, const char* path,
                            struct urnic_rdma_path* where) {
  switch (urnic_rdma_resolve(*dirfd, path, where)) {
    case URNIC_PATH_OTHER:
      return path;
    case URNIC_PATH_TREE:
    case URNIC_PATH_NODE:
      *dirfd = AT_FDCWD;
      return where->path;
    case URNIC_PATH_ABSENT:
      break;
  }
  errno = ENOENT;
  return NULL;
}

// ------------------------------------------------------------------- open

// In Linux the attributes of an empty GID index can be opened, and reading them
// fails with EINVAL; libibverbs takes no other errno for "empty". Reading an
// epoll descriptor does the same.
static int open_tree(const char* path, int flags, mode_t mode) {
  if ((flags & (O_PATH | O_DIRECTORY)) == 0 && urnic_counter_is(path))
    return urnic_counter_open(path, flags);
  int fd = urnic_next()->openat(AT_FDCWD, path, flags, mode);
  struct stat st;
  if (fd < 0 || strstr(path, "/gid_attrs/") == NULL ||
      urnic_libc_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != 0)
    return fd;
  close(fd);
  return epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
}

static int open_rdma(int dirfd, const char* path, int flags, mode_t mode) {
  struct urnic_rdma_path where;
  switch (urnic_rdma_resolve(dirfd, path, &where)) {
    case URNIC_PATH_OTHER:
      return urnic_next()->openat(dirfd, path, flags, mode);
    case URNIC_PATH_TREE:
      return open_tree(where.path, flags, mode);
    case URNIC_PATH_NODE:
      return urnic_node_open(where.device, flags);
    case URNIC_PATH_ABSENT:
      break;
  }
  errno = ENOENT;
  return -1;
}

// The optional third argument of open.
#define TAKE_MODE(mode, flags)                                      \
  mode_t mode = 0;                                                  \
  if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
    va_list args;                                                   \
    va_start(args, flags);                                          \
    mode = va_arg(args, mode_t);                                    \
    va_end(args);                                                   \
  }

static int open_any(const char* path, int flags, mode_t mode) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->open(path, flags, mode);
  return open_rdma(AT_FDCWD, path, flags, mode);
}

static int open64_any(const char* path, int flags, mode_t mode) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->open64(path, flags, mode);
  return open_rdma(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

static int openat_any(int dirfd, const char* path, int flags, mode_t mode) {
  if (!urnic_may_be_rdma(path))
    return urnic_next()->openat(dirfd, path, flags, mode);
  return open_rdma(dirfd, path, flags, mode);
}

static int openat64_any(int dirfd, const char* path, int flags, mode_t mode) {
  if (!urnic_may_be_rdma(path))
    return urnic_next()->openat64(dirfd, path, flags, mode);
  return open_rdma(dirfd, path, flags | O_LARGEFILE, mode);
}

URNIC_EXPORT int open(const char* path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return open_any(path, flags, mode);
}

URNIC_EXPORT int open64(const char* path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return open64_any(path, flags, mode);
}

URNIC_EXPORT int openat(int dirfd, const char* path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return openat_any(dirfd, path, flags, mode);
}

URNIC_EXPORT int openat64(int dirfd, const char* path, int flags, ...) {
  TAKE_MODE(mode, flags)
  return openat64_any(dirfd, path, flags, mode);
}

// _FORTIFY_SOURCE replaces an open() without a mode by this.
URNIC_EXPORT int __open_2(const char* path, int flags) {
  return open_any(path, flags, 0);
}
URNIC_EXPORT int __open64_2(const char* path, int flags) {
  return open64_any(path, flags, 0);
}
URNIC_EXPORT int __openat_2(int dirfd, const char* path, int flags) {
  return openat_any(dirfd, path, flags, 0);
}
URNIC_EXPORT int __openat64_2(int dirfd, const char* path, int flags) {
  return openat64_any(dirfd, path, flags, 0);
}

static FILE* fopen_rdma(const char* path, const char* mode) {
  struct urnic_rdma_path where;
  int dirfd = AT_FDCWD;
  const char* real_path = redirect(&dirfd, path, &where);
  if (real_path == NULL) return NULL;
  // Files of the tree are opened for reading here; libc handles other modes.
  if (real_path == path || mode[0] != 'r')
    return urnic_next()->fopen(real_path, mode);
  int fd = open_tree(real_path, O_RDONLY | O_CLOEXEC, 0);
  FILE* file = fd >= 0 ? fdopen(fd, "r") : NULL;
  if (fd >= 0 && file == NULL) close(fd);
  return file;
}

URNIC_EXPORT FILE* fopen(const char* path, const char* mode) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->fopen(path, mode);
  return fopen_rdma(path, mode);
}

URNIC_EXPORT FILE* fopen64(const char* path, const char* mode) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->fopen64(path, mode);
  return fopen_rdma(path, mode);
}

// ------------------------------------------------------------ directories

URNIC_EXPORT DIR* opendir(const char* path) {
  struct urnic_rdma_path where;
  int dirfd = AT_FDCWD;
  if (!urnic_may_be_rdma(path)) return urnic_next()->opendir(path);
  const char* real_path = redirect(&dirfd, path, &where);
  return real_path ? urnic_next()->opendir(real_path) : NULL;
}

static int scandir_any(const char* path, struct dirent*** list,
                       urnic_dirent_filter filter,
                       urnic_dirent_compare compare) {
  struct urnic_rdma_path where;
  int dirfd = AT_FDCWD;
  if (!urnic_may_be_rdma(path))
    return urnic_next()->scandir(path, list, filter, compare);
  const char* real_path = redirect(&dirfd, path, &where);
  return real_path ? urnic_next()->scandir(real_path, list, filter, compare)
                   : -1;
}

URNIC_EXPORT int scandir(const char* path, struct dirent*** list,
                         urnic_dirent_filter filter,
                         urnic_dirent_compare compare) {
  return scandir_any(path, list, filter, compare);
}

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64) &&
                   sizeof(struct stat) == sizeof(struct stat64),
               "64-bit machines only: the 64 twins are the same");

URNIC_EXPORT int scandir64(const char* path, struct dirent64*** list,
                           int (*filter)(const struct dirent64*),
                           int (*compare)(const struct dirent64**,
                                          const struct dirent64**)) {
  return scandir_any(path, (struct dirent***)list, (urnic_dirent_filter)filter,
                     (urnic_dirent_compare)compare);
}

URNIC_EXPORT int chdir(const char* path) {
  struct urnic_rdma_path where;
  int dirfd = AT_FDCWD;
  if (!urnic_may_be_rdma(path)) return urnic_next()->chdir(path);
  const char* real_path = redirect(&dirfd, path, &where);
  return real_path ? urnic_next()->chdir(real_path) : -1;
}

// ----------------------------------------------------------------- access

static int access_rdma(int dirfd, const char* path, int mode, int flags) {
  struct urnic_rdma_path where;
  switch (urnic_rdma_resolve(dirfd, path, &where)) {
    case URNIC_PATH_OTHER:
      return urnic_next()->faccessat(dirfd, path, mode, flags);
    case URNIC_PATH_TREE:
      return urnic_next()->faccessat(AT_FDCWD, where.path, mode, flags);
    case URNIC_PATH_NODE:
      return urnic_node_access(mode);
    case URNIC_PATH_ABSENT:
      break;
  }
  errno = ENOENT;
  return -1;
}

URNIC_EXPORT int access(const char* path, int mode) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->access(path, mode);
  return access_rdma(AT_FDCWD, path, mode, 0);
}

URNIC_EXPORT int faccessat(int dirfd, const char* path, int mode, int flags) {
  if (!urnic_may_be_rdma(path))
    return urnic_next()->faccessat(dirfd, path, mode, flags);
  return access_rdma(dirfd, path, mode, flags);
}

static int euidaccess_any(const char* path, int mode) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->euidaccess(path, mode);
  return access_rdma(AT_FDCWD, path, mode, AT_EACCESS);
}

URNIC_EXPORT int euidaccess(const char* path, int mode) {
  return euidaccess_any(path, mode);
}
URNIC_EXPORT int eaccess(const char* path, int mode) {
  return euidaccess_any(path, mode);
}

// ------------------------------------------------------------------- stat

static struct urnic_fd_object* node_of(int fd) {
  struct urnic_fd_object* node = urnic_fd_find(fd, URNIC_FD_UVERBS);
  return node != NULL ? node : urnic_fd_find(fd, URNIC_FD_RDMA_CM);
}

// An open node that is named by an empty path, as fstat does since glibc 2.33.
static struct urnic_fd_object* open_node(int fd, const char* path, int flags) {
  if ((flags & AT_EMPTY_PATH) == 0 || (path != NULL && path[0] != '\0'))
    return NULL;
  return node_of(fd);
}

static int stat_at(int dirfd, const char* path, struct stat* out, int flags) {
  const struct urnic_fd_object* node = open_node(dirfd, path, flags);
  if (node != NULL) {
    urnic_node_stat(node->device, out);
    return 0;
  }
  if (!urnic_may_be_rdma(path))
    return urnic_next()->fstatat(dirfd, path, out, flags);
  struct urnic_rdma_path where;
  switch (urnic_rdma_resolve(dirfd, path, &where)) {
    case URNIC_PATH_OTHER:
      return urnic_next()->fstatat(dirfd, path, out, flags);
    case URNIC_PATH_TREE:
      return urnic_next()->fstatat(AT_FDCWD, where.path, out, flags);
    case URNIC_PATH_NODE:
      urnic_node_stat(where.device, out);
      return 0;
    case URNIC_PATH_ABSENT:
      break;
  }
  errno = ENOENT;
  return -1;
}

static int stat_fd(int fd, struct stat* out) {
  const struct urnic_fd_object* node = node_of(fd);
  if (node == NULL) return urnic_next()->fstat(fd, out);
  urnic_node_stat(node->device, out);
  return 0;
}

URNIC_EXPORT int stat(const char* path, struct stat* out) {
  return stat_at(AT_FDCWD, path, out, 0);
}
URNIC_EXPORT int lstat(const char* path, struct stat* out) {
  return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
URNIC_EXPORT int fstat(int fd, struct stat* out) { return stat_fd(fd, out); }
URNIC_EXPORT int fstatat(int dirfd, const char* path, struct stat* out,
                         int flags) {
  return stat_at(dirfd, path, out, flags);
}
URNIC_EXPORT int stat64(const char* path, struct stat64* out) {
  return stat_at(AT_FDCWD, path, (struct stat*)out, 0);
}
URNIC_EXPORT int lstat64(const char* path, struct stat64* out) {
  return stat_at(AT_FDCWD, path, (struct stat*)out, AT_SYMLINK_NOFOLLOW);
}
URNIC_EXPORT int fstat64(int fd, struct stat64* out) {
  return stat_fd(fd, (struct stat*)out);
}
URNIC_EXPORT int fstatat64(int dirfd, const char* path, struct stat64* out,
                           int flags) {
  return stat_at(dirfd, path, (struct stat*)out, flags);
}

// Before glibc 2.33. `version` has one value on each architecture.
URNIC_EXPORT int __xstat(int version, const char* path, struct stat* out) {
  (void)version;
  return stat_at(AT_FDCWD, path, out, 0);
}
URNIC_EXPORT int __lxstat(int version, const char* path, struct stat* out) {
  (void)version;
  return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
URNIC_EXPORT int __fxstat(int version, int fd, struct stat* out) {
  (void)version;
  return stat_fd(fd, out);
}
URNIC_EXPORT int __fxstatat(int version, int dirfd, const char* path,
                            struct stat* out, int flags) {
  (void)version;
  return stat_at(dirfd, path, out, flags);
}
URNIC_EXPORT int __xstat64(int version, const char* path, struct stat64* out) {
  (void)version;
  return stat_at(AT_FDCWD, path, (struct stat*)out, 0);
}
URNIC_EXPORT int __lxstat64(int version, const char* path, struct stat64* out) {
  (void)version;
  return stat_at(AT_FDCWD, path, (struct stat*)out, AT_SYMLINK_NOFOLLOW);
}
URNIC_EXPORT int __fxstat64(int version, int fd, struct stat64* out) {
  (void)version;
  return stat_fd(fd, (struct stat*)out);
}
URNIC_EXPORT int __fxstatat64(int version, int dirfd, const char* path,
                              struct stat64* out, int flags) {
  (void)version;
  return stat_at(dirfd, path, (struct stat*)out, flags);
}

URNIC_EXPORT int statx(int dirfd, const char* path, int flags, unsigned mask,
                       struct statx* out) {
  const struct urnic_fd_object* node = open_node(dirfd, path, flags);
  if (node != NULL) {
    urnic_node_statx(node->device, out);
    return 0;
  }
  if (!urnic_may_be_rdma(path))
    return urnic_next()->statx(dirfd, path, flags, mask, out);
  struct urnic_rdma_path where;
  if (urnic_rdma_resolve(dirfd, path, &where) == URNIC_PATH_NODE) {
    urnic_node_statx(where.device, out);
    return 0;
  }
  const char* real_path = redirect(&dirfd, path, &where);
  return real_path ? urnic_next()->statx(dirfd, real_path, flags, mask, out)
                   : -1;
}

// ------------------------------------------------------------------ links

static ssize_t readlinkat_any(int dirfd, const char* path, char* out,
                              size_t size) {
  if (!urnic_may_be_rdma(path))
    return urnic_next()->readlinkat(dirfd, path, out, size);
  struct urnic_rdma_path where;
  const char* real_path = redirect(&dirfd, path, &where);
  return real_path ? urnic_next()->readlinkat(dirfd, real_path, out, size) : -1;
}

static ssize_t readlink_any(const char* path, char* out, size_t size) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->readlink(path, out, size);
  return readlinkat_any(AT_FDCWD, path, out, size);
}

URNIC_EXPORT ssize_t readlinkat(int dirfd, const char* path, char* out,
                                size_t size) {
  return readlinkat_any(dirfd, path, out, size);
}
URNIC_EXPORT ssize_t readlink(const char* path, char* out, size_t size) {
  return readlink_any(path, out, size);
}

// Fortified variants: the compiler knew that `out` has room for `room` bytes.
URNIC_EXPORT ssize_t __readlink_chk(const char* path, char* out, size_t size,
                                    size_t room) {
  if (size > room) abort();
  return readlink_any(path, out, size);
}
URNIC_EXPORT ssize_t __readlinkat_chk(int dirfd, const char* path, char* out,
                                      size_t size, size_t room) {
  if (size > room) abort();
  return readlinkat_any(dirfd, path, out, size);
}

// `out` as in realpath(3): PATH_MAX bytes, or NULL for malloc.
static char* realpath_any(const char* path, char* out) {
  if (!urnic_may_be_rdma(path)) return urnic_next()->realpath(path, out);
  struct urnic_rdma_path where;
  int dirfd = AT_FDCWD;
  if (urnic_rdma_resolve(dirfd, path, &where) == URNIC_PATH_NODE) {
    // The path must stay recognizable when it is opened later.
    if (where.device == URNIC_NODE_RDMA_CM)
      strcpy(where.path, "/dev/infiniband/rdma_cm");
    else
      snprintf(where.path, sizeof(where.path), "/dev/infiniband/uverbs%d",
               where.device);
    return out ? strcpy(out, where.path) : strdup(where.path);
  }
  const char* real_path = redirect(&dirfd, path, &where);
  if (real_path != NULL && urnic_counter_is(real_path)) {
    // As above.
    real_path += strlen(urnic_tree_root());
    return out ? strcpy(out, real_path) : strdup(real_path);
  }
  return real_path ? urnic_next()->realpath(real_path, out) : NULL;
}

URNIC_EXPORT char* realpath(const char* path, char* out) {
  return realpath_any(path, out);
}
URNIC_EXPORT char* __realpath_chk(const char* path, char* out, size_t room) {
  if (room < PATH_MAX) abort();
  return realpath_any(path, out);
}
URNIC_EXPORT char* canonicalize_file_name(const char* path) {
  return realpath_any(path, NULL);
}

// ------------------------------------------------------ attributes (ls -l)

URNIC_EXPORT ssize_t getxattr(const char* path, const char* name, void* out,
                              size_t size) {
  struct urnic_rdma_path where;
  int dirfd = AT_FDCWD;
  if (!urnic_may_be_rdma(path))
    return urnic_next()->getxattr(path, name, out, size);
  const char* real_path = redirect(&dirfd, path, &where);
  return real_path ? urnic_next()->getxattr(real_path, name, out, size) : -1;
}

URNIC_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* out,
                               size_t size) {
  struct urnic_rdma_path where;
  int dirfd = AT_FDCWD;
  if (!urnic_may_be_rdma(path))
    return urnic_next()->lgetxattr(path, name, out, size);
  const char* real_path = redirect(&dirfd, path, &where);
  return real_path ? urnic_next()->lgetxattr(real_path, name, out, size) : -1;
}
