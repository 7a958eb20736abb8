#pragma once

// The sending half of a window: commands of the program, read requests of
// peers, and what is answered to both.
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

  // Something can be sent.
  bool HasWork() const {
    return !answers_.empty() || reads_ != 0 || HasCommand();
  }
  // Fills packets, and returns how many: also none, if commands needed none.
  // The program learns by Publish() which commands are done.
  uint32_t Transmit(std::span<TxPacket> packets);
  // The payload of all packets has been copied.
  void Publish() {
    send_.Publish();
    conditions_.Publish();
  }
  // The payload of a packet is not there.
  void OnGatherFault(const TxPacket& packet);
  // The window has failed: nothing is sent any more.
  void Flush();
  // Before the context is released: it answers nothing any more.
  void Forget(uint32_t context);
  void ForgetAll();

  // A command named memory that the job may not access: the window fails.
  bool failed() const { return failed_; }

 private:
  // The context as an answer leaves it, and the entry that tells of it.
  urnic_rud_receive AnswerOf(const RxPacket& packet, Context& context) const;

  enum class Step : uint8_t { kNothing, kPacket, kDone };

  bool HasCommand() const {
    return unsent_ != 0 || conditions_.HasReady() || send_.Waiting() != 0;
  }
  bool SendAnswer(TxPacket& out);
  uint32_t CompletionsThatFit() const;
  void SendCompletions(TxPacket& out);
  void SendNotice(TxPacket& out);
  // Who has asked for what the context sends.
  static const Party& AskerOf(const Context& context);
  // False: its memory may no longer be read.
  bool SendReadPacket(TxPacket& out);
  void EndRead(Context& context);
  // Sends what the first command needs; kDone: it needed no packet.
  Step SendCommand(TxPacket& out);
  void ReadCommand();
  // What has become of the command.
  void Finish(urnic_rud_status status);
  urnic_rud_status Begin();
  bool IsCountable() const;
  // It is another packet of the transfer that its context has begun from slots.
  bool IsNextOfSlots(const Context& context) const;
  // The payload of the command's one packet. REQUIRES: it has one
  uint32_t SlotPayloadBytes() const;
  // A write from a slot has one packet, which the slot holds.
  bool IsPacketOfSlot() const;
  // Writes to one window, which end with the packet.
  bool IsList() const;
  urnic_rud_status BeginPacket();
  urnic_rud_status BeginWrite();
  urnic_rud_status BeginRead();
  urnic_rud_status BeginThirdRead();
  urnic_rud_status BeginAsking();
  urnic_rud_status BeginCancel();
  urnic_rud_status BeginOnCounter();
  // The local context of the command, for a larger tid.
  urnic_rud_status TakeContext(Context*& context);
  // A transfer that peers complete: it is told, or not, to this end.
  void BeginTransfer(Context& context, bool awaits);
  // False: the memory of the command may no longer be read.
  bool SendCommandPacket(TxPacket& out);
  bool SendOtherPacket(TxPacket& out);
  bool SendWritePacket(TxPacket& out);
  void AppendInline(TxPacket& out, uint32_t offset) const;

  // Of a packet; of one of the command; of one that answers.
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
  uint64_t unsent_ = 0;  // packets of command_
  urnic_rud_send command_ = {};
  bool was_held_ = false;  // command_ is one of conditions_
  // Contexts that answer reads: a list.
  uint32_t reads_ = 0;
  uint32_t first_read_ = 0;
  uint32_t last_read_ = 0;
};

}  // namespace urnic::rud
