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

// X(name) for each.
#define URNIC_SYSFS_COUNTERS(X)                                             \
  X(port_xmit_data)     /* in units of 4 bytes, with the Ethernet header */ \
  X(port_xmit_packets)  /* */                                               \
  X(port_xmit_discards) /* the port was down, or the device failed */       \
  X(port_rcv_data)      /* as port_xmit_data */                             \
  X(port_rcv_packets)   /* */                                               \
  X(port_rcv_errors)    /* ICRC wrong, too long, or no room for it */
