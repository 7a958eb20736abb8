"""What is broken on purpose, one place each."""

load("//tests/sim:mutants.bzl", "mutant")

def mutants():
    """Each is found by its simulator."""

    mutant(
        name = "mutant_executes_duplicates_test",
        old = "if (distance < 0) return OnDuplicate(packet);",
        new = "",
    )

    mutant(
        name = "mutant_executes_duplicate_atomics_test",
        old = "if (distance < 0) return OnDuplicate(packet);",
        new = "if (distance < 0 && packet.info->kind != wire::PacketKind::kAtomic) return OnDuplicate(packet);",
    )

    mutant(
        name = "mutant_ignores_gaps_test",
        old = "if (distance > 0) return OnGap(packet);",
        new = "",
    )

    mutant(
        name = "mutant_acks_before_reads_test",
        old = "while (count < slots.size() && replay_.AnyPending()) {",
        new = "if (!slots.empty() && AckWaits()) WriteAck(slots[count++]); while (count < slots.size() && replay_.AnyPending()) {",
    )

    mutant(
        name = "mutant_ack_completes_read_test",
        old = "clear = false;",
        new = "",
    )

    mutant(
        name = "mutant_resumes_at_start_test",
        old = "static_cast<uint32_t>(una_psn - record.first_psn) * config.mtu;",
        new = "0;",
    )

    mutant(
        name = "mutant_forgets_timer_test",
        old = "if (was_idle || s_.deadline().IsInfinite()) s_.ArmTimer(now);",
        new = "",
    )

    mutant(
        name = "mutant_keeps_its_part_of_the_path_test",
        old = "path->Account(charged, 0);",
        new = "",
    )

    mutant(
        name = "mutant_keeps_grants_test",
        old = "s_.granted = more ? s_.granted - std::min(s_.granted, count) : 0;",
        new = "",
    )

    mutant(
        name = "mutant_notifies_of_each_mark_test",
        old = "if (now < quiet_until) return;",
        new = "",
    )

    mutant(
        name = "mutant_probes_with_nothing_under_way_test",
        old = "} else if (s_.tx_psn == s_.una_psn) {",
        new = "} else if (false) {",
    )

    mutant(
        name = "mutant_believes_forged_answers_test",
        old = "if (unsent > 0 || (unsent == 0 && !IsSequenceNak(packet))) {",
        new = "if (false) {",
    )

    mutant(
        name = "mutant_paces_for_ever_test",
        old = "if (now >= s_.paced_until) s_.pace_waiting = false;",
        new = "",
    )

    mutant(
        name = "mutant_passes_failed_request_test",
        old = "for (; static_cast<int32_t>(assigned - index) > 0; --assigned) {",
        new = "for (; false;) {",
    )

    mutant(
        name = "mutant_ignores_rights_test",
        old = "info.first ? range.length : packet.payload_bytes, mem::kRemoteWrite);",
        new = "info.first ? range.length : packet.payload_bytes, 0);",
    )

    mutant(
        name = "mutant_keeps_faulted_completions_test",
        old = "if (done.packet < placement.packet) continue;",
        new = "continue;",
    )

    mutant(
        name = "mutant_refuses_after_duplicate_read_test",
        old = "if (oldest.pending && !oldest.answered) return nullptr;",
        new = "if (oldest.pending) return nullptr;",
    )

    mutant(
        name = "mutant_replays_read_from_start_test",
        old = "static_cast<uint64_t>(packet.psn() - slot->first_psn) * mtu_;",
        new = "0;",
    )

    mutant(
        name = "mutant_leaks_send_credits_test",
        old = "send_.sq.PublishConsumer(send_.head);",
        new = "",
    )

    mutant(
        name = "mutant_flushes_signaled_only_test",
        old = "return s_.flushing && PollFlush(out);",
        new = "return s_.flushing && PollFlush(out) && (s_.RecordOf(s_.head - 1).signaled || PollFlush(out));",
    )

    mutant(
        name = "mutant_ignores_fences_test",
        old = "return (s_.current.wqe.flags & URNIC_SEND_FENCE) != 0 &&",
        new = "return false &&",
    )

    mutant(
        name = "mutant_short_requests_ignore_keys_test",
        old = "return at.ok();",
        new = "if (!at.ok()) out.source = source; return true;",
    )

    mutant(
        name = "mutant_short_requests_pass_their_ring_test",
        old = "s_.posted - s_.next,",
        new = "s_.posted - s_.next + 1,",
    )

    mutant(
        name = "mutant_ignores_max_rd_atomic_test",
        old = "s_.reads_in_flight >= s_.config.max_rd_atomic) {",
        new = "false) {",
    )

    mutant(
        name = "mutant_completes_local_requests_too_far_test",
        old = "if (static_cast<int32_t>(una - next) > 0) SeekTransmit();",
        new = "",
    )

    mutant(
        name = "mutant_reports_answers_first_test",
        old = "done.sends_before = una;",
        new = "",
    )

    mutant(
        name = "mutant_reports_sends_too_early_test",
        old = "uint32_t limit = receive.sends_before;",
        new = "uint32_t limit = send_.una;",
    )

    mutant(
        name = "mutant_uc_joins_parts_test",
        new = "in_.message != KindOf(packet)",
        old = "(!follows || in_.message != KindOf(packet))",
        core = "unreliable",
    )

    mutant(
        name = "mutant_uc_goes_on_behind_a_gap_test",
        new = "!follows",
        old = "(!follows || in_.message != KindOf(packet))",
        core = "unreliable",
    )

    mutant(
        name = "mutant_ud_ignores_qkeys_test",
        new = "",
        old = "if (packet.deth().qkey.value() != config_.qkey) return RxVerdict::kBadQkey;",
        core = "unreliable",
    )

    mutant(
        name = "mutant_ud_takes_what_does_not_fit_test",
        new = "",
        old = "if (rq_->Capacity() < bytes) return RxVerdict::kTooLong;",
        core = "unreliable",
    )

    mutant(
        name = "mutant_images_forget_atomic_results_test",
        new = "f.Elsewhere(original);",
        old = "f(\"original\", original);",
    )

    mutant(
        name = "mutant_images_forget_timers_test",
        new = "f.Elsewhere(retry_at);",
        old = "f.Deadline(\"retry_at\", retry_at);",
    )

    mutant(
        name = "mutant_images_carry_a_clock_test",
        new = "static_cast<uint64_t>(time.ns())",
        old = "static_cast<uint64_t>((time - now_).ns())",
    )

    mutant(
        name = "mutant_images_forget_a_message_test",
        core = "unreliable",
        new = "f.Elsewhere(message);",
        old = "f(\"message\", message, uc::Qp::Message::kWrite, kMessages);",
    )

    mutant(
        name = "mutant_images_forget_receives_test",
        core = "unreliable",
        new = "",
        old = "f.Element(\"receive\", sges[i]);",
    )

    mutant(
        name = "mutant_cm_images_carry_a_clock_test",
        core = "cm",
        new = "static_cast<uint64_t>(time.ns())",
        old = "static_cast<uint64_t>((time - now_).ns())",
    )

    mutant(
        name = "mutant_cm_images_forget_tries_test",
        core = "cm",
        new = "f.Elsewhere(retries_left);",
        old = "f(\"retries_left\", retries_left);",
    )

    mutant(
        name = "mutant_cm_images_forget_who_has_answered_test",
        core = "cm",
        new = "f.Elsewhere(answered);",
        old = "f(\"answered\", answered);",
    )

    mutant(
        name = "mutant_cm_images_forget_orphans_test",
        core = "cm",
        new = "f.Elsewhere(orphan);",
        old = "f(\"orphan\", orphan);",
    )

    mutant(
        name = "mutant_cm_images_forget_listeners_test",
        core = "cm",
        new = "routing_.AddHalfOpen(*p, nullptr);",
        old = "routing_.AddHalfOpen(*p, routing_.FindListener(c.service_id));",
    )

    mutant(
        name = "mutant_cm_knows_no_moved_ids_test",
        core = "cm",
        new = "",
        old = "if (Place* p = FindAdopted(local_comm_id); p != nullptr) return p;",
    )

    mutant(
        name = "mutant_net_believes_lies_test",
        core = "net",
        new = "if (false) {",
        old = "if (IsUsed(entry)) {",
    )

    mutant(
        name = "mutant_net_never_believes_a_move_test",
        core = "net",
        new = "",
        old = "if (entry.probes == kProbes) return OnNoAnswer(at, now, sink);",
    )

    mutant(
        name = "mutant_net_keeps_the_generation_test",
        core = "net",
        new = "",
        old = "++entry.adjacency->generation_;",
    )

    mutant(
        name = "mutant_net_ignores_silence_test",
        core = "net",
        new = "return;",
        old = "if (entry.state != State::kKnown || now < entry.quiet_until) return;",
    )

    mutant(
        name = "mutant_net_doubts_who_answers_test",
        core = "net",
        new = "false &&",
        old = "in_doubt && !entry.has_candidate && IsUsed(entry) &&",
    )

    mutant(
        name = "mutant_net_forgets_who_is_used_test",
        core = "net",
        new = "if (true) {",
        old = "if (entries_[at].wanted == 0 && !IsUsed(entries_[at])) {",
    )

    mutant(
        name = "mutant_net_forgets_deadlines_test",
        core = "net",
        new = "",
        old = "if (!deadline.IsInfinite()) deadlines_.Set(at, deadline);",
    )

    mutant(
        name = "mutant_net_answers_one_question_test",
        core = "net",
        new = "questions_.Answer(at, PathStatus::kFound, neighbors_.At(neighbor)); break;",
        old = "questions_.Answer(at, PathStatus::kFound, neighbors_.At(neighbor));",
    )

    mutant(
        name = "mutant_net_forgets_the_last_fragment_test",
        core = "net",
        new = "",
        old = "if (i == before) message_.push_back(last.data);",
    )

    mutant(
        name = "mutant_net_keeps_fragments_test",
        core = "net",
        new = "",
        old = "ReleaseFrames(*whole_);",
    )

    mutant(
        name = "mutant_engine_never_frees_kept_frames_test",
        core = "engine",
        new = "",
        old = "rte_pktmbuf_free(frames_[number]);",
    )

    mutant(
        name = "mutant_engine_forgets_who_is_ready_test",
        core = "engine",
        new = "",
        old = "if (result.has_work) ready_.Push(flow);",
    )

    mutant(
        name = "mutant_engine_forgets_deferred_acks_test",
        core = "engine",
        new = "",
        old = "ready.PassOver(qp, passed_over);",
    )

    mutant(
        name = "mutant_engine_forgets_timeouts_test",
        core = "engine",
        new = "wheel_.Schedule(flow, result.deadline); return;",
        old = "if (result.timed_out) on_silence(flow);",
    )

    mutant(
        name = "mutant_engine_follows_nobody_test",
        core = "engine",
        new = "",
        old = "if (__builtin_expect(!IsCurrent(), 0)) Restamp();",
    )

    mutant(
        name = "mutant_engine_loses_what_the_port_refuses_test",
        core = "engine",
        new = "waiting_count_ = 0;",
        old = "if (waiting_count_ != 0) return false;",
    )

    # Moves between engines.
    mutant(
        name = "mutant_never_frees_what_was_held_test",
        old = "held_->ReleaseTaken();",
        new = "",
    )

    mutant(
        name = "mutant_repeats_from_the_wrong_packet_test",
        old = "s_.next_offset = static_cast<uint32_t>(psn - s_.RecordOf(index).first_psn) *",
        new = "s_.next_offset = 0 *",
    )

    mutant(
        name = "mutant_repair_moves_the_transmit_position_test",
        old = "s_.tx_psn = position.tx_psn;",
        new = "",
    )

    mutant(
        name = "mutant_never_goes_back_from_a_repair_test",
        old = "if (!repairer().TryAgain(now)) GoBackForNak(now);",
        new = "",
    )

    mutant(
        name = "mutant_asks_for_a_part_of_a_read_that_was_not_executed_test",
        old = "return answered || (!held.empty() && held.end() - s_.tx_psn > 0);",
        new = "return true;",
    )

    mutant(
        name = "mutant_never_drops_what_is_held_test",
        old = "void Responder::DropHeld() {",
        new = "void Responder::DropHeld() { return;",
    )

    mutant(
        name = "mutant_gaps_outlive_going_back_test",
        old = "timer.OnResend(sent_psn);",
        new = "timer.OnResend(sent_psn); silent = false; repair = Repair::kNone; probe = Probe::kNone; return SeekTransmit();",
    )

    mutant(
        name = "mutant_keeps_gaps_that_are_closed_test",
        old = "if (acked >= static_cast<int32_t>(gap.packets)) continue;",
        new = "",
    )

    mutant(
        name = "mutant_believes_reports_of_what_was_not_sent_test",
        old = "end = Earlier(end, sent);",
        new = "",
    )

    mutant(
        name = "mutant_forgets_what_was_acknowledged_behind_a_read_test",
        old = "if (s_.acked_end - s_.una_psn > 0) (void)AckBefore(s_.acked_end, now);",
        new = "",
    )

    mutant(
        name = "mutant_holds_what_names_a_queue_test",
        old = "if (xrc_ || psns == 0) return RxVerdict::kAfterGap;",
        new = "if (psns == 0) return RxVerdict::kAfterGap;",
    )

    mutant(
        name = "mutant_takes_what_follows_an_atomic_test",
        old = "if (EndsRun(view)) break;",
        new = "",
    )

    mutant(
        name = "mutant_repeats_local_requests_test",
        old = "if (s_.RecordOf(s_.next).executed()) {",
        new = "if (false) {",
    )

    mutant(
        name = "mutant_refuses_the_end_of_a_missing_part_test",
        old = "const bool may_end = ends_part || s_.peer_repeats_parts;",
        new = "const bool may_end = ends_part;",
    )

    # Logs of inputs, which are replayed.
    mutant(
        name = "mutant_inputs_forget_paths_test",
        core = "moves",
        new = "",
        old = "AddPath(core_.send_state().path);",
    )

    mutant(
        name = "mutant_inputs_forget_changed_keys_test",
        core = "moves",
        new = "Add(WorkInput::kKeyGone, {.large = 0});",
        old = "Add(WorkInput::kKeyGone, {.large = known.key});",
    )

    mutant(
        name = "mutant_inputs_forget_late_requests_test",
        core = "moves",
        new = "std::min(posted, 1u)",
        old = "std::min(posted, messages + kLocal)",
    )

    mutant(
        name = "mutant_moves_forget_timers_test",
        core = "moves",
        new = "",
        old = "parts_.flows->Apply(*qp, result);",
    )
