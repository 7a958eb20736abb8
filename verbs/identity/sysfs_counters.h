#pragma once

// The files in ports/1/counters of an RNIC: those of Linux that are counted
// here. The others are absent, because a file that always reads 0 would say
// that nothing happened. Names and units are those of the PortCounters of the
// InfiniBand standard, which Linux shows for RoCE devices as well.
//
// Frames are all frames of the port, also ARP and neighbour discovery. A frame
// to an address of the same RNIC does not pass the port.
//
// The preload creates the files; the process that has the device open knows the
// values (verbs/control/control_protocol.h, "counters").

// The names also tell rdma_path.c of the preload which relative paths may be
// counters. X(name) for each.
#define URNIC_SYSFS_COUNTERS(X)                                             \
  X(port_xmit_data)     /* in units of 4 bytes, with the Ethernet header */ \
  X(port_xmit_packets)  /* */                                               \
  X(port_xmit_discards) /* the port was down, or the device failed */       \
  X(port_rcv_data)      /* as port_xmit_data */                             \
  X(port_rcv_packets)   /* */                                               \
  X(port_rcv_errors)    /* ICRC wrong, too long, or no room for it */

// The files in ports/1/hw_counters of a RoCE device: all counters of
// ras/metrics/roce_counters.def, which says what they count. They are those of
// the device's queue pairs, living and destroyed. The names are those of
// mlx5 in Linux.
#define URNIC_SYSFS_ROCE_COUNTERS(X) \
  X(out_of_sequence)                 \
  X(duplicate_request)               \
  X(out_of_buffer)                   \
  X(resp_local_length_error)         \
  X(resp_remote_access_errors)       \
  X(resp_cqe_error)                  \
  X(resp_cqe_flush_error)            \
  X(packet_seq_err)                  \
  X(implied_nak_seq_err)             \
  X(local_ack_timeout_err)           \
  X(rnr_nak_retry_err)               \
  X(req_remote_invalid_request)      \
  X(req_remote_access_errors)        \
  X(req_transport_retries_exceeded)  \
  X(req_rnr_retries_exceeded)        \
  X(req_cqe_error)                   \
  X(req_cqe_flush_error)             \
  X(np_ecn_marked_roce_packets)      \
  X(np_cnp_sent)                     \
  X(rp_cnp_handled)                  \
  X(rp_cnp_ignored)                  \
  X(rx_icrc_encapsulated)

// The files in ports/1/hw_counters of an iWARP device: all counters of
// ras/metrics/iwarp_counters.def, which says what they count. They are those of
// the port's connections.
#define URNIC_SYSFS_IWARP_NAME(name) "iwarp_" #name
#define URNIC_SYSFS_IWARP_COUNTERS(X) \
  X(active_opens)                     \
  X(passive_opens)                    \
  X(silent_evicted)                   \
  X(in_rsts)                          \
  X(out_rsts)                         \
  X(challenge_acks)                   \
  X(syn_cookies_sent)                 \
  X(syn_cookies_recv)                 \
  X(time_wait_overflow)               \
  X(retrans_segs)                     \
  X(timeouts)                         \
  X(loss_probes)                      \
  X(window_probes)                    \
  X(fast_recoveries)                  \
  X(undone_recoveries)                \
  X(dsacks_recv)                      \
  X(sack_discards)                    \
  X(sack_reneging)                    \
  X(ecn_reductions)                   \
  X(zero_windows)                     \
  X(out_of_order_segs)                \
  X(early_segs)                       \
  X(fpdu_parts_held)                  \
  X(crc_errors)                       \
  X(terminates_sent)                  \
  X(terminates_recv)
// The names of all files, as an initializer: of ports, then of hw_counters of a
// RoCE and of an iWARP device.
#define URNIC_SYSFS_QUOTED(name) #name,
#define URNIC_SYSFS_IWARP_QUOTED(name) URNIC_SYSFS_IWARP_NAME(name),
#define URNIC_SYSFS_NAMES                       \
  URNIC_SYSFS_COUNTERS(URNIC_SYSFS_QUOTED)      \
  URNIC_SYSFS_ROCE_COUNTERS(URNIC_SYSFS_QUOTED) \
  URNIC_SYSFS_IWARP_COUNTERS(URNIC_SYSFS_IWARP_QUOTED)
