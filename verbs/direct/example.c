/* Two RUD windows on one device. One writes 4000 bytes into the memory of the
 * other, and then sends it a packet. There is no upper layer, so lost packets
 * are not retransmitted.
 *
 *   cc -o example example.c $(pkg-config --cflags --libs urnic-dv)
 *   urnic run --port loop --addr 10.9.0.1/24 -- ./example */

#include "example_end.h"

enum { kBytes = 4000 };

int main(void) {
  static struct end a, b;
  struct ibv_pd* const pd = open_device();
  open_end(&a, pd);
  open_end(&b, pd);
  const uint32_t to_b = introduce(&a, &b);
  introduce(&b, &a);

  memset(a.memory, 'x', kBytes);
  const struct urnic_rud_send write = {
      .opcode = URNIC_RUD_WRITE,
      .notify = URNIC_RUD_NOTIFY_SOURCE,
      .peer = to_b,
      .window = b.at.number,
      .context = b.context,
      .local_context = a.context,
      .tid = 1 << 8, /* the first transfer on these contexts */
      .local_pvo = a.pvo,
      .remote_pvo = b.pvo,
      .bytes = kBytes,
      .stride = kStride,
      .packets = packets_of(kBytes)};
  post(&a, &write);
  receive(&a, URNIC_RUD_GOT_COMPLETION, NULL);
  if (memcmp(a.memory, b.memory, kBytes) != 0) {
    fprintf(stderr, "complete, and not all bytes\n");
    return 1;
  }
  printf("wrote %d bytes in 4 packets\n", kBytes);

  static const char kText[] = "there they are";
  const struct urnic_rud_send packet =
      packet_of(to_b, &b, kText, sizeof(kText));
  post(&a, &packet);
  char text[URNIC_RUD_INLINE];
  const struct urnic_rud_receive got = receive(&b, URNIC_RUD_GOT_PACKET, text);
  printf("a packet of %u bytes: %s\n", got.bytes, text);

  close_end(&a);
  close_end(&b);
  close_device(pd);
  return 0;
}
