#pragma once

// The requests of one end of a connection, and their oracle: what each of them
// may do to the memory of both ends, when, and how it completes.
//
//   - Requests are executed at the peer once, in order, byte by byte: each
//     placement is the next one that the requests allow, with their data.
//   - Sends, and immediate data, take receives in order. A receive completes
//     when its message is there, and says what the message was.
//   - A read returns bytes that the memory held between the end of the earlier
//     requests and the answer. An atomic returns the word that it found.
//   - Requests complete once, in order: a send or write not before it is
//     executed, unless it is short enough to be kept; a read or atomic not
//     before its answer is there. A fenced request waits for earlier answers.
//   - A request in trouble does nothing but what it is allowed to, nothing
//     behind it is executed, and all is flushed.

#include <cstdint>
#include <span>
#include <vector>

#include "tests/sim/iwarp_end.h"
#include "tests/support/fake_rings.h"
#include "transport/work/request.h"

namespace urnic::sim {

struct IwarpRequest {
  testing::SendWr wr;         // its ID is set when it is posted
  std::vector<uint8_t> data;  // of a send or write: what it must carry
  uint32_t bytes = 0;         // of the message, or of the answer
  std::vector<size_t> slots;  // of our memory, until it completes
  // A request that must not succeed: at most so many bytes of it may be placed.
  bool trouble = false;
  uint32_t placeable = 0;
  int grant = -1;  // of the peer, whose key it uses (iwarp_program.h)

  const RequestKind& kind() const { return *FindRequest(wr.opcode); }
  bool fenced() const { return (wr.flags & URNIC_SEND_FENCE) != 0; }
  bool signaled() const { return (wr.flags & URNIC_SEND_SIGNALED) != 0; }
  // Whether the peer has bytes to place for it.
  bool places() const {
    return kind().gathers() || kind().family == RequestFamily::kAtomic;
  }

  // Progress.
  uint64_t receive = 0;  // the number of the receive that it takes
  uint32_t placed = 0;
  uint32_t answered = 0;
  uint64_t since = 0;     // a read: its data are not older (IwarpMemory)
  uint64_t original = 0;  // an atomic: the word that it found
};

class IwarpFlow {
 public:
  IwarpFlow(IwarpEnd& from, IwarpEnd& to)
      : from_(from), to_(to), next_receive_(to.first_receive()) {}

  // False: the ring is full.
  bool Post(IwarpRequest request);

  // At the peer, before it is executed. An atomic: returns what the word
  // becomes.
  void OnPlaced(const Placement& placement);
  uint64_t OnAtomic(const Placement& placement, uint64_t word);
  void OnReceived(const RecvCompletion& done);
  // At our end.
  void OnAnswered(const Placement& placement);
  void OnSent(const SendCompletion& done);

  // The receive that the next message takes.
  uint64_t next_receive() const { return next_receive_; }
  // All requests were executed, all answers are there, and all signaled
  // requests have completed.
  bool served() const;
  // After the connection: the rest, which is not signaled, must be done.
  void Finish();
  // Whether a request that uses this key of the peer is not done everywhere.
  bool uses(int grant) const;
  bool failed() const { return failed_; }
  // Requests have numbers from 0 on.
  size_t posted() const { return requests_.size(); }
  bool has_completed(size_t number) const {
    return completed_ > number && !failed_;
  }
  // At the peer, with its receive.
  bool was_received(size_t number) const { return received_ > number; }

  // The connection cannot be expected to succeed: the program or the link has
  // done something to it.
  void AllowFailure() { may_fail_ = true; }
  // Bytes have been damaged behind TCP's back: what is acknowledged may never
  // be executed.
  void OnDamage() { damaged_ = true; }

  uint64_t succeeded() const { return succeeded_; }

 private:
  void Advance();
  void CheckPlaced(const IwarpRequest& request, const Placement& placement);
  void CheckFence(size_t index) const;
  void CheckSuccess(size_t index);
  void Complete();

  IwarpEnd& from_;
  IwarpEnd& to_;
  std::vector<IwarpRequest> requests_;
  size_t executed_ = 0;  // at the peer
  size_t received_ = 0;  // all before took no receive, or it has completed
  size_t answered_ = 0;  // all before have their answer, or need none
  size_t completed_ = 0;
  uint64_t next_receive_;
  uint64_t succeeded_ = 0;
  bool failed_ = false;   // our requests are flushed
  bool flushed_ = false;  // the peer's receives are
  bool may_fail_ = false;
  bool damaged_ = false;
};

}  // namespace urnic::sim
