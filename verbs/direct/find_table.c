#define _GNU_SOURCE
#include "verbs/direct/find_table.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

const void* urnic_find_table(const struct ibv_context* context,
                             const char* name) {
  /* Every provider has this operation. */
  const void* const operation = (const void*)context->ops.poll_cq;
  Dl_info info;
  struct link_map* object = NULL;
  if (dladdr1(operation, &info, (void**)&object, RTLD_DL_LINKMAP) == 0 ||
      object == NULL) {
    return NULL;
  }
  /* The link_map of an object is also its handle for dlsym(). */
  return dlsym(object, name);
}
