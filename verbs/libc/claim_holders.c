#define _GNU_SOURCE
#include "verbs/libc/claim_holders.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// The state numbers of TCP, which the kernel also uses for unix sockets.
#define STATE_CLOSE 7
#define STATE_LISTEN 10

// The most that the kernel sends in one piece.
#define ANSWER_BYTES 32768

// How often a list is requested if it changes while the kernel sends it.
#define LISTS 16

// A holder that any of the lists contained.
struct found {
  struct urnic_claim_holder holder;  // its name is `name`
  char name[108];                    // sun_path
};

struct search {
  const char* prefix;
  struct found* found;
  size_t count;
  size_t room;
  int interrupted;  // this list changed while it was sent
  int pieces;       // of this list
  int news;         // it contained new holders
};

static int ask(int fd) {
  struct {
    struct nlmsghdr header;
    struct unix_diag_req body;
  } request = {.header = {.nlmsg_len = sizeof(request),
                          .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
               // Not connections that wait for accept(): they have the name,
               // too, and count as root's.
               .body = {.sdiag_family = AF_UNIX,
                        .udiag_states = 1u << STATE_LISTEN | 1u << STATE_CLOSE,
                        .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID}};
  return send(fd, &request, sizeof(request), 0) < 0 ? -errno : 0;
}

static int add(struct search* search, const struct urnic_claim_holder* holder) {
  for (size_t i = 0; i < search->count; ++i) {
    if (search->found[i].holder.inode == holder->inode) return 0;
  }
  if (search->count == search->room) {
    const size_t room = 2 * search->room + 16;
    struct found* more = realloc(search->found, room * sizeof(*more));
    if (more == NULL) return -ENOMEM;
    search->found = more;
    search->room = room;
  }
  struct found* it = &search->found[search->count++];
  it->holder = *holder;
  if (it->holder.name_bytes > sizeof(it->name))
    it->holder.name_bytes = sizeof(it->name);
  memcpy(it->name, holder->name, it->holder.name_bytes);
  search->news = 1;
  return 0;
}

// Takes one socket. -ENODATA: the kernel does not report its owner.
static int look(struct search* search, const struct nlmsghdr* message) {
  const struct unix_diag_msg* socket = NLMSG_DATA(message);
  struct urnic_claim_holder holder = {.inode = socket->udiag_ino};
  int has_uid = 0;
  int left = (int)NLMSG_PAYLOAD(message, sizeof(*socket));
  for (const struct rtattr* a = (const struct rtattr*)(socket + 1);
       RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    if (a->rta_type == UNIX_DIAG_NAME) {
      holder.name = RTA_DATA(a);
      holder.name_bytes = RTA_PAYLOAD(a);
    } else if (a->rta_type == UNIX_DIAG_UID) {
      memcpy(&holder.uid, RTA_DATA(a), sizeof(holder.uid));
      has_uid = 1;
    }
  }
  const size_t wanted = strlen(search->prefix);
  if (socket->udiag_type != SOCK_STREAM || holder.name_bytes < wanted + 1 ||
      holder.name[0] != '\0' ||
      memcmp(holder.name + 1, search->prefix, wanted) != 0)
    return 0;
  if (!has_uid) return -ENODATA;
  ++holder.name;
  --holder.name_bytes;
  return add(search, &holder);
}

// Returns 1 if more follows, 0 at the end, or -errno.
static int take_answer(int fd, char* answer, struct search* search) {
  ssize_t bytes = recv(fd, answer, ANSWER_BYTES, 0);
  if (bytes < 0) return errno == EINTR ? 1 : -errno;
  ++search->pieces;
  int left = (int)bytes;
  for (const struct nlmsghdr* m = (const struct nlmsghdr*)answer;
       NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
    if (m->nlmsg_flags & NLM_F_DUMP_INTR) search->interrupted = 1;
    if (m->nlmsg_type == NLMSG_DONE) return 0;
    if (m->nlmsg_type == NLMSG_ERROR) {
      int error = ((const struct nlmsgerr*)NLMSG_DATA(m))->error;
      return error != 0 ? error : -EPROTO;
    }
    int err = look(search, m);
    if (err != 0) return err;
  }
  return 1;
}

static int list(int fd, char* answer, struct search* search) {
  search->interrupted = search->pieces = search->news = 0;
  int err = ask(fd);
  if (err != 0) return err;
  do {
    err = take_answer(fd, answer, search);
  } while (err > 0);
  return err;
}

// The kernel continues a list by position: when a socket is closed between two
// pieces, the others move up, and one is left out. Not every kernel reports
// this (NLM_F_DUMP_INTR), so a list of several pieces counts only if it adds
// nothing to those before.
static int is_whole(const struct search* search) {
  // The last piece contains only the end mark.
  return !search->interrupted && (search->pieces <= 2 || !search->news);
}

int urnic_claim_visit(const char* prefix,
                      void (*visit)(void* context,
                                    const struct urnic_claim_holder* holder),
                      void* context) {
  struct search search = {.prefix = prefix};
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return -errno;
  char* answer = malloc(ANSWER_BYTES);
  int err = answer != NULL ? 0 : -ENOMEM;
  int lists = 0;
  do {
    if (err == 0) err = list(fd, answer, &search);
  } while (err == 0 && !is_whole(&search) && ++lists < LISTS);
  for (size_t i = 0; err == 0 && i < search.count; ++i) {
    search.found[i].holder.name = search.found[i].name;
    visit(context, &search.found[i].holder);
  }
  free(search.found);
  free(answer);
  close(fd);
  return err;
}

// Opening a packet socket takes CAP_NET_RAW, and the kernel lists the owners.
static int has_packet_socket(uid_t uid, unsigned interface) {
  FILE* list = fopen("/proc/thread-self/net/packet", "re");
  char line[256];
  int found = 0;
  while (list != NULL && !found && fgets(line, sizeof(line), list) != NULL) {
    // Address, references, type, protocol, interface, running, memory, user.
    unsigned on;
    unsigned user;
    found = sscanf(line, "%*s %*d %*d %*x %u %*d %*u %u", &on, &user) == 2 &&
            on == interface && user == uid;
  }
  if (list != NULL) fclose(list);
  return found;
}

int urnic_claim_has_right(const char* identity, uid_t uid) {
  static const char interface[] = "iface:";
  if (uid == 0 || uid == geteuid()) return 1;
  if (identity == NULL ||
      strncmp(identity, interface, sizeof(interface) - 1) != 0)
    return 0;
  const unsigned index = if_nametoindex(identity + sizeof(interface) - 1);
  return index != 0 && has_packet_socket(uid, index);
}
