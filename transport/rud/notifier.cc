#include "transport/rud/notifier.h"

#include "transport/base/mutation.h"

namespace urnic::rud {

urnic_rud_receive Notifier::EntryOf(const Context& context,
                                    urnic_rud_entry type) const {
  urnic_rud_receive entry = {};
  entry.type = static_cast<uint8_t>(type);
  entry.flags = context.marked ? URNIC_RUD_MARKED : 0;
  entry.path = context.path;
  entry.source_window = context.other.window;
  entry.peer = context.other.peer;
  entry.context = IdOf(context).value();
  entry.tid = context.tid;
  return entry;
}

void Notifier::TellComplete(Context& context) {
  if (context.owes_target) {
    context.owes_target =
        !Tell(context, URNIC_RUD_GOT_TRANSFER, context.total) ||
        MUTATION(rud_tells_the_target_twice, false, true);
  }
  const auto tell = [&](const Party& to) {
    (void)answers_.Add({.marked = context.marked,
                        .path = context.path,
                        .to = to,
                        .local = IdOf(context),
                        .tid = context.tid});
  };
  if ((context.notify & wire::kRudNotifySource) != 0) tell(context.other);
  // Document C: the completion of third-party data goes to the window in the
  // new field of the header.
  if ((context.notify & wire::kRudNotifyThird) != 0)
    tell(MUTATION(rud_tells_the_source_for_the_third_party, context.third,
                  context.other));
}

void Notifier::TellState(const Context& context, const Party& to,
                         wire::RudReason reason, uint64_t pvo) const {
  (void)answers_.Add({.is_notice = true,
                      .marked = context.marked,
                      .path = context.path,
                      .reason = reason,
                      .to = to,
                      .local = IdOf(context),
                      .tid = context.tid,
                      .arrived = context.arrived,
                      .pvo = pvo});
}

void Notifier::TellRefusal(const Context& context, uint64_t pvo) const {
  TellState(context, context.other, wire::RudReason::kAccess, pvo);
  if ((context.notify & wire::kRudNotifyThird) != 0)
    TellState(context, context.third, wire::RudReason::kAccess, pvo);
}

void Notifier::End(Context& context, uint64_t pvo) {
  context.state = ContextState::kEnded;
  context.is_own = false;
  urnic_rud_receive entry = EntryOf(context, URNIC_RUD_GOT_REFUSAL);
  entry.arrived = context.arrived;
  entry.pvo = pvo;
  (void)fifo_.Push(entry, {});
  MUTATION_ADDS(rud_tells_of_a_refusal_before_the_burst_ends, fifo_.Publish();)
  TellRefusal(context, pvo);
}

}  // namespace urnic::rud
