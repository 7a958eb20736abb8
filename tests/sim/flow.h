#pragma once

// One direction of a connection: a program that posts random work requests,
// and the oracle that knows what each of them must do. The rules:
//
//   - requests complete in posting order, once each: unsignaled successes
//     silently, and after the first error all that follow as flushed;
//   - when a request completes, its data are in place, exact to the byte, and
//     nothing around them has changed;
//   - each packet is placed at most once and in PSN order; atomics execute once
//     each, on the value that the model holds, and their results are returned;
//   - messages go to the receives in the order of both, with their length,
//     immediate data and bytes; a send is acknowledged only after that;
//   - a request whose key or address is wrong does not succeed;
//   - a fenced request starts after the reads and atomics before it;
//   - a key that a peer invalidates is invalid when the receive completes, one
//     that is invalidated here when that request does.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/image.h"
#include "tests/sim/rc_end.h"
#include "tests/sim/world.h"

namespace urnic::sim {

// One end of a connection, and the memory that it uses there.
struct Side {
  RcEnd* end = nullptr;
  SlotPool* local = nullptr;    // what it sends from and reads into
  SlotPool* remote = nullptr;   // what the peer writes and reads
  SlotPool* receive = nullptr;  // where its receives point
  uint32_t local_key = 0;
  uint32_t remote_key = 0;
  uint64_t remote_iova_shift = 0;  // iova minus host address
  uint32_t receive_key = 0;
  uint32_t atomic_key = 0;
  size_t atomic_words = 0;  // offset of the words that all connections share
};
inline constexpr uint32_t kAtomicWords = 4;

struct FlowConfig {
  uint32_t requests = 40;
  uint32_t mtu = 256;
  Psn first_psn = {};
  uint32_t message_max = 2048;
  uint32_t max_sge = 4;
  uint32_t max_inline = 64;
  uint32_t receive_depth = 8;  // how many receives the program keeps posted
  bool reads = true;
  bool atomics = true;
  // The request with this number is made to fail, at the peer or here.
  std::optional<uint32_t> bad_request;
  bool bad_here = false;
  // The receive with this number is too small.
  std::optional<uint32_t> small_receive;
};

class Flow {
 public:
  Flow(uint64_t seed, Side& from, Side& to, const FlowConfig& config)
      : random_(seed),
        from_(from),
        to_(to),
        config_(config),
        next_psn_(config.first_psn) {}

  // The programs: called now and then. True if something was posted.
  bool PostRequests();
  bool PostReceives(bool all);

  // What the RNICs do.
  void OnSendDone(const Completion& done);
  void OnReceiveDone(const Completion& done);
  // After the effect.
  void OnPlaced(const Placement& placement);

  bool posted_all() const {
    return next_id_ > config_.requests || (failed_ && late_posts_ == 0);
  }
  bool idle() const { return posted_all() && pending_.empty(); }
  bool failed() const { return failed_; }
  uint8_t first_error() const { return first_error_; }
  uint64_t succeeded() const { return succeeded_; }

  // When nothing is under way any more.
  void CheckAtEnd();

 private:
  // A part of a slot; a message is scattered over several.
  struct Piece {
    size_t offset;
    uint32_t bytes;
  };
  struct Request {
    uint64_t id = 0;
    uint8_t opcode = 0;
    bool signaled = false;
    bool fenced = false;
    bool spoiled = false;  // cannot succeed
    Psn first_psn = {};
    int32_t packets = 1;
    std::optional<size_t> local = {};
    std::optional<size_t> remote = {};
    size_t remote_at = 0;
    std::vector<Piece> pieces = {};
    std::vector<uint8_t> content =
        {};                       // the message; of a read: what it must get
    uint64_t message_number = 0;  // of messages that take a receive
    uint64_t atomic_number = 0;
    uint32_t immediate = 0;
    uint32_t invalidated = 0;
  };
  struct Atomic {
    bool swap = false;
    uint64_t target = 0;
    uint64_t compare_add = 0;
    uint64_t swap_value = 0;
  };
  struct Receive {
    uint64_t id = 0;
    size_t slot = 0;
    std::vector<Piece> pieces = {};
  };

  uint8_t PickOpcode();
  uint32_t PickLength();
  std::vector<Piece> Cut(const SlotPool& pool, size_t slot, uint32_t length);
  void PostOne();
  void PrepareData(Request& request, testing::SendWr& wr);
  void PrepareRead(Request& request, testing::SendWr& wr);
  void PrepareFlush(Request& request, testing::SendWr& wr);
  void PrepareAtomic(Request& request, testing::SendWr& wr);
  void PrepareRemote(Request& request, testing::SendWr& wr, uint32_t length);
  void Spoil(Request& request, testing::SendWr& wr);
  void AssignPsns(Request& request);
  void CheckFence(Psn placed) const;

  void Succeed(Request& request);
  void Fail(Request& request);
  void CheckMessage(const Request& message, const Receive& receive,
                    const Completion& done);

  Random random_;
  Side& from_;
  Side& to_;
  FlowConfig config_;

  uint64_t next_id_ = 1;
  Psn next_psn_;
  std::deque<Request> pending_;
  bool failed_ = false;
  uint32_t late_posts_ = 3;  // requests that the program adds after an error
  uint8_t first_error_ = 0;
  uint64_t succeeded_ = 0;

  uint64_t next_receive_id_ = 1;
  std::deque<Receive> receives_;
  bool receive_failed_ = false;
  uint32_t late_receives_ = 3;

  std::deque<Request> messages_;  // on their way to a receive
  uint64_t messages_posted_ = 0;
  uint64_t messages_received_ = 0;

  std::vector<Atomic> atomics_;  // in posting order
  std::vector<uint64_t> atomic_results_;
  std::optional<Psn> last_placed_;
  uint32_t bytes_of_last_ = 0;
};

}  // namespace urnic::sim
