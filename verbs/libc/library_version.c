#define _GNU_SOURCE
#include "verbs/libc/library_version.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct urnic_verbs_version urnic_verbs_known[URNIC_VERBS_KNOWN] = {
    {34, 14},  // rdma-core 36 to 56
    {57, 14},  // 57, 58
    {59, 15},  // 59 to 61
    {59, 16},  // 62, 63
    {64, 17},  // 64
    {65, 18},  // 65
};

// The loader relocates some addresses of a dynamic section in place, and leaves
// others as they are in the file.
static const void* address(const struct link_map* map, ElfW(Addr) value) {
  return (const void*)(value < map->l_addr ? map->l_addr + value : value);
}

// If `name` is the prefix and a number, raises *number to that.
static void raise_to(int* number, const char* name, const char* prefix) {
  size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0) return;
  int n = atoi(name + length);
  if (n > *number) *number = n;
}

struct urnic_verbs_version urnic_verbs_version_of(void* library) {
  struct urnic_verbs_version version = {0, 0};
  struct link_map* map = NULL;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return version;
  const char* strings = NULL;
  const char* at = NULL;
  size_t count = 0;
  for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_STRTAB) strings = address(map, d->d_un.d_ptr);
    if (d->d_tag == DT_VERDEF) at = address(map, d->d_un.d_ptr);
    if (d->d_tag == DT_VERDEFNUM) count = d->d_un.d_val;
  }
  if (strings == NULL || at == NULL) return version;
  for (; count > 0; --count) {
    const ElfW(Verdef)* definition = (const void*)at;
    const ElfW(Verdaux)* first = (const void*)(at + definition->vd_aux);
    const char* name = strings + first->vda_name;
    raise_to(&version.private_abi, name, "IBVERBS_PRIVATE_");
    raise_to(&version.newest_minor, name, "IBVERBS_1.");
    at += definition->vd_next;
  }
  return version;
}

int urnic_verbs_is_known(struct urnic_verbs_version version) {
  for (int i = 0; i < URNIC_VERBS_KNOWN; ++i)
    if (urnic_verbs_known[i].private_abi == version.private_abi &&
        urnic_verbs_known[i].newest_minor == version.newest_minor)
      return 1;
  return 0;
}

void urnic_verbs_say_unknown(struct urnic_verbs_version version, char* text,
                             size_t size) {
  snprintf(text, size,
           "it has IBVERBS_1.%d and the private interface %d, which uRNIC does "
           "not know (it knows " URNIC_VERBS_RELEASES
           "): its devices stay hidden",
           version.newest_minor, version.private_abi);
}
