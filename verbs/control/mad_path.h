#pragma once

// Where a MAD came from, in the words of the connection manager.

#include "datapath/engine/gsi.h"
#include "transport/cm/types.h"

namespace urnic::control {

inline cm::MadPath MadPathOf(const MadSource& from) {
  cm::MadPath path;
  path.local_gid = from.reply.local;
  path.remote_gid = from.reply.remote;
  path.remote_qpn = from.src_qpn;
  path.pkey = from.pkey;
  path.roce_v1 = from.reply.headers.framing() == wire::Framing::kGrh;
  return path;
}

}  // namespace urnic::control
