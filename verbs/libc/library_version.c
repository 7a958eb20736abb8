#define _GNU_SOURCE
#include "verbs/libc/library_version.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

// One symbol that was new in each version, newest first. The name of a version
// is a symbol, too, but only with some linkers, and dlsym() does not show it.
static const struct {
  int minor;
  const char* version;
  const char* symbol;
} kVersions[] = {
    {18, "IBVERBS_1.18", "ibv_create_comp_cntr"},
    {17, "IBVERBS_1.17", "ibv_alloc_buf"},
    {16, "IBVERBS_1.16", "ibv_query_port_speed"},
    {15, "IBVERBS_1.15", "ibv_reg_mr_ex"},
    {14, "IBVERBS_1.14", "ibv_query_qp_data_in_order"},
    {13, "IBVERBS_1.13", "ibv_import_dm"},
    {12, "IBVERBS_1.12", "ibv_reg_dmabuf_mr"},
    {11, "IBVERBS_1.11", "_ibv_query_gid_ex"},
    {5, "IBVERBS_1.5", "ibv_get_pkey_index"},
    {1, "IBVERBS_1.1", "ibv_get_device_list"},
};

int urnic_verbs_newest_minor(void* library) {
  for (size_t i = 0; i < sizeof(kVersions) / sizeof(kVersions[0]); ++i)
    if (dlvsym(library, kVersions[i].symbol, kVersions[i].version) != NULL)
      return kVersions[i].minor;
  return 0;
}

int urnic_verbs_private_abi(void* library) {
  // What a provider calls first has the number in its name. 99 is far above
  // today's.
  char symbol[40];
  for (int n = 99; n > 0; --n) {
    snprintf(symbol, sizeof(symbol), "verbs_register_driver_%d", n);
    if (dlsym(library, symbol) != NULL) return n;
  }
  return 0;
}
