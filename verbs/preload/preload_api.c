#define _GNU_SOURCE
#include "verbs/preload/preload_api.h"

#include <errno.h>

#include "verbs/preload/comp_channel.h"
#include "verbs/preload/export.h"
#include "verbs/preload/fd_table.h"
#include "verbs/preload/signal_hooks.h"

static int fd_kind(int fd) {
  if (urnic_fd_find(fd, URNIC_FD_UVERBS) != NULL) return URNIC_FD_UVERBS;
  if (urnic_fd_find(fd, URNIC_FD_CHANNEL) != NULL) return URNIC_FD_CHANNEL;
  return URNIC_FD_FOREIGN;
}

static int uverbs_device(int fd) {
  const struct urnic_fd_object* node = urnic_fd_find(fd, URNIC_FD_UVERBS);
  return node ? node->device : -EBADF;
}

URNIC_EXPORT const struct urnic_preload_api urnic_preload_v1 = {
    .size = sizeof(urnic_preload_v1),
    .fd_kind = fd_kind,
    .uverbs_device = uverbs_device,
    .channel_push = urnic_channel_push,
    .channel_drop = urnic_channel_drop,
    .set_signal_hooks = urnic_signal_hooks_set,
    .chain_signal = urnic_signal_hooks_chain,
};
