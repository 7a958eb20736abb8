/* A verbs program that is not linked with libibverbs: like NCCL, it opens the
 * library at run time and looks up each function by name and version. Two queue
 * pairs of one device write into, read from and send to each other. The program
 * also calls an extended query and functions of later versions.
 *
 *   late_loader [GID_INDEX]
 *
 * Ends with 0 and "ok", or prints what failed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* verbs.h has macros of these names; here they are names of members. */
#undef ibv_query_port
#undef ibv_reg_mr

/* X(result, name without ibv_, version, parameters) */
#define FUNCTIONS(X)                                                           \
  X(struct ibv_device**, get_device_list, "IBVERBS_1.1", (int*))               \
  X(void, free_device_list, "IBVERBS_1.1", (struct ibv_device**))              \
  X(const char*, get_device_name, "IBVERBS_1.1", (struct ibv_device*))         \
  X(struct ibv_context*, open_device, "IBVERBS_1.1", (struct ibv_device*))     \
  X(int, close_device, "IBVERBS_1.1", (struct ibv_context*))                   \
  X(int, query_device, "IBVERBS_1.1",                                          \
    (struct ibv_context*, struct ibv_device_attr*))                            \
  X(int, query_port, "IBVERBS_1.1",                                            \
    (struct ibv_context*, uint8_t, struct ibv_port_attr*))                     \
  X(int, query_gid, "IBVERBS_1.1",                                             \
    (struct ibv_context*, uint8_t, int, union ibv_gid*))                       \
  X(struct ibv_pd*, alloc_pd, "IBVERBS_1.1", (struct ibv_context*))            \
  X(int, dealloc_pd, "IBVERBS_1.1", (struct ibv_pd*))                          \
  X(struct ibv_mr*, reg_mr, "IBVERBS_1.1",                                     \
    (struct ibv_pd*, void*, size_t, int))                                      \
  X(struct ibv_mr*, reg_mr_iova2, "IBVERBS_1.8",                               \
    (struct ibv_pd*, void*, size_t, uint64_t, unsigned int))                   \
  X(struct ibv_mr*, reg_dmabuf_mr, "IBVERBS_1.12",                             \
    (struct ibv_pd*, uint64_t, size_t, uint64_t, int, int))                    \
  X(int, dereg_mr, "IBVERBS_1.1", (struct ibv_mr*))                            \
  X(struct ibv_cq*, create_cq, "IBVERBS_1.1",                                  \
    (struct ibv_context*, int, void*, struct ibv_comp_channel*, int))          \
  X(int, destroy_cq, "IBVERBS_1.1", (struct ibv_cq*))                          \
  X(struct ibv_qp*, create_qp, "IBVERBS_1.1",                                  \
    (struct ibv_pd*, struct ibv_qp_init_attr*))                                \
  X(int, modify_qp, "IBVERBS_1.1", (struct ibv_qp*, struct ibv_qp_attr*, int)) \
  X(int, query_qp, "IBVERBS_1.1",                                              \
    (struct ibv_qp*, struct ibv_qp_attr*, int, struct ibv_qp_init_attr*))      \
  X(int, destroy_qp, "IBVERBS_1.1", (struct ibv_qp*))                          \
  X(int, query_ece, "IBVERBS_1.10", (struct ibv_qp*, struct ibv_ece*))         \
  X(int, set_ece, "IBVERBS_1.10", (struct ibv_qp*, struct ibv_ece*))           \
  X(int, get_async_event, "IBVERBS_1.1",                                       \
    (struct ibv_context*, struct ibv_async_event*))                            \
  X(int, fork_init, "IBVERBS_1.1", (void))                                     \
  X(const char*, event_type_str, "IBVERBS_1.1", (enum ibv_event_type))         \
  X(const char*, wc_status_str, "IBVERBS_1.1", (enum ibv_wc_status))

static struct {
#define MEMBER(result, name, version, parameters) result(*name) parameters;
  FUNCTIONS(MEMBER)
#undef MEMBER
} verbs;

static void Require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "late_loader: %s: %m\n", what);
  exit(1);
}

static void Load(void) {
  void* library = dlopen("libibverbs.so.1", RTLD_NOW);
  Require(library != NULL, "dlopen libibverbs.so.1");
#define FIND(result, name, version, parameters)                  \
  *(void**)&verbs.name = dlvsym(library, "ibv_" #name, version); \
  Require(verbs.name != NULL, "dlvsym ibv_" #name " of " version);
  FUNCTIONS(FIND)
#undef FIND
}

enum { kBytes = 4096, kDepth = 16, kRights = 7 };

static struct ibv_context* context;
static struct ibv_cq* cq;
static struct ibv_mr* mr;
static union ibv_gid gid;
static int gid_index = 3;
static char memory[2][kBytes];

static struct ibv_qp* CreateQp(struct ibv_pd* pd) {
  struct ibv_qp_init_attr init = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = kDepth,
              .max_recv_wr = kDepth,
              .max_send_sge = 1,
              .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
  };
  struct ibv_qp* qp = verbs.create_qp(pd, &init);
  Require(qp != NULL, "ibv_create_qp");
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .qp_access_flags = kRights, .port_num = 1};
  Require(verbs.modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                              IBV_QP_ACCESS_FLAGS) == 0,
          "to INIT");
  return qp;
}

static void Connect(struct ibv_qp* qp, uint32_t peer) {
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = peer,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1,
                  .grh = {.dgid = gid,
                          .sgid_index = (uint8_t)gid_index,
                          .hop_limit = 255},
                  .port_num = 1},
  };
  Require(verbs.modify_qp(qp, &rtr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                              IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC |
                              IBV_QP_MIN_RNR_TIMER) == 0,
          "to RTR");
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                            .timeout = 18,
                            .retry_cnt = 7,
                            .rnr_retry = 7,
                            .max_rd_atomic = 1};
  Require(verbs.modify_qp(qp, &rts,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "to RTS");
}

/* Posting and polling go through the context, as the inline functions of
 * verbs.h do. */
static void Complete(int wanted) {
  struct ibv_wc wc;
  while (wanted > 0) {
    const int count = context->ops.poll_cq(cq, 1, &wc);
    Require(count >= 0, "poll");
    if (count == 0) continue;
    Require(wc.status == IBV_WC_SUCCESS, verbs.wc_status_str(wc.status));
    --wanted;
  }
}

static struct ibv_sge Part(int half) {
  return (struct ibv_sge){(uintptr_t)memory[half], kBytes, mr->lkey};
}

static void Transfer(struct ibv_qp* from, struct ibv_qp* to,
                     enum ibv_wr_opcode opcode, char fill) {
  const int read = opcode == IBV_WR_RDMA_READ;
  memset(memory[read ? 1 : 0], fill, kBytes);
  memset(memory[read ? 0 : 1], 0, kBytes);
  struct ibv_sge local = Part(0), remote = Part(1);
  struct ibv_recv_wr receive = {.sg_list = &remote, .num_sge = 1};
  struct ibv_recv_wr* bad_receive;
  if (opcode == IBV_WR_SEND) {
    Require(context->ops.post_recv(to, &receive, &bad_receive) == 0,
            "post_recv");
  }
  struct ibv_send_wr request = {
      .sg_list = &local,
      .num_sge = 1,
      .opcode = opcode,
      .send_flags = IBV_SEND_SIGNALED,
      .wr.rdma = {.remote_addr = remote.addr, .rkey = mr->rkey}};
  struct ibv_send_wr* bad;
  Require(context->ops.post_send(from, &request, &bad) == 0, "post_send");
  Complete(opcode == IBV_WR_SEND ? 2 : 1);
  for (int i = 0; i < kBytes; ++i) {
    Require(memory[0][i] == fill && memory[1][i] == fill, "the data differ");
  }
}

int main(int argc, char** argv) {
  if (argc > 1) gid_index = atoi(argv[1]);
  Load();
  Require(verbs.fork_init() == 0, "ibv_fork_init");
  int count = 0;
  struct ibv_device** list = verbs.get_device_list(&count);
  Require(list != NULL && count > 0, "no device");
  context = verbs.open_device(list[0]);
  Require(context != NULL, "ibv_open_device");
  verbs.free_device_list(list);
  struct ibv_device_attr device;
  struct ibv_port_attr port = {0};
  Require(verbs.query_device(context, &device) == 0, "ibv_query_device");
  Require(verbs.query_port(context, 1, &port) == 0, "ibv_query_port");
  Require(port.state == IBV_PORT_ACTIVE, "the port is not active");
  Require(verbs.query_gid(context, 1, gid_index, &gid) == 0, "ibv_query_gid");
  struct ibv_pd* pd = verbs.alloc_pd(context);
  Require(pd != NULL, "ibv_alloc_pd");
  mr = verbs.reg_mr_iova2(pd, memory, sizeof(memory), (uintptr_t)memory,
                          kRights | IBV_ACCESS_RELAXED_ORDERING);
  Require(mr != NULL, "ibv_reg_mr_iova2");
  /* NCCL probes for dma-buf support with an invalid descriptor. */
  Require(verbs.reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) == NULL, "dma-buf of -1");
  cq = verbs.create_cq(context, 4 * kDepth, NULL, NULL, 0);
  Require(cq != NULL, "ibv_create_cq");
  struct ibv_qp* a = CreateQp(pd);
  struct ibv_qp* b = CreateQp(pd);
  struct ibv_ece ece = {0};
  Require(verbs.query_ece(a, &ece) == 0, "ibv_query_ece");
  Connect(a, b->qp_num);
  Connect(b, a->qp_num);
  Transfer(a, b, IBV_WR_RDMA_WRITE, 'w');
  Transfer(b, a, IBV_WR_RDMA_READ, 'r');
  Transfer(a, b, IBV_WR_SEND, 's');
  Require(verbs.destroy_qp(a) == 0 && verbs.destroy_qp(b) == 0 &&
              verbs.destroy_cq(cq) == 0 && verbs.dereg_mr(mr) == 0 &&
              verbs.dealloc_pd(pd) == 0 && verbs.close_device(context) == 0,
          "destroying");
  puts("ok");
  return 0;
}
