#pragma once

// A queue pair with its rings, driven as the engine drives it: it does what
// transport/rc/qp.h asks of its caller, on a FakeHost. The host's book of
// regions judges every placement and every gathered byte. Unit tests, packet
// scripts, the goodput table and the fuzzer use it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/fake_host.h"
#include "tests/support/fake_rings.h"
#include "tests/support/random.h"
#include "transport/rc/image.h"
#include "transport/rc/qp.h"
#include "transport/wire/packet.h"

namespace urnic::testing {

// BTH to ICRC field. The ICRC is a real one, over the packet from the BTH on
// (the network headers before it do not exist here).
using Packet = std::vector<uint8_t>;

void SealPacket(Packet& packet);
bool SealIntact(const Packet& packet);
Packet MakePacket(const wire::PacketFields& fields);
// One line of text; accepts any bytes.
std::string Describe(const Packet& packet);

// A completion as the program sees it.
struct Completion {
  bool recv = false;
  uint8_t status = 0;
  uint8_t opcode = 0;
  uint8_t wc_flags = 0;
  bool solicited = false;
  RxVerdict cause = RxVerdict::kAccept;
  uint32_t byte_len = 0;
  uint32_t imm_or_key = 0;
  uint64_t wr_id = 0;
};

struct EndpointOptions {
  uint32_t qpn = 0x11;
  uint32_t pd = 1;
  uint32_t sq_entries = 64;
  uint32_t rq_entries = 64;
  uint32_t max_sge = 4;
  uint32_t max_inline = 64;
  bool sq_sig_all = false;
  // How many packets that arrive behind a gap it can hold.
  uint32_t held_max = 4096;
  // Both ends of an XRC connection in one: its requests name `srqn` of the
  // other end, whose receive queue has that number.
  bool xrc = false;
  uint32_t srqn = 0;
};

class Endpoint {
 public:
  // `host` outlives the endpoint.
  Endpoint(FakeHost& host, const EndpointOptions& options);
  ~Endpoint();

  // True if a receive request has been taken from the ring and is not complete.
  bool receiving() { return core_->receives.taken(); }
  // Another one after each move.
  rc::Qp& qp() { return core_->qp; }
  FakeRings& rings() { return rings_; }
  FakeHost& host() { return host_; }
  const EndpointOptions& options() const { return options_; }

  // RESET to INIT to RTR to RTS.
  void Connect(const QpConfig& config);

  // XRC: requests that name `srqn` take from `ring`, which outlives this.
  void AddSharedRing(uint32_t srqn, RecvRing& ring) { shared_[srqn] = &ring; }

  bool PostSend(const SendWr& wr) { return rings_.PostSend(wr); }
  bool PostRecv(const RecvWr& wr) { return rings_.PostRecv(wr); }

  // Delivers packets, in bursts as the engine cuts them, and does everything
  // that follows except transmitting. Packets that do not parse are dropped.
  // Bit n of `marked`: packet n arrived with "congestion experienced". Returns
  // the verdicts, one per parsed packet.
  std::vector<RxVerdict> Deliver(std::span<const Packet> packets, Time now,
                                 uint64_t marked = 0);
  std::vector<RxVerdict> Deliver(const Packet& packet, Time now,
                                 bool marked = false) {
    return Deliver(std::span(&packet, 1), now, marked ? 1 : 0);
  }

  // Up to `max` packets, payload gathered and sealed.
  std::vector<Packet> Transmit(Time now, uint32_t max = 32);

  // OnTimer(), if it is due.
  void AdvanceTo(Time now);

  // On the caller's clock, which a move does not change.
  Time NextDeadline() {
    const Time due = qp().NextDeadline();
    return due.IsInfinite() ? due : due - clock_shift_;
  }

  // Adds what completes now to completions().
  void Poll();

  // The queue pair as an image; and its replacement by one made from an image,
  // with its own storage and a clock that is `shift` ahead of the caller's. If
  // the image is refused, nothing changes.
  std::vector<uint8_t> Image(Time now);
  ImageRefusal Become(std::span<const uint8_t> image, Time now, Duration shift);
  // From now on it moves at any moment, once in `every` times.
  void MoveNowAndThen(uint64_t seed, uint64_t every) {
    mover_ = Random(seed);
    move_every_ = every;
  }
  uint64_t moves() const { return moves_; }
  // The event since the last call: first that the send queue has drained, then
  // the last of all others.
  QpEvent TakeEvent();

  // Called by the queue pair.
  void Sent(const SendCompletion& sent);
  void Received(const RecvCompletion& done);
  void Flushed(const RecvCompletion& done);

  // Everything since the last call.
  std::vector<Completion> TakeCompletions();
  const std::vector<Completion>& completions() const { return completions_; }
  uint64_t CountOf(RxVerdict verdict) const {
    return counts_[static_cast<size_t>(verdict)];
  }

  const RoceCounters& counters() const { return counters_; }

  // Called before a placement is executed, with the bytes it will write.
  std::function<void(const Placement&)> on_place;
  // Called for each packet after its burst; for one that is held, again when it
  // has been due.
  std::function<void(const RxPacket&, RxVerdict)> on_packet;
  // Called after a burst, for each completion.
  std::function<void(const Completion&)> on_completion;

 private:
  struct Sink;
  class Frames;

  // What a move replaces. `ring`: null for its own.
  struct Core {
    Core(Endpoint& end, RecvRing* ring);

    std::vector<rc::SendRecord> records;
    std::vector<rc::ReplaySlot> replay;
    std::vector<urnic_sge> sges;
    RecvRing own_ring;
    RecvQueue receives;
    cc::SharedPath path;
    rc::Qp qp;
  };

  void MaybeMove(Time now);

  // A run and, as runs of their own, what was held and is due after it. The
  // verdicts on these are counted, and on_packet() gets them.
  size_t DeliverRun(std::span<const RxPacket> run, Time now,
                    std::vector<RxVerdict>& verdicts);
  void Process(std::span<const RxPacket> run, Time now,
               std::vector<RxVerdict>& verdicts);
  // Delivers all of them, and clears `packets`.
  void DeliverRuns(std::vector<RxPacket>& packets, Time now,
                   std::vector<RxVerdict>& verdicts);
  void ExecutePlacements(std::span<const Placement> placements,
                         std::span<RecvCompletion> completions);
  bool Execute(const Placement& placement);
  void CheckPlacement(const Placement& placement) const;
  bool Gather(const TxSlot& slot, Packet& packet) const;
  void OnResult(const FlowResult& result);
  void Report(const Completion& completion);

  FakeHost& host_;
  EndpointOptions options_;
  FakeRings rings_;
  RecvRing xrc_ring_;
  std::map<uint32_t, RecvRing*> shared_;  // by number, for XRC
  std::unique_ptr<Frames> frames_;
  RoceCounters counters_;
  std::unique_ptr<rc::RecoveryPool> pool_;
  std::unique_ptr<Core> core_;
  Duration clock_shift_;
  std::optional<Random> mover_;
  uint64_t move_every_ = 0;
  uint64_t moves_ = 0;
  std::vector<Completion> completions_;
  std::vector<uint64_t> counts_;
  bool drained_ = false;
  QpEvent event_ = QpEvent::kNone;
};

}  // namespace urnic::testing
