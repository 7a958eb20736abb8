#include "tests/packetdrill/tcp_info.h"

namespace urnic::packetdrill {
namespace {

using tcp::SegmentRecord;
using tcp::State;

struct Constant {
  std::string_view name;
  int64_t value;
};
constexpr Constant kConstants[] = {
    {"TCP_CA_Open", 0},
    {"TCP_CA_Disorder", 1},
    {"TCP_CA_Recovery", 3},
    {"TCP_CA_Loss", 4},
    {"TCP_ESTABLISHED", 1},
    {"TCP_SYN_SENT", 2},
    {"TCP_SYN_RECV", 3},
    {"TCP_FIN_WAIT1", 4},
    {"TCP_FIN_WAIT2", 5},
    {"TCP_TIME_WAIT", 6},
    {"TCP_CLOSE", 7},
    {"TCP_CLOSE_WAIT", 8},
    {"TCP_LAST_ACK", 9},
    {"TCP_CLOSING", 11},
    {"TCP_INFINITE_SSTHRESH", 0x7fffffff},
    // The names of FreeBSD.
    {"TCPI_CLOSED", 7},
    {"TCPI_SYN_SENT", 2},
    {"TCPI_SYN_RECEIVED", 3},
    {"TCPI_ESTABLISHED", 1},
    {"TCPI_CLOSE_WAIT", 8},
    {"TCPI_FIN_WAIT_1", 4},
    {"TCPI_CLOSING", 11},
    {"TCPI_LAST_ACK", 9},
    {"TCPI_FIN_WAIT_2", 5},
    {"TCPI_TIME_WAIT", 6},
};

int64_t KernelState(State state) {
  switch (state) {
    case State::kClosed:
      return 7;
    case State::kSynSent:
      return 2;
    case State::kSynReceived:
      return 3;
    case State::kEstablished:
      return 1;
    case State::kFinWait1:
      return 4;
    case State::kFinWait2:
      return 5;
    case State::kCloseWait:
      return 8;
    case State::kClosing:
      return 11;
    case State::kLastAck:
      return 9;
    case State::kTimeWait:
      return 6;
  }
  return 0;
}

// Of segments that are not SACKed: `lost` counts those that are considered
// lost, also when they have been sent again; `retrans` only the latter.
struct Counts {
  int64_t lost = 0;
  int64_t retrans = 0;
};
Counts CountsOf(const tcp::SegmentRing& ring) {
  Counts counts;
  for (uint32_t i = ring.first(); i != ring.end(); ++i) {
    const SegmentRecord& record = ring.at(i);
    if (record.state == SegmentRecord::kSacked) continue;
    const bool again =
        record.resent != 0 && record.state == SegmentRecord::kInFlight;
    counts.retrans += again;
    counts.lost += again || record.state == SegmentRecord::kLost;
  }
  return counts;
}

int64_t CongestionState(const tcp::Connection& connection) {
  const auto& sender = connection.sender();
  if (sender.recovering()) {
    return sender.cc.repair == cc::TcpRepair::kTimeout ? 4 : 3;
  }
  return sender.scoreboard().sacked_segments() != 0 ? 1 : 0;
}

}  // namespace

std::optional<int64_t> TcpInfo(std::string_view name, const Stack& stack) {
  for (const Constant& constant : kConstants) {
    if (constant.name == name) return constant.value;
  }
  if (stack.peer() == nullptr) return std::nullopt;
  const Peer& peer = *stack.peer();
  const tcp::Connection& connection = peer.connection;
  const auto& sender = connection.sender();
  const tcp::Scoreboard& board = sender.scoreboard();
  if (name == "tcpi_snd_cwnd") return sender.cc.window();
  if (name == "tcpi_snd_ssthresh") {
    return sender.cc.ssthresh() == UINT32_MAX ? 0x7fffffff
                                              : int64_t{sender.cc.ssthresh()};
  }
  if (name == "tcpi_ca_state") return CongestionState(connection);
  if (name == "tcpi_unacked") return board.ring().size();
  if (name == "tcpi_sacked") return board.sacked_segments();
  if (name == "tcpi_lost") return CountsOf(board.ring()).lost;
  if (name == "tcpi_retrans") return CountsOf(board.ring()).retrans;
  if (name == "tcpi_total_retrans") {
    return static_cast<int64_t>(sender.counters().retransmissions);
  }
  if (name == "tcpi_rtt") return sender.smoothed_round_trip().ns() / 1000;
  if (name == "tcpi_snd_mss") return sender.mss();
  if (name == "tcpi_advmss") return peer.config.offer.mss;
  if (name == "tcpi_state") return KernelState(connection.state());
  if (name == "tcpi_last_data_recv") {
    return (stack.now() - peer.last_data).ns() / 1'000'000;
  }
  return std::nullopt;
}

}  // namespace urnic::packetdrill
