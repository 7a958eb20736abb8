#pragma once

// Tells the two ends of a transfer what has become of it: its own end by an
// entry of the receive FIFO, the other one by an answer.
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

  // An entry about a transfer of this context.
  urnic_rud_receive EntryOf(const Context& context, urnic_rud_entry type) const;
  // The transfer is complete, and its bytes are in memory: tells those that
  // want to know, and the target only if it was not told before.
  void TellComplete(Context& context);
  // What has arrived. `pvo`: that was refused, or 0.
  void TellState(const Context& context, const Party& to,
                 wire::RudReason reason, uint64_t pvo) const;
  // Memory was refused at this end, which is the target: to the source, and to
  // the third party.
  void TellRefusal(const Context& context, uint64_t pvo) const;
  // Memory was refused at this end, which is the target: the transfer has
  // ended.
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
