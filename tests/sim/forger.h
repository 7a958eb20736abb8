#pragma once

// A stranger on the network of two machines. He knows their addresses and the
// numbers of their queue pairs, but not the PSNs under way. He sends frames
// with a valid ICRC. None of them may change a byte of memory, complete or fail
// a request, or stop a connection. (Whoever guesses a PSN can do what its owner
// could, in every implementation of RoCE.)

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "tests/sim/rc_end.h"
#include "tests/sim/world.h"
#include "transport/net/path.h"
#include "transport/rc/qp.h"
#include "transport/rc/send_state.h"
#include "transport/wire/packet.h"

namespace urnic::sim {

class Forger {
 public:
  explicit Forger(uint64_t seed) : random_(seed) {}

  // A frame to the queue pair `to`, along the path by which its peer sends.
  // REQUIRES: it is in RTS, and not of XRC.
  Frame Forge(const RcEnd& to, const net::Path& path) {
    wire::PacketFields fields;
    fields.dest_qp = Qpn{to.qpn()};
    fields.payload = bytes_;
    for (uint8_t& byte : bytes_) byte = random_.Byte();
    switch (random_.Below(4)) {
      case 0:
        fields.opcode = static_cast<uint8_t>(wire::Opcode::kCnp);
        fields.becn = true;
        break;
      case 1:
        FutureRequest(to.core(), fields);
        break;
      case 2:
        OldRequest(to.core(), fields);
        break;
      default:
        Answer(to.core(), fields);
    }
    Frame frame(kFrameBytes);
    frame.resize(wire::EmitFrame(path.headers, fields, frame));
    return frame;
  }

 private:
  using Opcode = wire::Opcode;

  static constexpr size_t kFrameBytes = 512;
  static constexpr size_t kPayloadBytes = 64;
  // Farther ahead than anything that is held, but not behind what is expected.
  static constexpr uint32_t kFar = 4096;
  static constexpr uint32_t kRange = 1u << 20;

  int32_t Distance(uint32_t least, uint32_t range) {
    return static_cast<int32_t>(least + random_.Below(range));
  }
  void Choose(std::span<const Opcode> opcodes, wire::PacketFields& fields) {
    fields.opcode =
        static_cast<uint8_t>(opcodes[random_.Below(opcodes.size())]);
    fields.rkey = static_cast<uint32_t>(random_.Next());
    fields.virtual_address = random_.Next();
    fields.dma_length = kPayloadBytes;
    fields.ack_requested = random_.OneIn(2);
    // The mark of a repair: the responder may then report more.
    if (random_.OneIn(2))
      fields.repair = static_cast<uint8_t>(random_.Below(64));
  }

  void FutureRequest(const rc::Qp& qp, wire::PacketFields& fields) {
    static constexpr Opcode kOpcodes[] = {
        Opcode::kRcSendOnly, Opcode::kRcWriteOnly, Opcode::kRcReadRequest,
        Opcode::kRcFetchAdd, Opcode::kRcWriteMiddle};
    Choose(kOpcodes, fields);
    fields.psn = qp.recv_psn() + Distance(kFar, kRange);
  }
  // Not a read or an atomic: who names an old one with its key gets its answer
  // again, and the peer may take that for the answer that it waits for.
  void OldRequest(const rc::Qp& qp, wire::PacketFields& fields) {
    static constexpr Opcode kOpcodes[] = {
        Opcode::kRcSendOnly, Opcode::kRcWriteOnly, Opcode::kRcWriteMiddle};
    Choose(kOpcodes, fields);
    fields.psn = qp.recv_psn() + -Distance(1, random_.OneIn(2) ? 64 : kRange);
  }
  // To what was never sent, or to what was acknowledged. (The last of that may
  // be acknowledged again, with a report of what is missing behind it.)
  void Answer(const rc::Qp& qp, wire::PacketFields& fields) {
    static constexpr Opcode kOpcodes[] = {
        Opcode::kRcAcknowledge,        Opcode::kRcAcknowledge,
        Opcode::kRcAcknowledge,        Opcode::kRcReadResponseOnly,
        Opcode::kRcReadResponseMiddle, Opcode::kRcAtomicAcknowledge};
    static constexpr uint8_t kSyndromes[] = {
        wire::kAethAck | wire::kAethCreditsInvalid, wire::kAethRnrNak | 1,
        wire::kNakPsnSequenceError, wire::kNakRemoteAccessError,
        wire::kNakRemoteOperationalError};
    Choose(kOpcodes, fields);
    fields.syndrome = kSyndromes[random_.Below(std::size(kSyndromes))];
    const rc::SendState& state = qp.send_state();
    // What is posted may be sent meanwhile.
    fields.psn = random_.OneIn(2) ? state.next_psn + Distance(kFar, kRange)
                                  : state.una_psn + -Distance(2, kRange);
  }

  Random random_;
  uint8_t bytes_[kPayloadBytes] = {};
};

}  // namespace urnic::sim
