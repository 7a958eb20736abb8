/* A thread sleeps until 64 KB have been written into its memory. The program
 * measures how long that takes: from before the write is posted until the
 * sleeper has seen that the transfer is complete. It compares three modes: the
 * thread is woken when the transfer is complete; it is woken early, by the
 * first packet; or it polls and does not sleep. The argument simulates a slow
 * network: it is the time in us between the first packet and the others. This
 * time is not counted, since the thread that waits for it may oversleep.
 *
 *   cc -o wake_example wake_example.c -lpthread $(pkg-config --cflags --libs
 *      urnic-dv)
 *   URNIC_PORTS='ring:t:a|10.9.0.1/24;ring:t:b|10.9.0.2/24' urnic run --
 *      ./wake_example
 */

#define _POSIX_C_SOURCE 200809L

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "example_end.h"

enum {
  kPackets = 64,
  kBytes = kStride * kPackets, /* the whole memory */
  kRuns = 300,                 /* per mode */
  kModes = 3,
};
static const char* const kNames[kModes] = {"polls", "woken when complete",
                                           "woken at the first packet"};
enum { kPolls, kLate, kEarly };

static struct end from, to;
static uint32_t to_peer;
static sem_t begins, ready, ended;
static int mode;
static double at_end;

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct urnic_dv_handler* bind_handler(void) {
  const struct urnic_dv_handler_attr none = {0};
  struct urnic_dv_handler* const handler =
      urnic_dv_create_handler(to.qp->context, &none);
  if (handler == NULL) die("urnic_dv_create_handler", errno);
  return handler;
}

static void await_transfer(struct urnic_dv_handler* handler) {
  struct pollfd fd = {.fd = handler->fd, .events = POLLIN};
  struct urnic_dv_wake_attr attr = {.count = 1, .handlers = &handler};
  if (mode == kEarly) attr.flags = URNIC_DV_WAKE_EARLY;
  if (mode == kPolls) attr.count = 0;
  int error = urnic_dv_bind_handlers(to.qp, &attr);
  if (error == 0) error = urnic_dv_arm_handler(handler);
  if (error != 0) die("urnic_dv_arm_handler", error);
  sem_post(&ready);
  if (mode != kPolls && poll(&fd, 1, -1) != 1) die("poll", errno);
  receive(&to, URNIC_RUD_GOT_TRANSFER, NULL);
  at_end = now_us();
}

static void* sleeper(void* unused) {
  (void)unused;
  struct urnic_dv_handler* const handler = bind_handler();
  for (;;) {
    sem_wait(&begins);
    await_transfer(handler);
    sem_post(&ended);
  }
  return NULL;
}

static void sleep_us(long us) {
  nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void write_packets(uint64_t tid, uint64_t packets) {
  const uint32_t place =
      from.at.send_indices->producer & (from.at.send_entries - 1);
  struct urnic_rud_send* const command = &from.at.sends[place];
  post(&from, &(struct urnic_rud_send){.opcode = URNIC_RUD_WRITE,
                                       .notify = URNIC_RUD_NOTIFY_TARGET,
                                       .peer = to_peer,
                                       .window = to.at.number,
                                       .context = to.context,
                                       .local_context = from.context,
                                       .tid = tid,
                                       .local_pvo = from.pvo,
                                       .remote_pvo = to.pvo,
                                       .bytes = kBytes,
                                       .stride = kStride,
                                       .packets = packets});
  while (__atomic_load_n(&command->status, __ATOMIC_ACQUIRE) == URNIC_RUD_WAITS)
    urnic_dv_progress(from.qp);
  if (command->status != URNIC_RUD_SENT) die("urnic_rud_send", EIO);
}

/* Returns the time at which the last packets were posted. */
static double write_once(uint64_t transfer, long gap_us) {
  uint64_t tid = transfer << 8;
  uint64_t packets = UINT64_MAX;
  if (gap_us != 0) {
    write_packets(tid++, 1);
    packets &= ~(uint64_t)1;
    sleep_us(gap_us);
  }
  const double begin = now_us();
  write_packets(tid, packets);
  return begin;
}

static struct ibv_pd* domain_of(struct ibv_context* device) {
  struct ibv_pd* const pd = ibv_alloc_pd(device);
  if (pd == NULL) die("ibv_alloc_pd", errno);
  return pd;
}

static int compare(const void* a, const void* b) {
  const double left = *(const double*)a;
  const double right = *(const double*)b;
  return (left > right) - (left < right);
}

int main(int argc, char** argv) {
  const long gap_us = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  int count = 0;
  struct ibv_device** const list = ibv_get_device_list(&count);
  if (list == NULL || count == 0) die("no device", ENODEV);
  struct ibv_context* const first = ibv_open_device(list[0]);
  struct ibv_context* const last =
      count == 1 ? first : ibv_open_device(list[count - 1]);
  if (first == NULL || last == NULL) die("ibv_open_device", errno);
  open_end(&from, domain_of(first));
  open_end(&to, domain_of(last));
  to_peer = introduce(&from, &to);
  introduce(&to, &from);
  sem_init(&begins, 0, 0);
  sem_init(&ready, 0, 0);
  sem_init(&ended, 0, 0);
  pthread_t thread;
  if (pthread_create(&thread, NULL, sleeper, NULL) != 0) die("thread", EAGAIN);
  static double times[kModes][kRuns];
  for (int run = 0; run < kRuns * kModes; ++run) {
    mode = run % kModes;
    sem_post(&begins);
    sem_wait(&ready);
    /* Wait until all threads sleep. */
    sleep_us(3000);
    const double begin = write_once((uint64_t)run + 1, gap_us);
    sem_wait(&ended);
    times[mode][run / kModes] = at_end - begin;
  }
  printf("64 KB, us              10 %%   median     90 %%\n");
  for (int m = 0; m < kModes; ++m) {
    qsort(times[m], kRuns, sizeof(double), compare);
    printf("%-25s %6.0f %6.0f %6.0f\n", kNames[m], times[m][kRuns / 10],
           times[m][kRuns / 2], times[m][kRuns * 9 / 10]);
  }
  return 0;
}
