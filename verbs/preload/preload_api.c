#define _GNU_SOURCE
#include "verbs/preload/preload_api.h"

#include "verbs/preload/comp_channel.h"
#include "verbs/preload/export.h"
#include "verbs/preload/rdma_cm_node.h"
#include "verbs/preload/signal_hooks.h"
#include "verbs/preload/sysfs_tree.h"

URNIC_EXPORT const struct urnic_preload_api urnic_preload_v1 = {
    .size = sizeof(urnic_preload_v1),
    .channel_push = urnic_channel_push,
    .channel_drop = urnic_channel_drop,
    .set_signal_hooks = urnic_signal_hooks_set,
    .chain_signal = urnic_signal_hooks_chain,
    .set_rdma_cm_device = urnic_rdma_cm_set_device,
    .rdma_cm_set_ready = urnic_rdma_cm_set_ready,
    .rdma_cm_file = urnic_rdma_cm_file,
    .run_dir = urnic_tree_root,
    .set_gids = urnic_tree_set_gids,
    .set_port_active = urnic_tree_set_port_active,
    .mask_changes = urnic_signal_hooks_mask_changes,
    .removed = urnic_tree_removed,
};
