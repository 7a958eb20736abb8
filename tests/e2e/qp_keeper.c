/* A verbs program that never destroys its queue pairs: when its device has
 * failed, it keeps it from recovering. Its one queue pair is connected to
 * itself.
 *
 *   urnic run .. -- qp_keeper [stubborn]
 *
 * Prints "ready", and waits for a signal. A stubborn one ignores SIGTERM. */

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kGidIndex = 3 }; /* the first IPv4 address, as RoCEv2 */

static void die(const char* what) {
  perror(what);
  exit(1);
}

static struct ibv_context* open_device(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) die("ibv_get_device_list");
  struct ibv_context* context = ibv_open_device(list[0]);
  if (context == NULL) die("ibv_open_device");
  ibv_free_device_list(list);
  return context;
}

static struct ibv_qp* make_qp(struct ibv_context* context) {
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 4, NULL, NULL, 0);
  if (pd == NULL || cq == NULL) die("ibv_alloc_pd or ibv_create_cq");
  struct ibv_qp_init_attr init = {.send_cq = cq,
                                  .recv_cq = cq,
                                  .cap = {.max_send_wr = 1,
                                          .max_recv_wr = 1,
                                          .max_send_sge = 1,
                                          .max_recv_sge = 1},
                                  .qp_type = IBV_QPT_RC};
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  if (qp == NULL) die("ibv_create_qp");
  return qp;
}

static void connect_to_itself(struct ibv_qp* qp) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = qp->qp_num,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1,
                  .port_num = 1,
                  .grh = {.sgid_index = kGidIndex, .hop_limit = 64}}};
  if (ibv_query_gid(qp->context, 1, kGidIndex, &rtr.ah_attr.grh.dgid) != 0)
    die("ibv_query_gid");
  if (ibv_modify_qp(qp, &init,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                        IBV_QP_ACCESS_FLAGS) != 0 ||
      ibv_modify_qp(qp, &rtr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                        IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) !=
          0) {
    die("ibv_modify_qp");
  }
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "stubborn") == 0) signal(SIGTERM, SIG_IGN);
  connect_to_itself(make_qp(open_device()));
  puts("ready");
  fflush(stdout);
  while (1) pause();
}
