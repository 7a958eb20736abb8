#pragma once

// How `urnic` talks to the process that runs an RNIC: over a SOCK_SEQPACKET
// unix socket NAME.sock, of the device's name, in the run directory of that
// process (verbs/preload/run_dir.h). It exists while the device is open, and
// accepts only its owner and root.
//
// One request, one answer, then the server hangs up. A request is words with
// one blank between them:
//
//   addr              lists the addresses
//   addr add IP/LEN   an address more, at the first free place of the table
//   addr del IP/LEN   one less; its place stays empty, the others do not move
//   route             lists the routes
//   route add ROUTE   a route more (verbs/identity/ip_route.h), of the device's
//   own;
//                     it replaces one of the same prefix, router and metric
//   route del ROUTE   one of its own less, by prefix, router and metric
//   state             the state of all queue pairs and connections
//
// The answer comes in one packet or more, and ends when the server hangs up.
// Its first line is "ok", and what was asked for follows: of `addr`, a line
// "INDEX IP/LEN" for each address, INDEX that of its GID for RoCE v1 (v2 is the
// next), the link-local one first; of `addr add` and `addr del`, the one line
// of the address meant. Of `route`, a line for each: "ROUTE proto static" of
// its own, "ROUTE proto kernel" of the kernel's; and if they do not fit into
// one packet, a last one that says how many more there are. Of `state`, the
// images of the queue pairs, then those of rdma_cm's connections, one behind
// the other (transport/work/image.h). Or the first line is "error", and one
// follows that says why.

#define URNIC_CONTROL_SUFFIX ".sock"
// Limit of a request, and of each packet of an answer.
#define URNIC_CONTROL_REQUEST_MAX 256
#define URNIC_CONTROL_ANSWER_MAX 65536
// How long either side waits for the other.
#define URNIC_CONTROL_TIMEOUT_SECONDS 5
