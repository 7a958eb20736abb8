#pragma once

// Tells both ends how a transfer has ended: the program at this end by an entry
// of the receive FIFO, the other end by an answer.
//
// Thread: the holder of the engine's token.

#include <cstdint>

#include "transport/rud/answers.h"
#include "transport/rud/context_pool.h"
#include "transport/rud/receive_fifo.h"

namespace urnic::rud {

class Notifier {
 public:
  // All outlive the notifier.
  Notifier(const ContextPool* contexts, ReceiveFifo* fifo, Answers* answers)
      : contexts_(*contexts), fifo_(*fifo), answers_(*answers) {}

  // An entry about the transfer of this context.
  urnic_rud_receive EntryOf(const Context& context, urnic_rud_entry type) const;
  // Adds such an entry, with the length of the transfer. It is written in
  // place: building and copying it took 5 % of the time of an 8-byte write.
  // False: the FIFO is full.
  bool Tell(const Context& context, urnic_rud_entry type, uint32_t total) {
    urnic_rud_receive* const to = fifo_.Next();
    if (to == nullptr) return false;
    to->bytes = to->stride = 0;
    to->source_window = context.other.window;
    to->peer = context.other.peer;
    to->context = IdOf(context).value();
    to->tid = context.tid;
    to->total = total;
    to->offset = 0;
    to->pvo = to->reserved[0] = to->reserved[1] = 0;
    fifo_.PushNext(
        {.type = static_cast<uint8_t>(type),
         .flags = static_cast<uint8_t>(context.marked ? URNIC_RUD_MARKED : 0),
         .path = context.path,
         .number = 0});
    return true;
  }
  // The transfer is complete, and its bytes are in memory. Tells those who
  // asked to be notified; the target only if it was not told before.
  void TellComplete(Context& context);
  // Tells which packets have arrived. `pvo`: the one that was refused, or 0.
  void TellState(const Context& context, const Party& to,
                 wire::RudReason reason, uint64_t pvo) const;
  // Tells the source, and the third party if it asked to be notified, that the
  // target, which is this end, has refused an access.
  void TellRefusal(const Context& context, uint64_t pvo) const;
  // This end, which is the target, refuses an access: ends the transfer, and
  // tells all.
  void End(Context& context, uint64_t pvo);

 private:
  ContextId IdOf(const Context& context) const {
    return {contexts_.NumberOf(context), context.key};
  }

  const ContextPool& contexts_;
  ReceiveFifo& fifo_;
  Answers& answers_;
};

}  // namespace urnic::rud
