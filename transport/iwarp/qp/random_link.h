#pragma once

// For tests: two ends with random options, a random wire, and a path that
// changes.

#include "transport/iwarp/qp/endpoint_fixture.h"
#include "transport/wire/ipv4.h"

namespace urnic::iwarp {

inline void Choose(TestEnd& end, Random& random) {
  end.setup.crc = random.OneIn(2);
  end.setup.markers = random.OneIn(2);
  end.tcp_config.offer.mss = static_cast<uint16_t>(
      random.OneIn(3) ? 300 + random.Below(400) : 1400 + random.Below(7000));
  end.tcp_config.offer.sack = !random.OneIn(4);
  end.tcp_config.offer.timestamps = !random.OneIn(4);
  end.tcp_config.window_bytes = static_cast<uint32_t>(
      random.OneIn(3) ? 2000 + random.Below(8000) : 256 * 1024);
  end.fpdus.SetFree(static_cast<uint32_t>(1 + random.Below(20)));
  end.config.keep_bytes = random.OneIn(3) ? 0 : 64;
  end.place_early = !random.OneIn(4);
  end.Renew();
}

inline void ChooseSetUp(Link& link) {
  Random& random = link.random;
  for (TestEnd* end : {&link.a, &link.b}) Choose(*end, random);
  if (random.OneIn(3)) {
    link.a.setup.revision = 1;
  } else if (random.OneIn(2)) {
    link.a.setup.peer_to_peer = true;
    link.a.setup.rtr_kinds = static_cast<mpa::RtrKinds>(1 << random.Below(3));
  }
  link.faults.loss_percent = static_cast<uint32_t>(random.Below(4));
  link.faults.duplicate_percent = static_cast<uint32_t>(random.Below(4));
  link.faults.reorder_percent = static_cast<uint32_t>(random.Below(51));
}

// The packet size that the path carries. It changes from time to time, and
// routers may not report it.
class Path {
 public:
  explicit Path(Link& link) : link_(link) {}

  bool Passes(TestEnd& from, const Packet& packet) {
    const size_t bytes = sizeof(wire::Ipv4) +
                         wire::TcpHeaderBytes(packet.fields.options) +
                         packet.payload.size();
    if (bytes <= mtu_) return true;
    if (reports_) {
      from.endpoint->OnTooBig(mtu_, packet.fields.seq, from.Local(link_.now));
    }
    return false;
  }
  void Change() {
    if (!link_.random.OneIn(50)) return;
    mtu_ = static_cast<uint32_t>(600 + link_.random.Below(8000));
    reports_ = link_.random.OneIn(2);
  }

 private:
  Link& link_;
  uint32_t mtu_ = 9000;
  bool reports_ = false;
};

}  // namespace urnic::iwarp
