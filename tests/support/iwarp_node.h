#pragma once

// An RNIC of iWARP without verbs for tests: a NicNode, queue pairs with their
// rings, and a connection manager that remembers what it is told. One thread.

#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "tests/support/fake_rings.h"
#include "tests/support/nic_node.h"

namespace urnic::testing {

struct IwarpNodeOptions {
  std::string fault = "";
  // The MTU of the link of both ends, which the test may change; null: the
  // port's.
  const uint32_t* link_mtu = nullptr;
  bool ipv6 = false;
  iwarp::Options iwarp = {};
  ConnectionLimits limits = {.half_open = 64, .time_wait = 64};
  uint32_t cq_entries = 4096;
  std::optional<NumberKey> number_key = {};  // NicConfig
};

class IwarpNode : public NicNode, private ConnectionEvents, private QpEvents {
 public:
  static constexpr uint32_t kEntries = 64;  // of each ring
  static constexpr uint32_t kDepth = 8;     // of reads

  // A queue pair in INIT, with its rings.
  struct Program {
    FakeRings rings{kEntries, 2, 64, kEntries, 2};
    IwarpQp* qp = nullptr;
    std::vector<QpEvent> events;
  };
  struct Told {
    IwarpConnection* connection;
    iwarp::Event event;
    std::string private_data;
  };

  // The node with this number, 1 to 254, in the network of all nodes.
  IwarpNode(const std::string& dev, uint32_t number,
            const IwarpNodeOptions& options = {});
  ~IwarpNode();

  // Ends all queue pairs, engine and port; memory and rings stay.
  void End();

  ConnectionTable& connections() { return engine().connections(); }
  Program& Create(SharedReceiveQueue* srq = nullptr);
  void Destroy(Program& program);
  void Modify(Program& program, QpState target);

  // Takes the queue pair away, with its connection, and returns its image. Its
  // rings stay.
  std::string Extract(Program& program);
  // The queue pair `qpn` of a program of `from`, with the memory of that, goes
  // on here. `where`: see QpTable::Insert(). REQUIRES: `from` outlives this
  // node, and has the same keys.
  absl::Status Insert(IwarpNode& from, Program& program, uint32_t qpn,
                      const ConnectConfig& where, std::string_view image);

  // Requests of `port` are accepted with the queue pairs of `acceptors`, in
  // turn. While there is none, they wait.
  IwarpListener* Listen(uint16_t port, uint32_t backlog = 128);
  // `peer` may be this node.
  absl::StatusOr<IwarpConnection*> TryConnect(Program& program, NicNode& peer,
                                              uint16_t local_port,
                                              uint16_t remote_port,
                                              std::string_view private_data);
  IwarpConnection& Connect(Program& program, NicNode& peer, uint16_t local_port,
                           uint16_t remote_port,
                           std::string_view private_data = "");
  absl::Status Accept(IwarpConnection& connection, Program& program,
                      std::string_view private_data = "");
  // Calls f(connections()) under the token.
  template <typename F>
  decltype(auto) Control(F&& f) {
    Engine::ControlScope scope(engine());
    return f(connections());
  }

  bool PostSend(Program& program, const SendWr& wr);
  bool PostReceive(Program& program, const RecvWr& wr);
  // Takes completions from the queue.
  void Drain();
  bool has_told(iwarp::Event event) const;

  mpa::SetupOptions setup;  // of all connections
  std::deque<Program*> acceptors;
  std::string answer;      // private data of what is accepted
  std::vector<Told> told;  // what the connection manager was told
  // Before an event is remembered.
  std::function<void(IwarpConnection&, iwarp::Event)> on_event =
      [](IwarpConnection&, iwarp::Event) {};
  std::vector<urnic_cqe> done;  // Drain()

 private:
  void OnConnectionEvent(IwarpConnection& connection,
                         iwarp::Event event) override;
  void OnQpEvent(EngineQp& qp, QpEvent event) override;
  EngineQpConfig ConfigFor(Program& program);

  std::list<Program> programs_;
};

// Two nodes at the ends of `ring:NAME`.
struct IwarpPair {
  explicit IwarpPair(const std::string& name,
                     const IwarpNodeOptions& options = {});

  void Step();
  // False: it takes too long.
  [[nodiscard]] bool RunUntil(const std::function<bool()>& condition);
  // For what must not happen: some iterations of both engines.
  void RunAWhile();
  // `a` connects to port 7000 of `b`; both are told.
  [[nodiscard]] bool Connect(IwarpNode::Program& from, IwarpNode::Program& to,
                             uint16_t local_port = 2000);

  IwarpNode a;
  IwarpNode b;
};

}  // namespace urnic::testing
