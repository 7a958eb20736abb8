#pragma once

// Queue pairs of many hosts with real engines (engine_host.h) that keep sending
// to one host, behind a slow link with a small buffer; and what each of them
// achieves. Their programs post a request as soon as one is complete. Queue
// pairs of RC are set up directly, without the connection manager, so thousands
// are cheap; those of iWARP connect. Everything follows from the seed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "datapath/engine/completion_queue.h"
#include "datapath/engine/iwarp_connection.h"
#include "tests/sim/buffers.h"
#include "tests/sim/engine_host.h"
#include "tests/sim/switch.h"
#include "tests/sim/world.h"

namespace urnic::sim {

struct CrowdConfig {
  uint32_t senders = 1;  // hosts, at most 250
  // Of each host's port; a full transmit ring holds its engine back.
  uint64_t port_bits_per_second = 10'000'000'000;
  // Of the link to the receiver, and the drop-tail buffer in front of it.
  uint64_t bits_per_second = 1'000'000'000;
  uint64_t buffer_bytes = 256 * 1024;
  // Of that link, too: it marks packets, and the crowd's support that; or so
  // many are late by up to 20 hop delays, as if there were several paths.
  impair::Red red = {};
  uint32_t reorder_ppm = 0;
  Duration hop_delay = Duration::Microseconds(5);  // of each link, one way
  bool iwarp = false;                              // there are such flows
  uint32_t qps = 1;                                // of all hosts
  uint32_t requests = 64;                          // of a sender, outstanding
};

struct FlowConfig {
  uint32_t sender = 0;
  bool iwarp = false;
  uint8_t opcode = URNIC_WR_RDMA_WRITE;  // or URNIC_WR_SEND
  uint32_t bytes = 65536;                // of a request, at most kCrowdBytes
  uint32_t posted = 4;                   // requests outstanding
  Duration start = {};                   // from now; iWARP: connects then
  bool dead = false;                     // of RC: its peer is in RESET
};

inline constexpr uint32_t kCrowdBytes = 1 << 20;
inline constexpr uint32_t kCrowdMtu = 1024;

// Sums since the beginning.
struct CrowdReading {
  // Payload that was acknowledged, so it has been placed, in order; of iWARP
  // that of TCP, which has arrived. By flow.
  std::vector<uint64_t> bytes;
  uint64_t sent = 0;  // request packets or segments, including resent ones
  uint64_t resent = 0;
  uint64_t timeouts = 0;
  // Flows that have ended: with "retry exceeded", or with their connection.
  uint64_t failed = 0;
  // At the link to the receiver: packets, the time that those spent in the
  // buffer and on the wire that were not dropped, and the dropped ones.
  uint64_t offered = 0;
  uint64_t dropped = 0;
  Duration queued;
  // At the receiver: packets, those of RC that it had executed or held before,
  // and those behind a gap that it could not hold.
  uint64_t arrived = 0;
  uint64_t duplicates = 0;
  uint64_t not_held = 0;
};

// Of a flow, in bytes.
struct FullPacket {
  uint32_t payload_bytes = 0;
  uint32_t on_link_bytes = 0;  // whose time the slow link takes
};

// Of all runs of a program. The receiver's engine has as many buffers as a port
// of the default size.
struct CrowdBuffers {
  Buffers senders{12287};
  Buffers receiver{4095};
};

// After a Violation, a crowd must not be destroyed (engine_run.h).
class Crowd final : private EngineEvents, private ConnectionEvents {
 public:
  // `buffers` outlives the crowd. Runs until all hosts know each other.
  Crowd(const CrowdBuffers& buffers, const CrowdConfig& config, uint64_t seed);
  ~Crowd();

  // Connects a queue pair of a sender to one of the receiver. Flows are
  // numbered from 0.
  void Add(const FlowConfig& config);
  void RunFor(Duration time);

  size_t flows() const { return flows_.size(); }
  CrowdReading Read() const;
  // Of a flow with one request outstanding: how long each request took, from
  // its post to its completion.
  const std::vector<Duration>& times(size_t flow) const;
  FullPacket full_packet(size_t flow) const;

 private:
  struct Node;
  struct Flow;

  void OnCompletionEvent(CompletionQueue&) override {}
  void OnCqOverflow(CompletionQueue&) override {
    Violate("a completion queue has overflowed");
  }
  void OnConnectionEvent(IwarpConnection& connection,
                         iwarp::Event event) override;

  std::unique_ptr<Node> MakeNode(uint8_t number, const Buffers& buffers);
  void FindPaths();
  void Ask(Node& from, Node& to, net::Path& path);
  void Listen();
  // Of iWARP: in INIT.
  EngineQp* MakeQp(Node& node, Flow& flow);
  void BringUp(Node& node, EngineQp& qp, const net::Path& path,
               const EngineQp& peer);
  void Connect(Flow& flow);
  void Poll(Node& node);
  void OnDone(Flow& flow, const urnic_cqe& cqe);
  void Fail(Flow& flow);
  void Start(Flow& flow);
  void Post(Flow& flow);

  const CrowdConfig config_;
  World world_;
  Random random_;
  Switch switch_;
  Time end_;  // of what has been run
  std::unique_ptr<Node> receiver_;
  std::vector<std::unique_ptr<Node>> senders_;
  uint32_t paths_ = 0;
  std::vector<std::unique_ptr<Flow>> flows_;
  uint64_t failed_ = 0;
};

}  // namespace urnic::sim
