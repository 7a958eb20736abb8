#pragma once

#include <infiniband/verbs.h>

/* A table of functions in the provider that has opened the device, by the name
 * of its symbol. NULL: the device is of another make, or the provider older. */
const void* urnic_find_table(const struct ibv_context* context,
                             const char* name);
