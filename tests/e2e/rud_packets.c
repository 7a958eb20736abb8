/* A window of RUD whose slots are longer than the link's packets. Sends one of
 * BYTES bytes to a peer without an RNIC (window 5, key 6), and waits for one
 * from it.
 *
 *   rud_packets PEER BYTES
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <urnic/urnic_dv.h>

static void die(const char* what, int error) {
  fprintf(stderr, "%s: %s\n", what, strerror(error));
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) die("usage: rud_packets PEER BYTES", EINVAL);
  struct ibv_device** const list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) die("no device", ENODEV);
  struct ibv_context* const context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (context == NULL) die("ibv_open_device", errno);
  struct ibv_pd* const pd = ibv_alloc_pd(context);
  if (pd == NULL) die("ibv_alloc_pd", errno);
  const struct urnic_dv_window_attr how = {
      .job = 1, .send_entries = 4, .receive_entries = 4, .slot_bytes = 60000};
  struct urnic_dv_window at;
  struct ibv_qp* const window = urnic_dv_create_window(pd, &how, &at);
  if (window == NULL) die("urnic_dv_create_window", errno);
  struct urnic_dv_peer_attr attr = {.window = 5, .key = 6};
  attr.ah.is_global = 1;
  attr.ah.port_num = 1;
  attr.ah.grh.sgid_index = (uint8_t)at.gid_index;
  attr.ah.grh.dgid.raw[10] = attr.ah.grh.dgid.raw[11] = 0xff;
  if (inet_pton(AF_INET, argv[1], &attr.ah.grh.dgid.raw[12]) != 1)
    die(argv[1], EINVAL);
  uint32_t peer = 0;
  const int error = urnic_dv_add_peer(window, &attr, &peer);
  if (error != 0) die("urnic_dv_add_peer", error);
  printf("%u %u\n", at.number, at.key);
  fflush(stdout);

  const uint32_t bytes = (uint32_t)atoi(argv[2]);
  for (uint32_t i = 0; i < bytes; ++i) at.send_slots[i] = (uint8_t)(i % 251);
  at.sends[0] = (struct urnic_rud_send){
      .opcode = URNIC_RUD_PACKET, .peer = peer, .window = 5, .bytes = bytes};
  __atomic_store_n(&at.send_indices->producer, 1, __ATOMIC_RELEASE);
  urnic_dv_ring(window);
  while (__atomic_load_n(&at.receives[0].type, __ATOMIC_ACQUIRE) == 0)
    urnic_dv_progress(window);
  const uint32_t got = at.receives[0].bytes;
  for (uint32_t i = 0; i < got; ++i) {
    if (at.receive_slots[i] != (uint8_t)(i % 241)) die("a wrong byte", EIO);
  }
  printf("%u bytes\n", got);
  ibv_destroy_qp(window);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  return 0;
}
