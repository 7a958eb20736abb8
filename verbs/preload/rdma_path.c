#define _GNU_SOURCE
#include "verbs/preload/rdma_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "verbs/identity/sysfs_counters.h"
#include "verbs/preload/device_node.h"
#include "verbs/preload/sysfs_tree.h"

// Whether the last name of a relative path is that of a counter.
static int may_be_counter(const char* path) {
  static const char* const kNames[] = {URNIC_SYSFS_NAMES};
  // All of them have one. Few other files do.
  if (strchr(path, '_') == NULL) return 0;
  const char* slash = strrchr(path, '/');
  const char* name = slash != NULL ? slash + 1 : path;
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i)
    if (strcmp(name, kNames[i]) == 0) return 1;
  return 0;
}

int urnic_may_be_rdma(const char* path) {
  if (path == NULL) return 0;
  if (path[0] != '/')
    return strstr(path, "infiniband") != NULL ||
           strstr(path, "rdma_cm") != NULL || may_be_counter(path);
  if (path[1] == 's')
    return strncmp(path, "/sys/class/infiniband", 21) == 0 ||
           strncmp(path, "/sys/class/misc/rdma_cm", 23) == 0;
  return path[1] == 'd' && strncmp(path, "/dev/infiniband", 15) == 0;
}

// "DIR/PATH" for a path relative to an open directory; 0 if that fails.
static int make_absolute(int dirfd, const char* path, char* out, size_t size) {
  char link[40] = "/proc/thread-self/cwd";
  if (dirfd != AT_FDCWD)
    snprintf(link, sizeof(link), "/proc/thread-self/fd/%d", dirfd);
  ssize_t len = readlink(link, out, size);
  if (len <= 0 || out[0] != '/' || (size_t)len >= size) return 0;
  int rest = snprintf(out + len, size - (size_t)len, "%s%s",
                      len == 1 ? "" : "/", path);
  return rest >= 0 && (size_t)rest < size - (size_t)len;
}

// The path of a file in a rendered tree, of this process or of the one that
// started it in such a directory, as it is in sysfs. Others stay.
static void leave_tree(char* path) {
  char* inside = strstr(path, "/sys/class/infiniband");
  if (inside == NULL || inside == path || strstr(path, "/urnic-") == NULL)
    return;
  memmove(path, inside, strlen(inside) + 1);
}

// The node of the path "/dev/infiniband/uverbsN" or "/dev/infiniband/rdma_cm",
// or -1.
static int node_number(const char* path) {
  if (strcmp(path, "/dev/infiniband/rdma_cm") == 0) return URNIC_NODE_RDMA_CM;
  static const char kPrefix[] = "/dev/infiniband/uverbs";
  if (strncmp(path, kPrefix, sizeof(kPrefix) - 1) != 0) return -1;
  const char* digits = path + sizeof(kPrefix) - 1;
  int number = 0;
  int count = 0;
  for (; digits[count] >= '0' && digits[count] <= '9' && count < 3; ++count)
    number = number * 10 + (digits[count] - '0');
  // Linux writes no zero before other digits.
  const int is_number =
      count > 0 && digits[count] == '\0' && (count == 1 || digits[0] != '0');
  return is_number ? number : -1;
}

static enum urnic_path_kind resolve(int dirfd, const char* path,
                                    struct urnic_rdma_path* out) {
  if (path[0] != '/') {
    if (!make_absolute(dirfd, path, out->path, sizeof(out->path)))
      return URNIC_PATH_OTHER;
    leave_tree(out->path);
    if (!urnic_may_be_rdma(out->path)) return URNIC_PATH_OTHER;
  } else if ((size_t)snprintf(out->path, sizeof(out->path), "%s", path) >=
             sizeof(out->path)) {
    return URNIC_PATH_ABSENT;
  }
  if (!urnic_tree_wanted()) return URNIC_PATH_OTHER;
  const char* root = urnic_tree_root();
  if (root == NULL) return URNIC_PATH_ABSENT;
  out->device = node_number(out->path);
  size_t path_len = strlen(out->path) + 1;
  size_t root_len = strlen(root);
  if (root_len + path_len > sizeof(out->path)) return URNIC_PATH_ABSENT;
  memmove(out->path + root_len, out->path, path_len);
  memcpy(out->path, root, root_len);
  if (out->device < 0) return URNIC_PATH_TREE;
  return out->device == URNIC_NODE_RDMA_CM ||
                 out->device < urnic_tree_num_devices()
             ? URNIC_PATH_NODE
             : URNIC_PATH_ABSENT;
}

enum urnic_path_kind urnic_rdma_resolve(int dirfd, const char* path,
                                        struct urnic_rdma_path* out) {
  int saved_errno = errno;
  enum urnic_path_kind kind = resolve(dirfd, path, out);
  errno = saved_errno;
  return kind;
}
