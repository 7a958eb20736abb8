#include "transport/rud/notifier.h"

namespace urnic::rud {

urnic_rud_receive Notifier::EntryOf(const Context& context,
                                    urnic_rud_entry type) const {
  urnic_rud_receive entry = {};
  entry.type = static_cast<uint8_t>(type);
  entry.flags = context.marked ? URNIC_RUD_MARKED : 0;
  entry.path = context.path;
  entry.source_window = context.peer_window;
  entry.peer = context.peer;
  entry.context = IdOf(context).value();
  entry.tid = context.tid;
  return entry;
}

void Notifier::TellComplete(Context& context) {
  if (context.owes_target) {
    context.owes_target = !Tell(context, URNIC_RUD_GOT_TRANSFER, context.total);
  }
  if ((context.notify & wire::kRudNotifySource) == 0) return;
  (void)answers_.Add({.marked = context.marked,
                      .path = context.path,
                      .peer = context.peer,
                      .window = context.peer_window,
                      .context = context.peer_context,
                      .local = IdOf(context),
                      .tid = context.tid});
}

void Notifier::TellOther(const Context& context, wire::RudReason reason,
                         uint64_t pvo) const {
  (void)answers_.Add({.is_notice = true,
                      .marked = context.marked,
                      .path = context.path,
                      .reason = reason,
                      .peer = context.peer,
                      .window = context.peer_window,
                      .context = context.peer_context,
                      .local = IdOf(context),
                      .tid = context.tid,
                      .arrived = context.arrived,
                      .pvo = pvo});
}

void Notifier::End(Context& context, uint64_t pvo) {
  context.state = ContextState::kEnded;
  context.is_own = false;
  urnic_rud_receive entry = EntryOf(context, URNIC_RUD_GOT_REFUSAL);
  entry.arrived = context.arrived;
  entry.pvo = pvo;
  (void)fifo_.Push(entry, {});
  TellOther(context, wire::RudReason::kAccess, pvo);
}

}  // namespace urnic::rud
