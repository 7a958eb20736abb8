// The part of libibverbs that the plugin needs to be loaded. It prints that the
// plugin has registered, and with which private number. Its symbol versions,
// which tell the release, are in the version script of each build
// (BUILD.bazel).

#include <stddef.h>
#include <stdio.h>

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
#define TEXT(a) #a
#define WORD(a) TEXT(a)
#define REGISTER NAME(verbs_register_driver_, PRIVATE)

void REGISTER(const void* ops);
void* _verbs_init_and_alloc_context(void* device, int fd, size_t bytes,
                                    void* offset, unsigned driver);
void verbs_uninit_context(void* context);
void verbs_set_ops(void* context, const void* ops);
void* ibv_qp_to_qp_ex(void* qp);
int ibv_rate_to_mbps(int rate);
int mbps_to_ibv_rate(int mbps);
void* ibv_alloc_pd(void* context);
int ibv_dealloc_pd(void* pd);
int ibv_destroy_qp(void* qp);
int ibv_query_gid(void* context, unsigned char port, int index, void* gid);

void REGISTER(const void* ops) {
  (void)ops;
  puts("registered " WORD(PRIVATE));
  fflush(stdout);
}

void* _verbs_init_and_alloc_context(void* device, int fd, size_t bytes,
                                    void* offset, unsigned driver) {
  (void)device, (void)fd, (void)bytes, (void)offset, (void)driver;
  return NULL;
}
void verbs_uninit_context(void* context) { (void)context; }
void verbs_set_ops(void* context, const void* ops) { (void)context, (void)ops; }
void* ibv_qp_to_qp_ex(void* qp) { return (void)qp, NULL; }
int ibv_rate_to_mbps(int rate) { return (void)rate, -1; }
int mbps_to_ibv_rate(int mbps) { return (void)mbps, 0; }
void* ibv_alloc_pd(void* context) { return (void)context, NULL; }
int ibv_dealloc_pd(void* pd) { return (void)pd, 0; }
int ibv_destroy_qp(void* qp) { return (void)qp, 0; }
int ibv_query_gid(void* context, unsigned char port, int index, void* gid) {
  (void)context, (void)port, (void)index, (void)gid;
  return -1;
}
