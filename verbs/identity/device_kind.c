#include "verbs/identity/device_kind.h"

#include "verbs/identity/device_identity.h"

const struct urnic_device_kind urnic_device_kinds[URNIC_DEVICE_KINDS] = {
    [URNIC_DEVICE_ROCE] =
        {
            .name_prefix = "urnic",
            .transport = "roce",
            .node_type = "1: CA",
            .gid_source = URNIC_GIDS_OF_ADDRESSES,
            .gid_table_len = URNIC_GID_TABLE_LEN,
            .needs_grh = 1,
            .has_pkeys = 1,
            .services = URNIC_SERVICE_RC | URNIC_SERVICE_UC | URNIC_SERVICE_UD |
                        URNIC_SERVICE_XRC_INITIATOR | URNIC_SERVICE_XRC_TARGET |
                        URNIC_SERVICE_RUD,
            .limits = {.max_qps = 1200000,
                       .max_cqs = 1u << 16,
                       .max_pds = 1u << 16,
                       .max_mrs = 1u << 18,
                       .max_srqs = 1u << 16,
                       .max_ahs = 1u << 16},
        },
    // What Linux's siw shows, with our limits.
    [URNIC_DEVICE_IWARP] =
        {
            .name_prefix = "iwurnic",
            .transport = "iwarp",
            .node_type = "4: RNIC",
            .gid_source = URNIC_GID_OF_MAC,
            .gid_table_len = 1,
            .needs_grh = 0,
            .has_pkeys = 0,
            .services = URNIC_SERVICE_IWARP,
            // As many queue pairs as there can be connections.
            .limits = {.max_qps = 1u << 16,
                       .max_cqs = 1u << 16,
                       .max_pds = 1u << 16,
                       .max_mrs = 1u << 18,
                       .max_srqs = 1u << 16,
                       .max_ahs = 0},
        },
};
