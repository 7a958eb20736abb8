#pragma once

#include <infiniband/verbs.h>

/* Finds a table of functions, by the name of its symbol, in the provider that
 * has opened the device. NULL: the device is of another vendor, or the provider
 * is too old. */
const void* urnic_find_table(const struct ibv_context* context,
                             const char* name);
