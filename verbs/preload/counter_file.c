#define _GNU_SOURCE
#include "verbs/preload/counter_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "verbs/identity/device_identity.h"
#include "verbs/identity/sysfs_counters.h"
#include "verbs/libc/file_size_signal.h"
#include "verbs/preload/cancellation.h"
#include "verbs/preload/run_dir.h"
#include "verbs/preload/sysfs_tree.h"

// More than the longest answer: the port has at most 511 characters, and the
// line of a counter about 45.
#define ANSWER_BYTES 4096
#define TEXT_BYTES 24

static const char* const kNames[] = {URNIC_SYSFS_NAMES};
#define COUNT(name) +1
enum {
  // Those behind are in hw_counters, of a RoCE and of an iWARP device.
  NUM_PORT_COUNTERS = 0 URNIC_SYSFS_COUNTERS(COUNT),
  NUM_ROCE_COUNTERS = 0 URNIC_SYSFS_ROCE_COUNTERS(COUNT),
  NUM_NAMES = sizeof(kNames) / sizeof(kNames[0]),
};
#undef COUNT

// Which counter of which device, and what has been found.
struct search {
  const struct urnic_device_identity* device;
  const char* name;
  const char* own_directory;
  unsigned long long value;
  int found;
};

// ---------------------------------------------------------- asking a process

// The answer of a device of the process with this run directory, as a string.
// False: it has no such device open, or does not answer.
static int ask(const char* directory, const char* device, char* answer) {
  static const char kRequest[] = "counters";
  const struct timeval patience = {.tv_sec = 5};
  ssize_t n = -1;
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  // A socket address holds only 107 characters.
  int at = open(directory, O_PATH | O_CLOEXEC);
  if (fd >= 0 && at >= 0) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path),
             "/proc/thread-self/fd/%d/%s.sock", at, device);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr*)&address, sizeof(address)) == 0 &&
        send(fd, kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL) > 0)
      n = recv(fd, answer, ANSWER_BYTES - 1, 0);
  }
  if (at >= 0) close(at);
  if (fd >= 0) close(fd);
  if (n <= 0) return 0;
  answer[n] = '\0';
  return strncmp(answer, "ok\n", 3) == 0;
}

// What follows "WORD " in the answer's line, or NULL.
static const char* rest_of_line(const char* answer, const char* word) {
  char start[40];
  int len = snprintf(start, sizeof(start), "\n%s ", word);
  const char* line = strstr(answer, start);
  return line != NULL ? line + len : NULL;
}

static int has_line(const char* answer, const char* word, const char* wanted) {
  const char* rest = rest_of_line(answer, word);
  size_t len = strlen(wanted);
  return rest != NULL && strncmp(rest, wanted, len) == 0 && rest[len] == '\n';
}

static void take_value(struct search* search, const char* answer) {
  const char* rest = rest_of_line(answer, search->name);
  search->found = rest != NULL && sscanf(rest, "%llu", &search->value) == 1;
}

// A process whose n-th port, whatever n, is that of our device. Its socket has
// the name of the first device of the port.
static void ask_other(void* context, const char* directory,
                      unsigned long long pid) {
  (void)pid;
  struct search* search = context;
  char answer[ANSWER_BYTES];
  char device[URNIC_DEVICE_NAME_SIZE];
  char netns[24];
  struct stat st;
  if (search->found || strcmp(directory, search->own_directory) == 0 ||
      stat("/proc/thread-self/ns/net", &st) != 0)
    return;
  snprintf(netns, sizeof(netns), "%llu", (unsigned long long)st.st_ino);
  for (int n = 0; n < URNIC_MAX_DEVICES && !search->found; ++n) {
    urnic_device_name(n / URNIC_MAX_PORTS, n % URNIC_MAX_PORTS, device);
    if (ask(directory, device, answer) &&
        has_line(answer, "port", search->device->dev) &&
        has_line(answer, "netns", netns))
      take_value(search, answer);
  }
}

// Its length, or -1 if there is no process to ask.
static int text_of(const struct urnic_device_identity* device, const char* name,
                   char* text) {
  struct search search = {.device = device, .name = name};
  char answer[ANSWER_BYTES];
  search.own_directory = urnic_tree_root();
  if (search.own_directory == NULL) return -1;
  if (ask(search.own_directory, device->port_name, answer))
    take_value(&search, answer);
  // Each process has a loop of its own.
  else if (device->port_kind != URNIC_PORT_LOOP)
    urnic_run_dir_visit(ask_other, &search);
  return search.found ? snprintf(text, TEXT_BYTES, "%llu\n", search.value) : -1;
}

// ------------------------------------------------------------------- files

// The index in kNames of a counter between `begin` and `end`, or -1.
static int index_of(const char* name, int begin, int end) {
  for (int i = begin; i < end; ++i)
    if (strcmp(name, kNames[i]) == 0) return i;
  return -1;
}

// The counter's index in kNames, or -1; sets the device.
static int parse(const char* path,
                 const struct urnic_device_identity** device) {
  static const char kBefore[] = "/sys/class/infiniband/";
  static const char kCounters[] = "/ports/1/counters/";
  static const char kHwCounters[] = "/ports/1/hw_counters/";
  const char* name = strstr(path, kBefore);
  const char* end = strstr(path, kCounters);
  const char* counter = end != NULL ? end + sizeof(kCounters) - 1 : NULL;
  int is_hw = 0;
  if (end == NULL) {
    end = strstr(path, kHwCounters);
    counter = end != NULL ? end + sizeof(kHwCounters) - 1 : NULL;
    is_hw = 1;
  }
  if (name == NULL || end == NULL) return -1;
  name += sizeof(kBefore) - 1;
  char text[sizeof((*device)->name)];
  if (end < name || (size_t)(end - name) >= sizeof(text)) return -1;
  memcpy(text, name, (size_t)(end - name));
  text[end - name] = '\0';
  *device = urnic_tree_find(text);
  if (*device == NULL) return -1;
  const int iwarp_begin = NUM_PORT_COUNTERS + NUM_ROCE_COUNTERS;
  if (!is_hw) return index_of(counter, 0, NUM_PORT_COUNTERS);
  return (*device)->device_kind == &urnic_device_kinds[URNIC_DEVICE_IWARP]
             ? index_of(counter, iwarp_begin, NUM_NAMES)
             : index_of(counter, NUM_PORT_COUNTERS, iwarp_begin);
}

static int put_text(int fd, const char* text, int len) {
  struct urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  int done =
      pwrite64(fd, text, (size_t)len, 0) == len && ftruncate64(fd, len) == 0;
  urnic_file_size_signal_back(&signal);
  return done;
}

// Makes the open file known as a counter. 0 or an errno.
static int publish(int fd, const struct urnic_device_identity* device,
                   int counter) {
  struct urnic_fd_object* object = urnic_fd_object_new(URNIC_FD_COUNTER, fd);
  if (object == NULL) return errno;
  object->device = device->node;
  object->counter = counter;
  int err = urnic_fd_publish(object);
  if (err != 0) urnic_fd_object_free(object);
  return -err;
}

static int open_counter(const struct urnic_device_identity* device, int counter,
                        int flags) {
  char text[TEXT_BYTES];
  int len = text_of(device, kNames[counter], text);
  if (len < 0) {
    errno = ENODEV;
    return -1;
  }
  int fd = memfd_create(kNames[counter], flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
  if (fd < 0) return -1;
  int err = put_text(fd, text, len) ? publish(fd, device, counter) : errno;
  if (err == 0) return fd;
  close(fd);
  errno = err;
  return -1;
}

int urnic_counter_is(const char* tree_path) {
  const struct urnic_device_identity* device;
  return parse(tree_path, &device) >= 0;
}

int urnic_counter_open(const char* tree_path, int flags) {
  const struct urnic_device_identity* device;
  int counter = parse(tree_path, &device);
  if (counter < 0 || (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC) {
    errno = counter < 0 ? ENOENT : EACCES;
    return -1;
  }
  int before = urnic_cancellation_off();
  int fd = open_counter(device, counter, flags);
  urnic_cancellation_back(before);
  return fd;
}

void urnic_counter_before_read(const struct urnic_fd_object* object, int fd) {
  int saved_errno = errno;
  int before = urnic_cancellation_off();
  if (urnic_fd_is_same(object, fd) && lseek64(fd, 0, SEEK_CUR) == 0) {
    char text[TEXT_BYTES];
    const struct urnic_device_identity* device = urnic_tree_at(object->device);
    int len = device ? text_of(device, kNames[object->counter], text) : -1;
    if (len > 0) (void)put_text(fd, text, len);
  }
  urnic_cancellation_back(before);
  errno = saved_errno;
}
