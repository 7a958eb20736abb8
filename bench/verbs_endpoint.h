#pragma once

// Two connected queue pairs for verbs_bench: one in this process and one in
// the peer's, or both here. Any failure ends the program with a message: it is
// a benchmark.

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

namespace urnic::bench {

struct BenchOptions {
  std::string test;
  std::string server;  // socket paths; at most one is given
  std::string client;
  std::string device;  // empty: the first device
  uint32_t gid_index = 3;
  uint32_t mtu = 4096;  // the port's, if that is smaller
  uint32_t size = 8;
  uint32_t seconds = 2;
  uint32_t depth = 128;
  uint32_t post_list = 32;
  uint32_t cq_mod = 32;
  bool thread_domain = false;  // no locks: this program has one thread
  bool server_polls = false;   // otherwise it sleeps at its socket
  uint32_t bulk = 0;           // send_lat: bytes of a write; 0: no writes
  uint32_t qps = 20000;        // many_qps: of each side
  uint32_t qp_depth = 128;     // many_qps: of each queue pair
};

// Ends the program, with errno's text if there is one.
[[noreturn]] void Die(const std::string& what);

// Monotonic nanoseconds.
int64_t NowNs();

// What the other side needs to know.
struct Address {
  uint64_t memory;
  uint32_t rkey;
  uint32_t qpn;
  ibv_gid gid;
};

// A queue pair of `depth` requests each way, in state INIT.
ibv_qp* MakeQp(ibv_pd* pd, ibv_cq* cq, uint32_t depth);
// The first PSN of a queue pair on this side.
inline uint32_t PsnOf(uint32_t qpn) { return qpn * 7 & 0xffffff; }

// One queue pair with its queues and its memory, which has room for two
// messages, at 0 and at half(), and for an 8-byte counter.
class Endpoint {
 public:
  Endpoint(ibv_context* context, const BenchOptions& options);

  Address address() const;
  void Connect(const Address& peer);
  const Address& peer() const { return peer_; }
  // Brings another queue pair from INIT to RTS, connected to `qpn` of the peer.
  void ConnectMore(ibv_qp* qp, uint32_t qpn) const;

  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  ibv_qp* qp() const { return qp_; }
  ibv_cq* cq() const { return cq_; }
  uint8_t* memory() const { return memory_; }
  size_t half() const { return half_; }
  size_t counter() const { return 2 * half_; }
  uint32_t lkey() const { return mr_->lkey; }

  // The places are offsets into the memory, here or at the peer. All requests
  // are signaled.
  void PostWrite(uint32_t bytes, size_t from, size_t to);
  void PostRead(uint32_t bytes, size_t from, size_t to);
  void PostFetchAdd(uint64_t add, size_t result, size_t target);
  void PostSend(uint32_t bytes, size_t from);
  void PostRecv(uint32_t bytes, size_t to);
  // The next completion, if there is one; it must be without error.
  bool Poll(ibv_wc* wc);
  // Spins until `count` requests have completed; returns the last completion.
  ibv_wc Await(int count = 1);

 private:
  void Post(ibv_wr_opcode opcode, uint32_t bytes, size_t local, size_t remote,
            uint64_t add = 0);

  BenchOptions options_;
  ibv_context* context_;
  ibv_pd* pd_;
  ibv_mr* mr_;
  ibv_cq* cq_;
  ibv_qp* qp_;
  uint8_t* memory_;
  size_t half_;
  ibv_mtu mtu_;
  Address peer_ = {};
};

// The two sides. With a socket, there is no `other`.
class Pair {
 public:
  explicit Pair(const BenchOptions& options);

  Endpoint& here() { return *here_; }
  // REQUIRES: one process.
  Endpoint& other() { return *other_; }
  bool in_one_process() const { return other_ != nullptr; }
  bool is_server() const { return server_; }

  // Returns when both sides have called it. Sleeps, so that our RNIC's helper
  // works; or polls the completion queue meanwhile (`poll`).
  void Barrier(bool poll = false);
  // REQUIRES: two processes.
  void Exchange(const void* mine, void* theirs, size_t bytes);

 private:
  bool server_ = false;
  int socket_ = -1;
  std::unique_ptr<Endpoint> here_;
  std::unique_ptr<Endpoint> other_;
};

}  // namespace urnic::bench
