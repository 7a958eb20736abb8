#pragma once

// How `urnic` talks to the process that runs an RNIC: over a SOCK_SEQPACKET
// unix socket NAME.sock in the run directory of that process
// (verbs/preload/run_dir.h). NAME is that of the port's first device; for a
// second device of the port there is a symbolic link to the socket. They exist
// while the port is open, and accept only its owner and root.
//
// Each connection carries one request and one answer; then the server closes
// it. A request is a list of words with one blank between them:
//
//   addr              lists the addresses
//   addr add ADDR     adds an address at the first free place of the table;
//                     ADDR: see verbs/identity/device_identity.h
//   addr del ADDR     removes one; its place stays empty, others do not move
//   route             lists the routes
//   route add ROUTE   adds a route of its own (verbs/identity/ip_route.h), or
//                     replaces the one with this prefix, router and metric
//   route del ROUTE   removes one of its own, by prefix, router and metric
//   counters          lists the counters of the port
//   state             the state of all queue pairs and connections
//   inputs            the logs of the inputs of queue pairs
//   inputs start QPN KIB, inputs stop QPN
//                     logs the inputs of a queue pair from now on, with so much
//                     room; or no longer (verbs/control/input_logs.h)
//   dump MS [payload] stops the RNIC, copies its state, and lets it go on,
//                     after MS milliseconds at the latest (at most 10000).
//                     payload: with keys, images and logs of inputs
//   show KIND         what is known of all objects of a kind: those of `urnic
//                     show`, trace (the events) and trace-level
//   capture start SNAP [lqpn QPN] [peer PREFIX]
//                     copies frames from now on: the first SNAP bytes of each.
//                     lqpn: of a queue pair; peer: to and from addresses. A
//                     port has one capture at a time. One that nobody reads for
//                     10 s ends
//   capture read      the frames since the last time, or as many as one answer
//                     holds
//   capture stop      ends the capture
//   trace LEVELS      sets levels of the trace: "receive=8,verbs=4"
//                     (ras/trace/trace.h)
//
// The answer is one packet or more, and ends when the server hangs up. Its
// first line is "ok", followed by:
//
//   addr              a line "INDEX ADDR" for each address, the link-local one
//                     first. INDEX: of its GID for RoCE v1; v2 is the next.
//                     "-": the port has no RoCE device
//   addr add, del     the line of that address
//   route             a line for each route: "ROUTE proto static" for its own,
//                     "ROUTE proto kernel" for the kernel's. If not all fit
//                     into one packet, a last line says how many are missing
//   counters          "port DEV", "netns INODE" of its network namespace, and
//                     "NAME VALUE" for each of verbs/identity/sysfs_counters.h
//   state             the images of the queue pairs, then those of connections
//                     of iWARP without a queue pair, then those of rdma_cm's
//                     connections of RoCE (transport/work/image.h)
//   inputs            logs (ras/inputs/input_log.h)
//   dump              a recording (ras/recorder/format.h)
//   capture read      packet blocks of pcapng, of interface 0
//   capture stop      a line: how many frames were lost
//   show              a line of facts (ras/facts/facts.h) for each object
//
// Or the first line is "error", and the second says why.

#define URNIC_CONTROL_SUFFIX ".sock"
// Limit of a request, and of each packet of an answer.
#define URNIC_CONTROL_REQUEST_MAX 256
#define URNIC_CONTROL_ANSWER_MAX 65536
// How long either side waits for the other.
#define URNIC_CONTROL_TIMEOUT_SECONDS 5
