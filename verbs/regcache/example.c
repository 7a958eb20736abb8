/* A verbs program with a registration cache. Its queue pair is connected to
 * itself, and writes one buffer into another, again and again. Buffers come and
 * go: from malloc, or as a mapping that is replaced by another.
 *
 *   cc -o example example.c $(pkg-config --cflags --libs urnic-regcache)
 *   urnic run --port loop --addr 10.9.0.1/24 -- ./example [ROUNDS]
 *
 * On any RNIC that has a GID at index 3: the first device is used. Prints what
 * the cache did. */

#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <urnic_regcache.h>

enum {
  kGidIndex = 3, /* the first IPv4 address, as RoCEv2 */
  kBytes = 1 << 20,
  kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
};

static void die(const char* what, int error) {
  fprintf(stderr, "%s: %s\n", what, strerror(error));
  exit(1);
}

static struct ibv_context* open_device(void) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  if (list == NULL || list[0] == NULL) die("no RDMA device", ENODEV);
  struct ibv_context* context = ibv_open_device(list[0]);
  if (context == NULL) die("ibv_open_device", errno);
  ibv_free_device_list(list);
  return context;
}

static struct ibv_qp* make_qp(struct ibv_pd* pd, struct ibv_cq* cq) {
  struct ibv_qp_init_attr init = {.send_cq = cq,
                                  .recv_cq = cq,
                                  .cap = {.max_send_wr = 1,
                                          .max_recv_wr = 1,
                                          .max_send_sge = 1,
                                          .max_recv_sge = 1},
                                  .qp_type = IBV_QPT_RC};
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  if (qp == NULL) die("ibv_create_qp", errno);
  return qp;
}

static void connect_to_itself(struct ibv_qp* qp) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = qp->qp_num,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1,
                  .port_num = 1,
                  .grh = {.sgid_index = kGidIndex, .hop_limit = 64}}};
  struct ibv_qp_attr rts = {
      .qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7};
  int error = ibv_query_gid(qp->context, 1, kGidIndex, &rtr.ah_attr.grh.dgid);
  if (error == 0) {
    error = ibv_modify_qp(
        qp, &init,
        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  if (error == 0) {
    error = ibv_modify_qp(qp, &rtr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                              IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  if (error == 0) {
    error = ibv_modify_qp(qp, &rts,
                          IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                              IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_MAX_QP_RD_ATOMIC);
  }
  if (error != 0) die("ibv_modify_qp", error);
}

static void write_and_wait(struct ibv_qp* qp, const void* from,
                           const struct ibv_mr* from_mr, const void* to,
                           const struct ibv_mr* to_mr) {
  struct ibv_sge sge = {
      .addr = (uintptr_t)from, .length = kBytes, .lkey = from_mr->lkey};
  struct ibv_send_wr request = {
      .sg_list = &sge,
      .num_sge = 1,
      .opcode = IBV_WR_RDMA_WRITE,
      .send_flags = IBV_SEND_SIGNALED,
      .wr.rdma = {.remote_addr = (uintptr_t)to, .rkey = to_mr->rkey}};
  struct ibv_send_wr* bad = NULL;
  int error = ibv_post_send(qp, &request, &bad);
  if (error != 0) die("ibv_post_send", error);
  struct ibv_wc completion;
  int count = 0;
  while (count == 0) count = ibv_poll_cq(qp->send_cq, 1, &completion);
  if (count < 0) die("ibv_poll_cq", EIO);
  if (completion.status != IBV_WC_SUCCESS) {
    fprintf(stderr, "write: %s\n", ibv_wc_status_str(completion.status));
    exit(1);
  }
}

/* The calls of the cache: get, and put once the write is complete. */
static void transfer(struct urnic_regcache* cache, struct ibv_qp* qp,
                     const void* from, const void* to) {
  struct urnic_regcache_use source, target;
  int error =
      urnic_regcache_get(cache, from, kBytes, IBV_ACCESS_LOCAL_WRITE, &source);
  if (error == 0)
    error = urnic_regcache_get(cache, to, kBytes, kAccess, &target);
  if (error != 0) die("urnic_regcache_get", error);
  write_and_wait(qp, from, source.mr, to, target.mr);
  error = urnic_regcache_put(cache, &source);
  if (error == 0) error = urnic_regcache_put(cache, &target);
  if (error != 0) die("urnic_regcache_put", error);
}

static void* map(void* at, int flags) {
  void* got = mmap(at, kBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (got == MAP_FAILED) die("mmap", errno);
  return got;
}

static void run(struct urnic_regcache* cache, struct ibv_qp* qp, int rounds) {
  char* target = map(NULL, 0);
  for (int round = 0; round < rounds; ++round) {
    /* Every tenth target is another mapping at the same address. */
    if (round % 10 == 9) map(target, MAP_FIXED);
    char* source = malloc(kBytes);
    if (source == NULL) die("malloc", ENOMEM);
    memset(source, 1 + round % 100, kBytes);
    transfer(cache, qp, source, target);
    if (memcmp(source, target, kBytes) != 0) {
      fprintf(stderr, "round %d: the data differ\n", round);
      exit(1);
    }
    free(source);
  }
  munmap(target, kBytes);
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 100;
  struct ibv_context* context = open_device();
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, 4, NULL, NULL, 0);
  if (pd == NULL || cq == NULL) die("ibv_alloc_pd or ibv_create_cq", errno);
  struct ibv_qp* qp = make_qp(pd, cq);
  connect_to_itself(qp);

  struct urnic_regcache* cache = NULL;
  int error = urnic_regcache_open(pd, NULL, &cache);
  if (error != 0) die("urnic_regcache_open", error);
  run(cache, qp, rounds);
  struct urnic_regcache_stats stats;
  error = urnic_regcache_read_stats(cache, &stats);
  if (error != 0) die("urnic_regcache_read_stats", error);
  printf("changes seen by: %s\n",
         stats.watch == URNIC_REGCACHE_WATCH_KERNEL ? "kernel" : "calls");
  printf("hits %llu, misses %llu, invalidations %llu\n",
         (unsigned long long)stats.hits, (unsigned long long)stats.misses,
         (unsigned long long)stats.invalidations);
  error = urnic_regcache_close(cache, NULL);
  if (error != 0) die("urnic_regcache_close", error);
  if (ibv_destroy_qp(qp) != 0 || ibv_destroy_cq(cq) != 0 ||
      ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0) {
    die("the end", errno);
  }
  return 0;
}
