#pragma once

// How `urnic` talks to the process that runs an RNIC: over a SOCK_SEQPACKET
// unix socket NAME.sock, of the device's name, in the run directory of that
// process (verbs/preload/run_dir.h). It is there while the device is open, and
// hears its owner and root, nobody else.
//
// One request, one answer, then the server hangs up. A request is words with
// one blank between them:
//
//   addr              lists the addresses
//   addr add IP/LEN   an address more, at the first free place of the table
//   addr del IP/LEN   one less; its place stays empty, the others do not move
//
// The answer is text. Its first line is "ok", and what was asked for follows:
// of `addr`, a line "INDEX IP/LEN" for each address, INDEX that of its GID for
// RoCE v1 (v2 is the next), the link-local one first; of the others, the one
// line of the address meant. Or the first line is "error", and one follows that
// says why.

#define URNIC_CONTROL_SUFFIX ".sock"
// No request and no answer is longer.
#define URNIC_CONTROL_REQUEST_MAX 256
#define URNIC_CONTROL_ANSWER_MAX 4096
// How long either side waits for the other.
#define URNIC_CONTROL_TIMEOUT_SECONDS 5
