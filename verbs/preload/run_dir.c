#define _GNU_SOURCE
#include "verbs/preload/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Deeper than the rendered sysfs; a limit for a tree that is not ours.
#define MAX_DEPTH 16

struct owner {
  unsigned long long pid_namespace;
  unsigned long long pid;
  unsigned long long start_time;  // in clock ticks since boot
};

static void format_name(const struct owner* who, char* out, size_t size) {
  snprintf(out, size, "urnic-%llu-%llu-%llu", who->pid_namespace, who->pid,
           who->start_time);
}

static int parse_name(const char* name, struct owner* who) {
  char again[80];
  if (sscanf(name, "urnic-%llu-%llu-%llu", &who->pid_namespace, &who->pid,
             &who->start_time) != 3)
    return 0;
  format_name(who, again, sizeof(again));
  return strcmp(name, again) == 0;
}

// Field 22 of /proc/PID/stat, counted from the end of the program's name, which
// may hold anything. 0 if there is no such process.
static unsigned long long start_time_of(unsigned long long pid) {
  char path[48];
  char text[1024];
  snprintf(path, sizeof(path), "/proc/%llu/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t len = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (len <= 0) return 0;
  text[len] = '\0';
  const char* p = strrchr(text, ')');
  for (int field = 2; p != NULL && field < 22; ++field) p = strchr(p + 1, ' ');
  return p ? strtoull(p + 1, NULL, 10) : 0;
}

static struct owner this_process(void) {
  struct owner me = {.pid = (unsigned long long)getpid()};
  struct stat ns;
  if (stat("/proc/self/ns/pid", &ns) == 0) me.pid_namespace = ns.st_ino;
  me.start_time = start_time_of(me.pid);
  return me;
}

#define PLACES 5

static const char* absolute(const char* path) {
  return path != NULL && path[0] == '/' ? path : NULL;
}

// The PLACES places, in the order in which they are tried; NULL: none at this
// index. The result may be in `room`.
static const char* named_place(int i, char* room, size_t size) {
  switch (i) {
    case 0:
      return absolute(getenv("XDG_RUNTIME_DIR"));
    case 1:
      return absolute(getenv("TMPDIR"));
    case 2:
      return "/tmp";
    case 3:
      snprintf(room, size, "/run/user/%u", (unsigned)geteuid());
      return room;
    default:
      return "/dev/shm";
  }
}

// The same, but NULL also if it is not a directory, or the same directory as an
// earlier place.
static const char* place(int i, char* room, size_t size) {
  struct stat here, there;
  const char* path = named_place(i, room, size);
  if (path == NULL || stat(path, &here) != 0 || !S_ISDIR(here.st_mode))
    return NULL;
  for (int k = 0; k < i; ++k) {
    char other[32];
    const char* earlier = named_place(k, other, sizeof(other));
    if (earlier != NULL && stat(earlier, &there) == 0 &&
        there.st_dev == here.st_dev && there.st_ino == here.st_ino)
      return NULL;
  }
  return path;
}

// Whether `name` is on the file system of `parent`, and not mounted there.
static int is_same_file_system(int parent, const char* name) {
  struct stat above, here;
  return fstatat(parent, ".", &above, 0) == 0 &&
         fstatat(parent, name, &here, AT_SYMLINK_NOFOLLOW) == 0 &&
         above.st_dev == here.st_dev;
}

static void remove_tree(int parent, const char* name, int depth) {
  int fd =
      openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (dir == NULL) {
    if (fd >= 0) close(fd);
    return;
  }
  const struct dirent* e;
  while ((e = readdir(dir)) != NULL) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (unlinkat(fd, e->d_name, 0) != 0 && depth < MAX_DEPTH &&
        is_same_file_system(fd, e->d_name))
      remove_tree(fd, e->d_name, depth + 1);
  }
  closedir(dir);
  unlinkat(parent, name, AT_REMOVEDIR);
}

void urnic_run_dir_remove(const char* path) { remove_tree(AT_FDCWD, path, 0); }

// Whether it is a directory, and not a trap of another user.
static int is_dir_of(int parent, const char* name, int all_users) {
  struct stat st;
  return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(st.st_mode) && (all_users || st.st_uid == geteuid());
}

static void name_program(const char* directory) {
  char link[512];
  char program[512];
  int len = snprintf(link, sizeof(link), "%s/" URNIC_RUN_DIR_EXE, directory);
  ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (len < 0 || (size_t)len >= sizeof(link) || bytes <= 0) return;
  program[bytes] = '\0';
  // Without it, the directory has no program's name.
  if (symlink(program, link) != 0) return;
}

void urnic_run_dir_program(const char* path, char* program, size_t size) {
  char link[512];
  program[0] = '\0';
  int len = snprintf(link, sizeof(link), "%s/" URNIC_RUN_DIR_EXE, path);
  if (len < 0 || (size_t)len >= sizeof(link)) return;
  ssize_t bytes = readlink(link, program, size - 1);
  program[bytes > 0 ? bytes : 0] = '\0';
}

int urnic_run_dir_make(char* path, size_t size) {
  const struct owner me = this_process();
  char name[80];
  format_name(&me, name, sizeof(name));
  int err = ENOENT;
  for (int i = 0; i < PLACES; ++i) {
    char room[32];
    const char* where = place(i, room, sizeof(room));
    if (where == NULL) continue;
    int len = snprintf(path, size, "%s/%s", where, name);
    if (len < 0 || (size_t)len >= size) {
      err = ENAMETOOLONG;
      continue;
    }
    if (is_dir_of(AT_FDCWD, path, 0)) urnic_run_dir_remove(path);
    if (mkdir(path, 0755) == 0) {
      name_program(path);
      return 0;
    }
    err = errno;
  }
  return -err;
}

// The inode of the first pid namespace (PROC_PID_INIT_INO), the ancestor of
// all.
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCull

// Whether any process may be in this pid namespace. Only root in the initial
// namespace sees every process; for all others the answer is yes. A process
// that hides its namespace from root of a user namespace may be in it, too.
static int namespace_lives(const struct owner* me, unsigned long long wanted) {
  if (me->pid_namespace != INITIAL_PID_NAMESPACE || geteuid() != 0) return 1;
  DIR* proc = opendir("/proc");
  if (proc == NULL) return 1;
  int lives = 0;
  const struct dirent* e;
  while (!lives && (e = readdir(proc)) != NULL) {
    char path[sizeof(e->d_name) + 16];
    struct stat ns;
    if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
    snprintf(path, sizeof(path), "/proc/%s/ns/pid", e->d_name);
    lives = stat(path, &ns) == 0 ? ns.st_ino == wanted
                                 : errno != ENOENT && errno != ESRCH;
  }
  closedir(proc);
  return lives;
}

static int process_lives(unsigned long long pid) {
  return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

static int owner_lives(const struct owner* me, const struct owner* who) {
  if (who->pid_namespace != me->pid_namespace)
    return namespace_lives(me, who->pid_namespace);
  // If /proc could not be read then, or hides the process now, only the pid is
  // known.
  const unsigned long long start_time = start_time_of(who->pid);
  if (who->start_time == 0 || start_time == 0) return process_lives(who->pid);
  return start_time == who->start_time;
}

// A directory with one of our names in `place`, whose descriptor is `parent`.
struct found {
  int parent;
  const char* place;
  const char* name;
  unsigned long long pid;
};

struct walk {
  struct owner me;
  int lives;      // 1: directories of live processes; 0: of dead ones
  int all_users;  // 0: those of this user
  void (*each)(const struct found* f, void* context);
  void* context;
};

static void walk_place(const struct walk* w, const char* where) {
  DIR* dir = where != NULL ? opendir(where) : NULL;
  if (dir == NULL) return;
  const struct dirent* e;
  while ((e = readdir(dir)) != NULL) {
    struct owner who;
    if (!parse_name(e->d_name, &who) ||
        !is_dir_of(dirfd(dir), e->d_name, w->all_users) ||
        owner_lives(&w->me, &who) != w->lives)
      continue;
    const struct found f = {dirfd(dir), where, e->d_name, who.pid};
    w->each(&f, w->context);
  }
  closedir(dir);
}

static int is_a_place(const char* path) {
  struct stat here, there;
  if (stat(path, &here) != 0) return 0;
  for (int i = 0; i < PLACES; ++i) {
    char room[32];
    const char* where = place(i, room, sizeof(room));
    if (where != NULL && stat(where, &there) == 0 &&
        there.st_dev == here.st_dev && there.st_ino == here.st_ino)
      return 1;
  }
  return 0;
}

// The runtime directories of all users (pam_systemd(8)), except those that are
// among the places.
static void walk_users(const struct walk* w) {
  DIR* users = opendir("/run/user");
  if (users == NULL) return;
  const struct dirent* e;
  while ((e = readdir(users)) != NULL) {
    char path[sizeof("/run/user/") + sizeof(e->d_name)];
    if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
    snprintf(path, sizeof(path), "/run/user/%s", e->d_name);
    if (!is_a_place(path)) walk_place(w, path);
  }
  closedir(users);
}

static void walk(const struct walk* w) {
  for (int i = 0; i < PLACES; ++i) {
    char room[32];
    walk_place(w, place(i, room, sizeof(room)));
  }
  if (w->all_users) walk_users(w);
}

// Returns 0 if the path is too long.
static int path_of(const struct found* f, char* path, size_t size) {
  int len = snprintf(path, size, "%s/%s", f->place, f->name);
  return len > 0 && (size_t)len < size;
}

struct sweep {
  int (*choose)(void* context, const char* path, unsigned long long pid);
  void* context;
};

static int is_chosen(const struct sweep* sweep, const struct found* f) {
  char path[512];
  if (sweep->choose == NULL) return 1;
  return path_of(f, path, sizeof(path)) &&
         sweep->choose(sweep->context, path, f->pid);
}

static void sweep_one(const struct found* f, void* context) {
  if (is_chosen(context, f)) remove_tree(f->parent, f->name, 0);
}

// DPDK's directories in one of its places. They are empty, so removing one that
// is still in use does no harm.
static void sweep_dpdk(const char* place, int all_users,
                       const struct sweep* sweep) {
  char path[256];
  int len = snprintf(path, sizeof(path), "%s/dpdk", place);
  DIR* dir = len > 0 && (size_t)len < sizeof(path) ? opendir(path) : NULL;
  if (dir == NULL) return;
  const struct dirent* e;
  while ((e = readdir(dir)) != NULL) {
    unsigned long long pid;
    char again[48];
    if (sscanf(e->d_name, "urnic%llu", &pid) != 1) continue;
    snprintf(again, sizeof(again), "urnic%llu", pid);
    if (strcmp(e->d_name, again) != 0 || process_lives(pid) ||
        !is_dir_of(dirfd(dir), e->d_name, all_users))
      continue;
    const struct found f = {dirfd(dir), path, e->d_name, pid};
    if (is_chosen(sweep, &f)) unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
  }
  closedir(dir);
}

void urnic_run_dir_sweep(int all_users,
                         int (*choose)(void* context, const char* path,
                                       unsigned long long pid),
                         void* context) {
  struct sweep sweep = {choose, context};
  const int all = all_users && geteuid() == 0;
  const struct walk gone = {this_process(), 0, all, sweep_one, &sweep};
  walk(&gone);
  const char* runtime = absolute(getenv("XDG_RUNTIME_DIR"));
  if (runtime != NULL) sweep_dpdk(runtime, all, &sweep);
  sweep_dpdk("/run", all, &sweep);
  sweep_dpdk("/tmp", all, &sweep);
}

struct visit {
  void (*visit)(void* context, const char* path, unsigned long long pid);
  void* context;
};

static void visit_one(const struct found* f, void* context) {
  const struct visit* visit = context;
  char path[512];
  if (path_of(f, path, sizeof(path)))
    visit->visit(visit->context, path, f->pid);
}

void urnic_run_dir_visit(void (*visit)(void* context, const char* path,
                                       unsigned long long pid),
                         void* context) {
  struct visit to = {visit, context};
  const struct walk living = {this_process(), 1, geteuid() == 0, visit_one,
                              &to};
  walk(&living);
}
