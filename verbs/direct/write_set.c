/* A set of writes, and a signal that all of them are in memory (conditional
 * operations of document C). Everything is posted at once: the RNIC counts the
 * completions of the writes, and holds the packet until all are complete. The
 * program that writes does nothing in between.
 *
 *   cc -o write_set write_set.c $(pkg-config --cflags --libs urnic-dv)
 *   urnic run --port loop --addr 10.9.0.1/24 -- ./write_set
 *
 * Lost packets are not retransmitted. */

#include "example_end.h"

enum { kWrites = 8, kBytes = kMemoryBytes / kWrites, kCounter = 1 };

int main(void) {
  static struct end a, b;
  struct ibv_pd* const pd = open_device();
  open_end(&a, pd);
  open_end(&b, pd);
  const uint32_t to_b = introduce(&a, &b);
  introduce(&b, &a);
  for (int i = 0; i < kMemoryBytes; ++i) a.memory[i] = (char)(i % 251);

  static const char kText[] = "all of it is there";
  struct urnic_rud_send signal = packet_of(to_b, &b, kText, sizeof(kText));
  signal.condition = kCounter;
  signal.value = kWrites;
  post(&a, &signal);
  for (uint64_t i = 0; i < kWrites; ++i) {
    /* Each write has its own contexts, so they may complete in any order. */
    const struct urnic_rud_send write = {.opcode = URNIC_RUD_WRITE,
                                         .flags = URNIC_RUD_COUNT_ONLY,
                                         .notify = URNIC_RUD_NOTIFY_SOURCE,
                                         .peer = to_b,
                                         .window = b.at.number,
                                         .context = acquire(&b),
                                         .local_context = acquire(&a),
                                         .tid = 1 << 8,
                                         .local_pvo = a.pvo + i * kBytes,
                                         .remote_pvo = b.pvo + i * kBytes,
                                         .bytes = kBytes,
                                         .stride = kStride,
                                         .counter = kCounter,
                                         .packets = packets_of(kBytes)};
    post(&a, &write);
  }

  char text[URNIC_RUD_INLINE];
  receive(&b, URNIC_RUD_GOT_PACKET, text);
  if (memcmp(a.memory, b.memory, kMemoryBytes) != 0) {
    fprintf(stderr, "the signal came before the bytes\n");
    return 1;
  }
  const struct urnic_rud_send ask = {.opcode = URNIC_RUD_ASK_COUNTER,
                                     .counter = kCounter};
  post(&a, &ask);
  const struct urnic_rud_receive counter =
      receive(&a, URNIC_RUD_GOT_COUNTER, NULL);
  printf("%llu writes of %d bytes, then: %s\n",
         (unsigned long long)counter.value, kBytes, text);
  close_end(&a);
  close_end(&b);
  close_device(pd);
  return 0;
}
