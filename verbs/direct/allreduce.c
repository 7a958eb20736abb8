/* An allreduce on a ring: each rank has a vector, and all ranks want the sum of
 * these vectors, or another reduction. The transfers have one end in memory
 * (half RDMA of document C): the sender's RNIC reads registered memory; at the
 * receiver, a packet stays in the receive FIFO, and the program reduces it from
 * there. It takes the packets in the order in which they arrive.
 *
 *   cc -o allreduce allreduce.c $(pkg-config --cflags --libs urnic-dv) -pthread
 *   urnic run --port loop --addr 10.9.0.1/24 -- ./allreduce
 *
 * The vector has one segment per rank, and a segment consists of chunks. In the
 * first phase, partial results go round the ring and each rank adds its own
 * values, until each rank has one segment that is completely reduced. In the
 * second phase, the reduced segments go round. A chunk that has been reduced is
 * sent on at once: it does not wait for the rest of its segment. The program
 * compares this with chunks as long as a segment, which are only sent on when
 * all of the segment has arrived.
 *
 * The ranks are threads, so that one command starts all of them. Each has an
 * endpoint, and they share no data while they work. Ranks that are processes
 * would only differ in this: they would have to tell each other their
 * addresses, and when they have finished. */

#define _POSIX_C_SOURCE 200809L

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <urnic/urnic_ep.h>

#include "allreduce_types.h"
#include "example_end.h"

enum {
  kRanks = 64,      /* at most */
  kDevices = 8,     /* at most */
  kWarmUps = 2,     /* per way; checked, but not measured */
  kEvents = 32,     /* per poll */
  kIdlePolls = 200, /* before a rank goes to sleep */
  kLine = 64,
};

/* The two ways: chunks as long as a packet, and as long as a segment. */
enum { kPipelined, kWhole, kWays };
static const char* const kWayNames[kWays] = {"packet by packet",
                                             "whole segments"};

/* --- Options ------------------------------------------------------------- */

static int op = kSum;
static const struct type* type = &kTypeTable[2];
static int ranks = 4;
static uint32_t elements = 1 << 18;
static uint32_t repetitions = 20;

static void usage(FILE* to, const char* program) {
  fprintf(to,
          "usage: %s [OPTIONS]\n"
          "Reduces the vectors of some ranks, so that each has the result.\n"
          "  --op OP       sum, min or max (sum)\n"
          "  --type TYPE   int32, int64, float or double (float)\n"
          "  --ranks N     2 to %d (%d)\n"
          "  --count N     elements of a vector (%u)\n"
          "  --repeat N    how often each way is measured (%u)\n"
          "  --help        this text\n",
          program, kRanks, ranks, elements, repetitions);
}

static uint32_t parse_number(const char* option, const char* text,
                             unsigned long least, unsigned long most) {
  char* end = NULL;
  errno = 0;
  const unsigned long value = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 ||
      value < least || value > most) {
    fprintf(stderr, "--%s %s: must be a number from %lu to %lu\n", option, text,
            least, most);
    exit(2);
  }
  return (uint32_t)value;
}

static int find_op(const char* name) {
  for (int i = 0; i < kOps; ++i) {
    if (strcmp(name, kOpNames[i]) == 0) return i;
  }
  fprintf(stderr, "--op %s: must be sum, min or max\n", name);
  exit(2);
}

static const struct type* find_type(const char* name) {
  for (int i = 0; i < kTypes; ++i) {
    if (strcmp(name, kTypeTable[i].name) == 0) return &kTypeTable[i];
  }
  fprintf(stderr, "--type %s: must be int32, int64, float or double\n", name);
  exit(2);
}

static void parse(int argc, char** argv) {
  static const struct option kOptions[] = {
      {"op", required_argument, NULL, 'o'},
      {"type", required_argument, NULL, 't'},
      {"ranks", required_argument, NULL, 'n'},
      {"count", required_argument, NULL, 'c'},
      {"repeat", required_argument, NULL, 'r'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0}};
  int option = 0;
  while ((option = getopt_long(argc, argv, "", kOptions, NULL)) != -1) {
    switch (option) {
      case 'o':
        op = find_op(optarg);
        break;
      case 't':
        type = find_type(optarg);
        break;
      case 'n':
        ranks = (int)parse_number("ranks", optarg, 2, kRanks);
        break;
      case 'c':
        elements = parse_number("count", optarg, 1, 1 << 26);
        break;
      case 'r':
        repetitions = parse_number("repeat", optarg, 1, 100000);
        break;
      case 'h':
        usage(stdout, argv[0]);
        exit(0);
      default:
        usage(stderr, argv[0]);
        exit(2);
    }
  }
  if (optind != argc) {
    fprintf(stderr, "%s: what is that?\n", argv[optind]);
    usage(stderr, argv[0]);
    exit(2);
  }
}

/* --- Chunks -------------------------------------------------------------- */

enum { kReduce, kGather, kPhases, kToken = kPhases };

/* In front of the elements of each message. */
struct header {
  uint32_t repetition; /* counts those of both ways */
  uint8_t phase;
  uint8_t reserved;
  uint16_t step; /* how many ranks had it before; token: its round */
  uint32_t chunk;
  uint32_t reserved_too; /* aligns the elements */
};

/* The layout of a vector in memory. Each chunk has a header in front, since a
 * message is sent from contiguous memory. There is one such vector per phase: a
 * chunk that is being sent belongs to the endpoint until the send is done, and
 * by then the same chunk of the other phase may have arrived. The first vector
 * has the rank's own values and partial results; the second has the result. */
struct layout {
  uint32_t chunk_elements;
  uint32_t segment_chunks;
  uint32_t chunks; /* of the vector */
  size_t stride;
};
static struct layout layouts[kWays];
static uint32_t segment_elements;

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static struct layout layout_of(uint32_t chunk_elements) {
  struct layout layout;
  layout.chunk_elements = smaller(chunk_elements, segment_elements);
  layout.segment_chunks = (segment_elements - 1) / layout.chunk_elements + 1;
  layout.chunks = layout.segment_chunks * (uint32_t)ranks;
  const size_t bytes =
      sizeof(struct header) + (size_t)layout.chunk_elements * type->bytes;
  layout.stride = (bytes + kLine - 1) / kLine * kLine;
  return layout;
}

/* Index of the chunk's first element. */
static uint64_t first_of(const struct layout* layout, uint32_t chunk) {
  return (uint64_t)(chunk / layout->segment_chunks) * segment_elements +
         (uint64_t)(chunk % layout->segment_chunks) * layout->chunk_elements;
}

/* The last chunks may be short, or empty. */
static uint32_t count_of(const struct layout* layout, uint32_t chunk) {
  const uint64_t first = first_of(layout, chunk);
  const uint32_t behind =
      chunk % layout->segment_chunks * layout->chunk_elements;
  if (first >= elements) return 0;
  return smaller(smaller(layout->chunk_elements, segment_elements - behind),
                 (uint32_t)(elements - first));
}

/* --- A rank -------------------------------------------------------------- */

struct rank {
  int number;
  pthread_t thread;
  struct urnic_ep* endpoint;
  uint32_t left, right; /* peers: receives from left, sends to right */
  char* memory;         /* two vectors */
  uint64_t pvo;
  double* times_us[kWays];
  uint64_t wrong; /* elements */

  /* State of this repetition. */
  uint32_t repetition; /* from 1 */
  const struct layout* layout;
  uint32_t missing; /* chunks that have not arrived */
  /* Chunks that may be sent, in order, with the phase in the lowest bit. */
  uint32_t* ready;
  uint32_t ready_count, ready_sent;

  uint32_t under_way; /* sends that are not done */
  uint32_t tokens[2]; /* latest repetition whose token arrived, per round */
  uint32_t idle_polls;
};

static struct rank all[kRanks];
static atomic_int finished;

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static size_t offset_of(const struct rank* self, int phase, uint32_t chunk) {
  return ((size_t)phase * self->layout->chunks + chunk) * self->layout->stride;
}

static char* elements_at(const struct rank* self, int phase, uint32_t chunk) {
  return self->memory + offset_of(self, phase, chunk) + sizeof(struct header);
}

/* Sends as much of what is ready as the endpoint accepts. The rest follows when
 * other sends are done. */
static void send_ready(struct rank* self) {
  for (; self->ready_sent != self->ready_count; ++self->ready_sent) {
    const uint32_t what = self->ready[self->ready_sent];
    const uint32_t chunk = what >> 1;
    const uint64_t bytes =
        sizeof(struct header) +
        (uint64_t)count_of(self->layout, chunk) * type->bytes;
    const int error = urnic_ep_send(
        self->endpoint, self->right,
        self->pvo + offset_of(self, (int)(what & 1), chunk), bytes, what);
    if (error == EAGAIN) return;
    if (error == EMSGSIZE)
      die("a segment as one message: fewer --count", error);
    if (error != 0) die("urnic_ep_send", error);
    ++self->under_way;
  }
}

/* Sends a chunk on to the right. */
static void forward(struct rank* self, int phase, uint32_t step,
                    uint32_t chunk) {
  struct header* const header =
      (struct header*)(self->memory + offset_of(self, phase, chunk));
  *header = (struct header){.repetition = self->repetition,
                            .phase = (uint8_t)phase,
                            .step = (uint16_t)step,
                            .chunk = chunk};
  self->ready[self->ready_count++] = chunk << 1 | (uint32_t)phase;
  send_ready(self);
}

static void wrong_message(const char* what) {
  fprintf(stderr, "a message with a wrong %s\n", what);
  exit(1);
}

static void on_chunk(struct rank* self, const struct header* header,
                     const char* got, uint64_t bytes) {
  const uint32_t chunk = header->chunk;
  const uint32_t last_step = (uint32_t)ranks - 2;
  if (header->repetition != self->repetition) wrong_message("repetition");
  if (header->phase >= kPhases) wrong_message("phase");
  if (chunk >= self->layout->chunks) wrong_message("chunk");
  if (header->step > last_step) wrong_message("step");
  const uint32_t count = count_of(self->layout, chunk);
  if (bytes != (uint64_t)count * type->bytes) wrong_message("length");
  --self->missing;
  if (header->phase == kGather) {
    memcpy(elements_at(self, kGather, chunk), got, bytes);
    if (header->step != last_step)
      forward(self, kGather, header->step + 1u, chunk);
    return;
  }
  /* The last rank that adds has the result. */
  const int is_result = header->step == last_step;
  type->reduce[op](elements_at(self, is_result ? kGather : kReduce, chunk),
                   elements_at(self, kReduce, chunk), got, count);
  if (is_result) {
    forward(self, kGather, 0, chunk);
  } else {
    forward(self, kReduce, header->step + 1u, chunk);
  }
}

static void on_event(struct rank* self, const struct urnic_ep_event* event) {
  static const char* const kStatus[] = {
      [URNIC_EP_BAD_LOCAL] = "memory of ours is not accessible",
      [URNIC_EP_REFUSED] = "memory of the peer is not accessible",
      [URNIC_EP_WINDOW_FAILED] = "the window has failed",
      [URNIC_EP_PEER_LOST] = "the peer is lost",
      [URNIC_EP_CANCELED] = "the peer was removed",
      [URNIC_EP_INVALID] = "the RNIC does not execute it"};
  if (event->type == URNIC_EP_DONE) {
    if (event->status != URNIC_EP_OK) {
      const size_t known = sizeof(kStatus) / sizeof(kStatus[0]);
      const char* const why =
          event->status < known ? kStatus[event->status] : NULL;
      fprintf(stderr, "rank %d: a send to the next rank: %s (status %u)\n",
              self->number, why != NULL ? why : "unknown", event->status);
      exit(1);
    }
    --self->under_way;
    return;
  }
  struct header header;
  if (event->peer != self->left || event->bytes < sizeof(header))
    wrong_message("sender or length");
  memcpy(&header, event->data, sizeof(header));
  if (header.phase == kToken) {
    if (header.step > 1) wrong_message("round");
    self->tokens[header.step] = header.repetition;
  } else {
    on_chunk(self, &header, (const char*)event->data + sizeof(header),
             event->bytes - sizeof(header));
  }
}

/* Handles events, or goes to sleep if there were none for some time. A message
 * is valid until the next poll; by then it has been reduced. */
static void progress_rank(struct rank* self, int timeout_ms) {
  struct urnic_ep_event events[kEvents];
  const uint32_t count = urnic_ep_poll(self->endpoint, events, kEvents);
  for (uint32_t i = 0; i < count; ++i) on_event(self, &events[i]);
  if (count != 0) {
    send_ready(self);
    urnic_ep_flush(self->endpoint);
    self->idle_polls = 0;
  } else if (++self->idle_polls < kIdlePolls) {
    sched_yield(); /* there may be more ranks than CPUs */
  } else {
    const int error = urnic_ep_wait(self->endpoint, timeout_ms);
    if (error != 0 && error != ETIMEDOUT && error != EINTR)
      die("urnic_ep_wait", error);
  }
}

/* --- Repetitions --------------------------------------------------------- */

static void send_token(struct rank* self, uint16_t round) {
  const struct header token = {
      .repetition = self->repetition, .phase = kToken, .step = round};
  const int error = urnic_ep_send_inline(self->endpoint, self->right, &token,
                                         sizeof(token), kToken);
  if (error != 0) die("urnic_ep_send_inline", error);
  ++self->under_way;
}

static void await_token(struct rank* self, uint16_t round) {
  while (self->tokens[round] != self->repetition) progress_rank(self, -1);
}

/* A token goes round twice: after the first round all ranks are ready, and
 * after the second all of them know this. So no chunk of a repetition arrives
 * before its rank is ready for it. But the token of the next repetition may
 * arrive during this one. */
static void start_together(struct rank* self) {
  if (self->number == 0) {
    send_token(self, 0);
    await_token(self, 0);
    send_token(self, 1);
  } else {
    await_token(self, 0);
    send_token(self, 0);
    await_token(self, 1);
    if (self->number + 1 != ranks) send_token(self, 1);
  }
}

static void prepare(struct rank* self, int way) {
  ++self->repetition;
  self->layout = &layouts[way];
  self->ready_count = self->ready_sent = 0;
  self->missing = 2 * (self->layout->chunks - self->layout->segment_chunks);
  for (uint32_t chunk = 0; chunk < self->layout->chunks; ++chunk) {
    type->fill(elements_at(self, kReduce, chunk), self->number,
               first_of(self->layout, chunk) + self->repetition,
               count_of(self->layout, chunk));
  }
}

/* The operation that is measured. */
static void allreduce(struct rank* self) {
  const uint32_t count = self->layout->segment_chunks;
  for (uint32_t i = 0; i < count; ++i)
    forward(self, kReduce, 0, (uint32_t)self->number * count + i);
  while (self->missing != 0 || self->under_way != 0) progress_rank(self, -1);
}

static void check(struct rank* self) {
  for (uint32_t chunk = 0; chunk < self->layout->chunks; ++chunk) {
    self->wrong += type->wrong(elements_at(self, kGather, chunk),
                               first_of(self->layout, chunk) + self->repetition,
                               count_of(self->layout, chunk));
  }
}

static void* run_rank(void* argument) {
  struct rank* const self = argument;
  /* In turn, so that other load on the machine affects both ways alike. */
  for (uint32_t i = 0; i < repetitions + kWarmUps; ++i) {
    for (int way = 0; way < kWays; ++way) {
      prepare(self, way);
      start_together(self);
      const double begin = now_us();
      allreduce(self);
      if (i >= kWarmUps) self->times_us[way][i - kWarmUps] = now_us() - begin;
      check(self);
    }
  }
  /* Our completions may have been lost: answer until all ranks have
   * finished. */
  atomic_fetch_add(&finished, 1);
  while (atomic_load(&finished) != ranks) progress_rank(self, 1);
  return NULL;
}

/* --- Beginning and end --------------------------------------------------- */

static void* allocate(size_t count, size_t bytes) {
  void* const memory = calloc(count, bytes);
  if (memory == NULL) die("memory for the vectors", ENOMEM);
  return memory;
}

/* Only a window tells how long its packets are, not an endpoint. */
static uint32_t packet_bytes(struct ibv_context* device) {
  struct ibv_pd* const pd = ibv_alloc_pd(device);
  if (pd == NULL) die("ibv_alloc_pd", errno);
  const struct urnic_dv_window_attr attr = {.job = kJob};
  struct urnic_dv_window at;
  struct ibv_qp* const window = urnic_dv_create_window(pd, &attr, &at);
  if (window == NULL) die("urnic_dv_create_window", errno);
  ibv_destroy_qp(window);
  ibv_dealloc_pd(pd);
  return at.max_payload;
}

static int open_devices(struct ibv_context** devices) {
  int count = 0;
  struct ibv_device** const list = ibv_get_device_list(NULL);
  for (int i = 0; list != NULL && list[i] != NULL && count < kDevices; ++i) {
    if (list[i]->transport_type != IBV_TRANSPORT_IB) continue; /* iWARP */
    devices[count] = ibv_open_device(list[i]);
    if (devices[count++] == NULL) die("ibv_open_device", errno);
  }
  if (list != NULL) ibv_free_device_list(list);
  if (count == 0) {
    fprintf(stderr, "no RDMA device: urnic run --port loop -- PROGRAM\n");
    exit(1);
  }
  return count;
}

static void open_rank(struct rank* self, struct ibv_context* device) {
  const struct urnic_ep_nic nic = {.context = device, .gid_index = -1};
  const struct urnic_ep_attr attr = {.job = kJob};
  self->endpoint = urnic_ep_open(&nic, 1, &attr);
  if (self->endpoint == NULL) die("urnic_ep_open", errno);
  size_t bytes = 0;
  uint32_t chunks = 0;
  for (int way = 0; way < kWays; ++way) {
    const size_t needed = kPhases * layouts[way].chunks * layouts[way].stride;
    if (needed > bytes) bytes = needed;
    if (layouts[way].chunks > chunks) chunks = layouts[way].chunks;
    self->times_us[way] = allocate(repetitions, sizeof(double));
  }
  self->memory = aligned_alloc(kLine, bytes);
  if (self->memory == NULL) die("memory for the vectors", ENOMEM);
  memset(self->memory, 0, bytes);
  self->ready = allocate(kPhases * (size_t)chunks, sizeof(uint32_t));
  const int error = urnic_ep_register(self->endpoint, self->memory, bytes,
                                      kAccess, &self->pvo);
  if (error != 0) die("urnic_ep_register", error);
}

static uint32_t add(struct rank* self, struct rank* other) {
  char address[URNIC_EP_ADDRESS_BYTES];
  size_t bytes = sizeof(address);
  int error = urnic_ep_address(other->endpoint, address, &bytes);
  if (error != 0) die("urnic_ep_address", error);
  uint32_t peer = 0;
  error = urnic_ep_add_peer(self->endpoint, address, bytes, &peer);
  if (error != 0) die("urnic_ep_add_peer", error);
  return peer;
}

static void close_rank(struct rank* self) {
  urnic_ep_deregister(self->endpoint, self->pvo);
  urnic_ep_close(self->endpoint);
  free(self->memory);
  free(self->ready);
  for (int way = 0; way < kWays; ++way) free(self->times_us[way]);
}

static int compare(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

/* An allreduce takes until the last rank has the result. Returns the median. */
static double print_times(int way) {
  double* const times = all[0].times_us[way];
  for (uint32_t i = 0; i < repetitions; ++i) {
    for (int rank = 1; rank < ranks; ++rank) {
      if (all[rank].times_us[way][i] > times[i])
        times[i] = all[rank].times_us[way][i];
    }
  }
  qsort(times, repetitions, sizeof(double), compare);
  const double median =
      (times[(repetitions - 1) / 2] + times[repetitions / 2]) / 2;
  printf("%-17s %10llu %10.0f %10.0f %10.0f\n", kWayNames[way],
         (unsigned long long)layouts[way].chunk_elements * type->bytes,
         times[0], median, times[repetitions - 1]);
  return median;
}

static int report(void) {
  uint64_t wrong = 0, again = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    struct urnic_ep_stats stats;
    if (urnic_ep_query_stats(all[rank].endpoint, &stats) == 0)
      again += stats.packets_again;
    if (all[rank].wrong == 0) continue;
    fprintf(stderr, "rank %d: %llu wrong elements\n", rank,
            (unsigned long long)all[rank].wrong);
    wrong += all[rank].wrong;
  }
  if (wrong != 0) return 1;
  printf("%-17s %10s %10s %10s %10s\n", "us", "chunk[B]", "least", "median",
         "most");
  const double pipelined = print_times(kPipelined);
  const double whole = print_times(kWhole);
  printf("whole segments / packet by packet: %.2f\n", whole / pipelined);
  printf("packets sent again: %llu\n", (unsigned long long)again);
  printf("all results are right: %d ranks, %u allreduces\n", ranks,
         all[0].repetition);
  return 0;
}

int main(int argc, char** argv) {
  parse(argc, argv);
  expect(op, ranks);
  struct ibv_context* devices[kDevices];
  const int device_count = open_devices(devices);
  uint32_t packet = UINT32_MAX;
  for (int i = 0; i < device_count; ++i)
    packet = smaller(packet, packet_bytes(devices[i]));
  segment_elements = (elements - 1) / (uint32_t)ranks + 1;
  layouts[kPipelined] =
      layout_of((packet - (uint32_t)sizeof(struct header)) / type->bytes);
  layouts[kWhole] = layout_of(segment_elements);
  printf("%s of %u %s, %d ranks, %d device%s, %u times\n", kOpNames[op],
         elements, type->name, ranks, device_count,
         device_count == 1 ? "" : "s", repetitions);
  for (int i = 0; i < ranks; ++i) {
    all[i].number = i;
    open_rank(&all[i], devices[i % device_count]);
  }
  for (int i = 0; i < ranks; ++i) {
    /* With two ranks, the other one is on both sides. */
    all[i].right = add(&all[i], &all[(i + 1) % ranks]);
    all[i].left =
        ranks == 2 ? all[i].right : add(&all[i], &all[(i + ranks - 1) % ranks]);
  }
  for (int i = 0; i < ranks; ++i) {
    const int error = pthread_create(&all[i].thread, NULL, run_rank, &all[i]);
    if (error != 0) die("pthread_create", error);
  }
  for (int i = 0; i < ranks; ++i) pthread_join(all[i].thread, NULL);
  const int result = report();
  for (int i = 0; i < ranks; ++i) close_rank(&all[i]);
  for (int i = 0; i < device_count; ++i) ibv_close_device(devices[i]);
  return result;
}
