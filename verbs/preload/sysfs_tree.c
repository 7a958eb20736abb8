#define _GNU_SOURCE
#include "verbs/preload/sysfs_tree.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "verbs/identity/device_identity.h"
#include "verbs/libc/file_size_signal.h"
#include "verbs/libc/library_version.h"
#include "verbs/preload/fork_safety.h"
#include "verbs/preload/run_dir.h"
#include "verbs/preload/sysfs_render.h"

enum { NOT_YET, READY, FAILED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int state = NOT_YET;  // the rest is fixed once it is READY
static char root[256];
static pid_t owner;
static int num_devices;
static struct urnic_device_identity devices[URNIC_MAX_DEVICES];

// What the sweep removes, in words.
enum { MAX_REMOVED = 16 };
static struct removed {
  char path[256];
  char text[640];
} removed[MAX_REMOVED];
static int num_removed;

int urnic_tree_wanted(void) {
  const char* ports = getenv("URNIC_PORTS");
  return ports != NULL && ports[0] != '\0';
}

static void complain(const char* what, const char* why) {
  char text[512];
  int len = snprintf(text, sizeof(text), "urnic: %s: %s\n", what, why);
  if (len >= (int)sizeof(text)) len = (int)sizeof(text) - 1;
  if (len > 0 && write(STDERR_FILENO, text, (size_t)len) < 0) return;
}

// The files of the tree cannot be written.
static void complain_of_root(int err) {
  struct rlimit limit;
  char why[128];
  snprintf(why, sizeof(why), "%s", strerror(err));
  if (err == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0)
    snprintf(why, sizeof(why),
             "files are limited to %llu bytes (RLIMIT_FSIZE, ulimit -f)",
             (unsigned long long)limit.rlim_cur);
  complain(root, why);
}

static void remove_at_exit(void) {
  // A child that was forked unnoticed must not remove its parent's tree.
  if (atomic_load(&state) == READY && owner == getpid())
    urnic_run_dir_remove(root);
}

static void forget_in_child(void) {
  pthread_mutex_init(&lock, NULL);
  if (atomic_load(&state) == READY) atomic_store(&state, NOT_YET);
}

// The file name of a provider contains the number of libibverbs' private
// interface. A libibverbs with an unknown number never loads ours, which
// therefore cannot report it. Nothing is refused while the program has no
// libibverbs.
static int library_takes_our_provider(void) {
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return 1;
  struct urnic_verbs_version version = urnic_verbs_version_of(library);
  dlclose(library);
  if (version.private_abi == 0 || urnic_verbs_is_known(version)) return 1;
  char why[200];
  urnic_verbs_say_unknown(version, why, sizeof(why));
  complain("the libibverbs of this program is too new or too old", why);
  return 0;
}

// Makes it fit into one line.
static void make_printable(char* text) {
  for (; *text != '\0'; ++text)
    if (*text < ' ' || *text > '~') *text = '?';
}

static int note_removed(void* count, const char* path, unsigned long long pid) {
  int i = (*(int*)count)++;
  if (i >= MAX_REMOVED) return 1;
  struct removed* it = &removed[i];
  char program[256];
  urnic_run_dir_program(path, program, sizeof(program));
  const char* slash = strrchr(program, '/');
  const char* name = slash != NULL ? slash + 1 : program;
  snprintf(it->path, sizeof(it->path), "%s", path);
  snprintf(it->text, sizeof(it->text),
           "run directory %.255s of process %llu%s%s", path, pid,
           name[0] != '\0' ? ", " : "", name);
  make_printable(it->text);
  return 1;
}

// Removes what died programs left. A forked child names what it has removed
// itself.
static void sweep(void) {
  int found = 0;
  urnic_run_dir_sweep(/*all_users=*/0, note_removed, &found);
  int kept = 0;
  for (int i = 0; i < found && i < MAX_REMOVED; ++i) {
    // Another user's, or being written to.
    if (access(removed[i].path, F_OK) == 0) continue;
    if (kept != i) removed[kept] = removed[i];
    ++kept;
  }
  if (found > MAX_REMOVED && kept == MAX_REMOVED)
    snprintf(removed[kept - 1].text, sizeof(removed[0].text),
             "%d more run directories of processes that had died",
             found - MAX_REMOVED + 1);
  num_removed = kept;
}

static int render(void) {
  char error[320];
  int n = urnic_device_identity_from_env(devices, error, sizeof(error));
  if (n < 0) {
    complain("URNIC_PORTS", error);
    return FAILED;
  }
  sweep();
  int err = urnic_run_dir_make(root, sizeof(root));
  if (err != 0) {
    complain("no directory for sysfs in " URNIC_RUN_DIR_PLACES, strerror(-err));
    return FAILED;
  }
  struct urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  err = urnic_sysfs_render(root, devices, n);
  urnic_file_size_signal_back(&signal);
  if (err != 0) {
    complain_of_root(-err);
    urnic_run_dir_remove(root);
    return FAILED;
  }
  static int registered;
  if (!registered) registered = atexit(remove_at_exit) == 0;
  urnic_fork_safety_on(forget_in_child);
  owner = getpid();
  num_devices = n;
  return READY;
}

const char* urnic_tree_root(void) {
  if (atomic_load_explicit(&state, memory_order_acquire) == NOT_YET) {
    int saved_errno = errno;
    // Not under our lock: the loader has a lock of its own, and may be calling
    // us.
    int takes_us = library_takes_our_provider();
    pthread_mutex_lock(&lock);
    if (atomic_load(&state) == NOT_YET)
      atomic_store(&state, takes_us ? render() : FAILED);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
  }
  return atomic_load(&state) == READY ? root : NULL;
}

const char* urnic_tree_removed(int i) {
  if (atomic_load_explicit(&state, memory_order_acquire) != READY) return NULL;
  return i >= 0 && i < num_removed ? removed[i].text : NULL;
}

const struct urnic_device_identity* urnic_tree_find(const char* name) {
  for (int i = 0; i < urnic_tree_num_devices(); ++i)
    if (strcmp(devices[i].name, name) == 0) return &devices[i];
  return NULL;
}

const struct urnic_device_identity* urnic_tree_at(int node) {
  return node >= 0 && node < urnic_tree_num_devices() ? &devices[node] : NULL;
}

int urnic_tree_set_gids(const struct urnic_device_identity* device) {
  const struct urnic_device_identity* ours = urnic_tree_find(device->name);
  if (ours == NULL) return -ENOENT;
  int saved_errno = errno;
  struct urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  int err =
      urnic_sysfs_set_gids(root, ours->device_kind->gid_table_len, device);
  urnic_file_size_signal_back(&signal);
  errno = saved_errno;
  return err;
}

int urnic_tree_set_port_active(const char* device, int active) {
  if (atomic_load(&state) != READY) return -ENOENT;
  int saved_errno = errno;
  struct urnic_file_size_signal signal;
  urnic_file_size_signal_off(&signal);
  int err = urnic_sysfs_set_port_active(root, device, active);
  urnic_file_size_signal_back(&signal);
  errno = saved_errno;
  return err;
}

int urnic_tree_num_devices(void) {
  return atomic_load(&state) == READY ? num_devices : 0;
}
