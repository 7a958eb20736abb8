/* Sends a file to many hosts at once: the sender sends each packet once, to an
 * IP multicast address (multicast of document C). The RNICs of the members
 * place it and answer the sender, which retransmits what a member has missed to
 * this member alone. The programs of the members sleep during that time.
 *
 *   cc -o distribute distribute.c $(pkg-config --cflags --libs urnic-dv)
 *   urnic run --port iface:eth0 --addr 10.1.0.1/24 -- ./distribute send FILE 3
 * and on each member
 *   urnic run --port iface:eth0 --addr 10.1.0.2/24 -- ./distribute receive \
 *       SENDER FILE
 *
 * SENDER is a name or an address of the sender's kernel. The members connect to
 * its TCP port 18516, where both sides exchange what they need to know. If one
 * member ends, all end. */

#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "example_end.h"

enum {
  kTcpPort = 18516,
  kMembers = 64,      /* at most */
  kContexts = 4,      /* units in flight */
  kPackets = 64,      /* of a unit */
  kPatienceUs = 2000, /* how long to wait for answers to a unit */
  kTries = 100,       /* without an answer from a member */
  /* Of one transfer. After that, the whole unit is sent as another transfer. */
  kAttempts = 250,
};

/* What the two sides exchange over TCP. Numbers have the byte order of the
 * machine, so all hosts must have the same. */
struct offer {
  union ibv_gid gid;
  union ibv_gid group;
  uint32_t window;
  uint32_t key;
  uint32_t group_key;
  uint64_t bytes; /* of the file */
};
struct answer {
  union ibv_gid gid;
  uint32_t window;
  uint32_t key;
  uint32_t max_payload;
  uint64_t pvo;
  uint64_t contexts[kContexts];
};

static struct end self;

static void write_all(int fd, const void* from, size_t bytes) {
  while (bytes != 0) {
    const ssize_t count = write(fd, from, bytes);
    if (count <= 0) die("write", errno);
    from = (const char*)from + count;
    bytes -= (size_t)count;
  }
}

static void read_all(int fd, void* to, size_t bytes) {
  while (bytes != 0) {
    const ssize_t count = read(fd, to, bytes);
    if (count <= 0) die("the other side has ended", count == 0 ? EPIPE : errno);
    to = (char*)to + count;
    bytes -= (size_t)count;
  }
}

static union ibv_gid own_gid(void) {
  union ibv_gid gid;
  if (ibv_query_gid(self.qp->context, 1, self.at.gid_index, &gid) != 0)
    die("ibv_query_gid", errno);
  return gid;
}

static uint32_t add_peer(const union ibv_gid* gid, uint32_t window,
                         uint32_t key) {
  struct urnic_dv_peer_attr attr = {.window = window, .key = key};
  attr.ah.is_global = 1;
  attr.ah.port_num = 1;
  attr.ah.grh.sgid_index = (uint8_t)self.at.gid_index;
  attr.ah.grh.hop_limit = 1;
  attr.ah.grh.dgid = *gid;
  uint32_t peer = 0;
  const int error = urnic_dv_add_peer(self.qp, &attr, &peer);
  if (error != 0) die("urnic_dv_add_peer", error);
  return peer;
}

static uint64_t register_all(void* memory, uint64_t bytes) {
  uint64_t pvo = 0;
  const int error =
      urnic_dv_register(self.qp->context, kJob, memory, bytes, kAccess, &pvo);
  if (error != 0) die("urnic_dv_register", error);
  return pvo;
}

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --- The sender ---------------------------------------------------------- */

struct member {
  int tcp;
  uint32_t peer;
  int tries; /* since its last answer */
  struct answer is;
};

/* A part of the file, and the context that transfers it. */
struct unit {
  uint64_t context;
  uint64_t tid;
  uint64_t offset;
  uint32_t bytes;   /* 0: the context is free */
  uint64_t missing; /* members that have not completed it: a bit for each */
  int64_t due;
};

static struct member members[kMembers];
static int member_count;
static struct unit units[kContexts];
static uint32_t group_peer;
static uint32_t stride;
static uint64_t file_pvo;
static uint64_t sent, sent_again;

static uint64_t packets_in(uint32_t bytes) {
  const uint32_t count = bytes == 0 ? 1 : (bytes - 1) / stride + 1;
  return ~(uint64_t)0 >> (kPackets - count);
}

static struct urnic_rud_send command_of(const struct unit* unit) {
  return (struct urnic_rud_send){.opcode = URNIC_RUD_WRITE,
                                 .notify = URNIC_RUD_NOTIFY_SOURCE,
                                 .local_context = unit->context,
                                 .tid = unit->tid,
                                 .local_pvo = file_pvo + unit->offset,
                                 .bytes = unit->bytes,
                                 .stride = (uint16_t)stride,
                                 .packets = packets_in(unit->bytes)};
}

/* Waits for room in the FIFO: the RNIC takes a command when it can send. */
static void post_when_possible(const struct urnic_rud_send* command) {
  const struct urnic_queue_indices* const indices = self.at.send_indices;
  while (indices->producer -
             atomic_load_explicit((_Atomic uint32_t*)&indices->consumer,
                                  memory_order_acquire) ==
         self.at.send_entries) {
    progress(&self);
  }
  post(&self, command);
}

/* Sends all of the unit, as a new transfer. */
static void send_to_group(struct unit* unit) {
  unit->tid = ((unit->tid >> 8) + 1) << 8;
  unit->missing = ~(uint64_t)0 >> (64 - member_count);
  unit->due = now_us() + kPatienceUs;
  struct urnic_rud_send command = command_of(unit);
  command.peer = group_peer;
  command.context = (uint64_t)(unit - units); /* its index in the group */
  command.remote_pvo = unit->offset;
  post_when_possible(&command);
  sent += (uint64_t)__builtin_popcountll(command.packets);
}

static void begin(struct unit* unit, uint64_t offset, uint64_t end) {
  const uint64_t most = (uint64_t)stride * kPackets;
  unit->offset = offset;
  unit->bytes = (uint32_t)(end - offset < most ? end - offset : most);
  send_to_group(unit);
}

/* A command of the unit for one member: a retransmission of what it has missed,
 * or the question what that is. */
static struct urnic_rud_send to_member(struct unit* unit,
                                       const struct member* member) {
  ++unit->tid;
  struct urnic_rud_send command = command_of(unit);
  command.peer = member->peer;
  command.window = member->is.window;
  command.context = member->is.contexts[unit - units];
  command.remote_pvo = member->is.pvo + unit->offset;
  return command;
}

static void ask(struct unit* unit) {
  const int first = __builtin_ctzll(unit->missing);
  if (++members[first].tries > kTries) {
    fprintf(stderr, "member %d does not answer\n", first + 1);
    exit(1);
  }
  if ((unit->tid & 0xff) > kAttempts) return send_to_group(unit);
  struct urnic_rud_send command = to_member(unit, &members[first]);
  command.opcode = URNIC_RUD_ASK_STATE;
  command.notify = 0;
  post_when_possible(&command);
  unit->due = now_us() + kPatienceUs;
}

static void handle(const struct urnic_rud_receive* got) {
  struct unit* unit = units;
  while (unit != units + kContexts && unit->context != got->context) ++unit;
  int who = 0;
  while (who != member_count && members[who].peer != got->peer) ++who;
  /* Answers may be late, or come twice. */
  if (unit == units + kContexts || who == member_count || unit->bytes == 0 ||
      got->tid >> 8 != unit->tid >> 8 || (unit->missing >> who & 1) == 0) {
    return;
  }
  members[who].tries = 0;
  if (got->type == URNIC_RUD_GOT_COMPLETION) {
    unit->missing &= ~((uint64_t)1 << who);
    if (unit->missing == 0) unit->bytes = 0;
  } else if (got->type == URNIC_RUD_GOT_STATE && got->tid == unit->tid) {
    struct urnic_rud_send command = to_member(unit, &members[who]);
    command.packets &= ~got->arrived;
    if (command.packets == 0) return; /* the completion is in flight */
    post_when_possible(&command);
    sent_again += (uint64_t)__builtin_popcountll(command.packets);
    unit->due = now_us() + kPatienceUs;
  } else if (got->type == URNIC_RUD_GOT_REFUSAL) {
    fprintf(stderr, "member %d refuses its memory\n", who + 1);
    exit(1);
  }
}

static void send_file(uint64_t bytes) {
  uint64_t next = 0;
  int open = 0;
  do {
    open = 0;
    for (struct unit* unit = units; unit != units + kContexts; ++unit) {
      if (unit->bytes == 0 && next < bytes) {
        begin(unit, next, bytes);
        next += unit->bytes;
      } else if (unit->bytes != 0 && now_us() > unit->due) {
        ask(unit);
      }
      open += unit->bytes != 0;
    }
    struct urnic_rud_receive got;
    while (take(&self, &got, NULL)) handle(&got);
    progress(&self);
  } while (open != 0 || next < bytes);
}

/* For IPv4, and for IPv6 if the kernel has it. */
static int listen_for(int count) {
  const int yes = 1, no = 0;
  const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6,
                                    .sin6_port = htons(kTcpPort)};
  const struct sockaddr_in any4 = {.sin_family = AF_INET,
                                   .sin_port = htons(kTcpPort)};
  int fd = socket(AF_INET6, SOCK_STREAM, 0);
  const int six = fd >= 0;
  if (!six) fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) die("socket", errno);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (six) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  const int bound = six ? bind(fd, (const struct sockaddr*)&any6, sizeof(any6))
                        : bind(fd, (const struct sockaddr*)&any4, sizeof(any4));
  if (bound != 0 || listen(fd, count) != 0) die("TCP port 18516", errno);
  return fd;
}

/* Meets all members. The stride becomes the largest that all links can
 * carry. */
static void meet(int count, uint64_t bytes) {
  const int listener = listen_for(count);
  struct offer offer = {.gid = own_gid(),
                        .window = self.at.number,
                        .key = self.at.key,
                        .group_key = self.at.key ^ 0x5a5a5a5a,
                        .bytes = bytes};
  /* From the range that an organization may use as it likes. */
  static const uint8_t kGroup[16] = {[10] = 0xff, 0xff, 239, 192, 85, 1};
  memcpy(offer.group.raw, kGroup, sizeof(kGroup));
  group_peer = add_peer(&offer.group, 0, offer.group_key);
  stride = self.at.max_payload;
  for (; member_count != count; ++member_count) {
    struct member* const member = &members[member_count];
    member->tcp = accept(listener, NULL, NULL);
    if (member->tcp < 0) die("accept", errno);
    write_all(member->tcp, &offer, sizeof(offer));
    read_all(member->tcp, &member->is, sizeof(member->is));
    member->peer = add_peer(&member->is.gid, member->is.window, member->is.key);
    if (member->is.max_payload < stride) stride = member->is.max_payload;
    printf("member %d of %d\n", member_count + 1, count);
    fflush(stdout);
  }
  close(listener);
}

static int send_to_all(const char* path, int count) {
  const int file = open(path, O_RDONLY);
  struct stat stat;
  if (file < 0 || fstat(file, &stat) != 0) die(path, errno);
  const uint64_t bytes = (uint64_t)stat.st_size;
  if (bytes == 0) die("an empty file", EINVAL);
  void* const memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) die(path, errno);
  file_pvo = register_all(memory, bytes);
  for (int i = 0; i < kContexts; ++i) units[i].context = acquire(&self);
  meet(count, bytes);
  const int64_t began = now_us();
  send_file(bytes);
  const double us = (double)(now_us() - began);
  for (int i = 0; i < count; ++i) {
    const char done = 1;
    write_all(members[i].tcp, &done, 1);
  }
  printf(
      "%llu bytes to %d members in %.1f ms: %.0f MB/s each\n"
      "packets sent to the group %llu, again to single members %llu\n",
      (unsigned long long)bytes, count, us / 1000, (double)bytes / us,
      (unsigned long long)sent, (unsigned long long)sent_again);
  return 0;
}

/* --- A member ------------------------------------------------------------ */

/* Tries for 10 s, because the sender may start later. */
static int connect_to(const char* host) {
  const struct addrinfo how = {.ai_socktype = SOCK_STREAM};
  struct addrinfo* list = NULL;
  char port[8];
  snprintf(port, sizeof(port), "%d", kTcpPort);
  const int error = getaddrinfo(host, port, &how, &list);
  if (error != 0) {
    fprintf(stderr, "%s: %s\n", host, gai_strerror(error));
    exit(1);
  }
  int why = ETIMEDOUT;
  for (int i = 0; i < 100; ++i) {
    for (const struct addrinfo* at = list; at != NULL; at = at->ai_next) {
      const int fd = socket(at->ai_family, SOCK_STREAM, 0);
      if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0) {
        freeaddrinfo(list);
        return fd;
      }
      why = errno;
      if (fd >= 0) close(fd);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  die(host, why);
  return -1;
}

static int receive_file(const char* host, const char* path) {
  /* The file gets its final name when it is complete. */
  char part[4096];
  if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
    die(path, ENAMETOOLONG);
  const int file = open(part, O_RDWR | O_CREAT | O_TRUNC, 0666);
  if (file < 0) die(part, errno);
  const int tcp = connect_to(host);
  struct offer offer;
  read_all(tcp, &offer, sizeof(offer));
  int error = posix_fallocate(file, 0, (off_t)offer.bytes);
  if (error != 0) die(part, error);
  void* const memory =
      mmap(NULL, offer.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) die(path, errno);
  struct answer answer = {.gid = own_gid(),
                          .window = self.at.number,
                          .key = self.at.key,
                          .max_payload = self.at.max_payload,
                          .pvo = register_all(memory, offer.bytes)};
  const uint32_t sender = add_peer(&offer.gid, offer.window, offer.key);
  error = urnic_dv_acquire_contexts(self.qp, kContexts, answer.contexts);
  if (error != 0) die("urnic_dv_acquire_contexts", error);
  const struct urnic_dv_group_attr attr = {.group = offer.group,
                                           .peer = sender,
                                           .key = offer.group_key,
                                           .count = kContexts,
                                           .contexts = answer.contexts,
                                           .pvo = answer.pvo,
                                           .bytes = offer.bytes};
  error = urnic_dv_join_group(self.qp, &attr);
  if (error != 0) die("urnic_dv_join_group", error);
  write_all(tcp, &answer, sizeof(answer));
  char done;
  read_all(tcp, &done, 1);
  if (rename(part, path) != 0) die(path, errno);
  printf("%llu bytes in %s\n", (unsigned long long)offer.bytes, path);
  return 0;
}

int main(int argc, char** argv) {
  const int sends = argc == 4 && strcmp(argv[1], "send") == 0;
  char* end = NULL;
  const long count = sends ? strtol(argv[3], &end, 10) : 0;
  if (sends ? *end != 0 || count < 1 || count > kMembers
            : argc != 4 || strcmp(argv[1], "receive") != 0) {
    fprintf(stderr,
            "usage: %s send FILE MEMBERS (1 to 64)\n"
            "       %s receive SENDER FILE\n"
            "SENDER: a name or address of the sender's kernel, not its RNIC\n",
            argv[0], argv[0]);
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  struct ibv_pd* const pd = open_device();
  open_end(&self, pd);
  const int result =
      sends ? send_to_all(argv[2], (int)count) : receive_file(argv[2], argv[3]);
  close_end(&self);
  close_device(pd);
  return result;
}
