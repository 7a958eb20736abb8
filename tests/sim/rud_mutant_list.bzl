"""RUD windows that are broken on purpose: tests/sim/rud_*run.h must notice."""

load("//tests/sim:mutants.bzl", "mutant")

def rud_mutants():
    """The mutants of //transport/rud."""
    _group_mutants()
    _mutant(
        name = "completes_with_the_last_packet",
        old = "if (context.arrived != wire::RudAllPackets(context.packets)) continue;",
        new = "if ((context.arrived >> (context.packets - 1)) == 0) continue;",
    )
    _mutant(
        name = "takes_stale_packets",
        old = "if (packet.transfer().tid.value() < context->tid) {",
        new = "if (false) {",
    )
    _mutant(
        name = "ignores_context_keys",
        old = "if (context->key != id.key) {",
        new = "if (false) {",
    )
    _mutant(
        name = "never_answers_again",
        old = "if (context.state == ContextState::kReceiving) return RxVerdict::kAccept;",
        new = "if (context.state != ContextState::kEnded) return RxVerdict::kAccept;",
    )
    _mutant(
        name = "places_a_complete_read_again",
        old = "if (is_same && context->state == ContextState::kReceived) {",
        new = "if (false) {",
    )
    _mutant(
        name = "tells_the_state_of_another_transfer",
        old = "if (TransferOf(tid) != TransferOf(context->tid))",
        new = "if (false)",
    )
    _mutant(
        name = "believes_stale_completions",
        old = "if (TransferOf(context->tid) != TransferOf(done.tid.value()) ||",
        new = "if (",
    )
    _mutant(
        name = "gives_a_context_the_same_key",
        old = "const uint32_t uses = context.key + 1;",
        new = "const uint32_t uses = context.key;",
    )
    _mutant(
        name = "tells_the_target_twice",
        old = "context.owes_target = !Tell(",
        new = "(void)Tell(",
    )

    _mutant(
        name = "tells_of_a_refusal_before_the_burst_ends",
        old = "(void)fifo_.Push(entry, {});",
        new = "(void)fifo_.Push(entry, {}); fifo_.Publish();",
    )
    _mutant(
        name = "answers_along_the_path_of_the_first_attempt",
        old = "context.path = packet.base->path;",
        new = "",
    )
    _mutant(
        name = "says_that_all_is_there_before_it_is_complete",
        old = "context->arrived == wire::RudAllPackets(context->packets)) {",
        new = "false) {",
    )
    _mutant(
        name = "sends_third_party_data_to_who_has_asked",
        old = "context->other = {packet.third_peer, target.number(), IdOf(read.target)};",
        new = "context->other = SenderOf(packet, read.target);",
    )
    _mutant(
        name = "tells_the_source_for_the_third_party",
        old = "if ((context.notify & wire::kRudNotifyThird) != 0) tell(context.third);",
        new = "if ((context.notify & wire::kRudNotifyThird) != 0) tell(context.other);",
    )
    _mutant(
        name = "counts_each_completion",
        old = "if (context->counter != 0 && !std::exchange(context->counted, true))",
        new = "if (context->counter != 0)",
    )
    _mutant(
        name = "releases_too_early",
        old = "values_[command.condition] >= command.value;",
        new = "values_[command.condition] + 1 >= command.value;",
    )

def _group_mutants():
    _mutant(
        name = "group_takes_any_key",
        old = ": packet.group->key;",
        new = ": packet.base->key.value();",
    )
    _mutant(
        name = "group_has_no_bounds",
        old = "if (offset > bytes || length > bytes - offset) return std::nullopt;",
        new = "",
    )
    _mutant(
        name = "group_adds_offsets_that_overflow",
        old = "if (offset > bytes || length > bytes - offset) return std::nullopt;",
        new = "if (offset + length > bytes) return std::nullopt;",
    )
    _mutant(
        name = "group_takes_another_context",
        old = "return contexts[number];",
        new = "return contexts[number / 2];",
    )
    _mutant(
        name = "group_takes_a_context_for_any_number",
        old = "if (number >= contexts.size()) return std::nullopt;",
        new = "number %= contexts.size();",
    )
    _mutant(
        name = "first_member_ends_the_wait",
        old = "if (context->to_group) {",
        new = "if (false) {",
    )
    _mutant(
        name = "repair_ends_the_wait_for_the_group",
        old = "(context.to_group && is_same)",
        new = "false",
    )
    _mutant(
        name = "waits_for_a_group_forever",
        old = "(context.to_group && is_same)",
        new = "context.to_group",
    )
    _mutant(
        name = "refusal_of_a_member_ends_the_wait",
        old = "if (refused && !context->to_group) {",
        new = "if (refused) {",
    )
    _mutant(
        name = "takes_the_answer_to_the_last_question_only",
        old = "? TransferOf(context->tid) != TransferOf(tid)",
        new = "? context->tid != tid",
    )
    _mutant(
        name = "tells_a_state_of_the_last_attempt",
        old = "entry.tid = tid;",
        new = "",
    )

def _mutant(name, old, new):
    mutant(
        name = "mutant_rud_%s_test" % name,
        old = old,
        new = new,
        core = "rud",
    )
