#pragma once

// The sending half of a window: commands of the program, read requests of
// peers, and the answers to both.
//
// Thread: the holder of the engine's token.

#include <cstdint>
#include <span>

#include "ras/metrics/rx_verdict.h"
#include "transport/rud/answers.h"
#include "transport/rud/conditions.h"
#include "transport/rud/context_pool.h"
#include "transport/rud/notifier.h"
#include "transport/rud/receive_fifo.h"
#include "transport/rud/send_fifo.h"
#include "transport/rud/tce_tables.h"
#include "transport/rud/types.h"

namespace urnic::rud {

class Source {
 public:
  // All outlive the source.
  Source(const WindowConfig& config, ContextPool* contexts,
         const TceTables* tces, SendFifo* send, ReceiveFifo* receive,
         Answers* answers, Notifier* notifier, Conditions* conditions)
      : config_(config),
        contexts_(*contexts),
        tces_(*tces),
        send_(*send),
        receive_(*receive),
        answers_(*answers),
        notifier_(*notifier),
        conditions_(*conditions) {}

  RxVerdict OnReadRequest(const RxPacket& packet);
  RxVerdict OnCompletions(const RxPacket& packet);
  RxVerdict OnNotice(const RxPacket& packet);

  // There is something to send.
  bool HasWork() const {
    return !answers_.empty() || reads_ != 0 || HasCommand();
  }
  // Fills packets and returns how many. That may be none, since some commands
  // need no packet. Publish() tells the program which commands are done.
  uint32_t Transmit(std::span<TxPacket> packets);
  // Call this when the payload of all packets has been copied.
  void Publish() {
    send_.Publish();
    conditions_.Publish();
  }
  // The payload of the packet is not mapped.
  void OnGatherFault(const TxPacket& packet);
  // The window has failed: ends all commands and reads. Nothing more is sent.
  void Flush();
  // Call this before a context is released. If it answers a read, it stops.
  void Forget(uint32_t context);
  void ForgetAll();

  // A command named memory that the job may not access, or a read request a PVO
  // with a wrong key: the window must fail.
  bool failed() const { return failed_; }

 private:
  // Writes to the context what the answer says, and returns the entry for it.
  urnic_rud_receive AnswerOf(const RxPacket& packet, Context& context) const;

  enum class Step : uint8_t { kNothing, kPacket, kDone };

  bool HasCommand() const {
    return unsent_ != 0 || conditions_.HasReady() || send_.Waiting() != 0;
  }
  bool SendAnswer(TxPacket& out);
  uint32_t CompletionsThatFit() const;
  void SendCompletions(TxPacket& out);
  void SendNotice(TxPacket& out);
  // Who has requested what the context sends.
  static const Party& AskerOf(const Context& context);
  // The next packet of the first read. False: its memory may no longer be read.
  bool SendReadPacket(TxPacket& out);
  void EndRead(Context& context);
  // Sends a packet of the first command. kDone: the command needed no packet.
  Step SendCommand(TxPacket& out);
  void ReadCommand();
  // The command is done, with this result.
  void Finish(urnic_rud_status status);
  urnic_rud_status Begin();
  bool IsCountable() const;
  // The command sends another packet of a transfer from slots that has already
  // begun.
  bool IsNextOfSlots(const Context& context) const;
  // The payload of the command's only packet. REQUIRES: it has exactly one.
  uint32_t SlotPayloadBytes() const;
  // Whether a write from a slot is valid: it has one packet, which fits into
  // the slot.
  bool IsPacketOfSlot() const;
  // Whether the slot has a valid list of writes.
  bool IsList() const;
  urnic_rud_status BeginPacket();
  urnic_rud_status BeginWrite();
  urnic_rud_status BeginRead();
  urnic_rud_status BeginThirdRead();
  urnic_rud_status BeginAsking();
  urnic_rud_status BeginCancel();
  urnic_rud_status BeginOnCounter();
  // The local context of the command, if the command may begin a transfer on
  // it.
  urnic_rud_status TakeContext(Context*& context);
  // Begins a transfer that a peer completes. `awaits`: the peer sends us the
  // completion.
  void BeginTransfer(Context& context, bool awaits);
  // The next packet of the command. False: its memory may no longer be read.
  bool SendCommandPacket(TxPacket& out);
  bool SendOtherPacket(TxPacket& out);
  bool SendWritePacket(TxPacket& out);
  void AppendInline(TxPacket& out, uint32_t offset) const;

  // The base header of a packet; of a packet of the command; of an answer.
  wire::RudBase BaseOf(wire::RudType type, uint32_t window, uint8_t path) const;
  wire::RudBase BaseOf(wire::RudType type) const;
  wire::RudBase BaseOf(wire::RudType type, const Answer& answer) const;
  void AddRead(Context& context);
  void RemoveFirstRead();

  const WindowConfig& config_;
  ContextPool& contexts_;
  const TceTables& tces_;
  SendFifo& send_;
  ReceiveFifo& receive_;
  Answers& answers_;
  Notifier& notifier_;
  Conditions& conditions_;
  bool failed_ = false;
  bool reads_turn_ = false;
  uint64_t unsent_ = 0;  // packets of command_, a bit for each
  urnic_rud_send command_ = {};
  bool was_held_ = false;  // command_ comes from conditions_
  // The list of contexts that answer reads.
  uint32_t reads_ = 0;
  uint32_t first_read_ = 0;
  uint32_t last_read_ = 0;
};

}  // namespace urnic::rud
