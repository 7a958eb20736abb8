"""What is broken on purpose in selective repeat and in the answers to forged
packets, one place each. A simulator repairs such faults by other means sooner or
later, so a packet script that shows the rule has to find each."""

load("//tests/sim:mutants.bzl", "mutant")

def script_mutants():
    """Each fails its script."""

    mutant(
        name = "mutant_holds_behind_a_missing_receive_test",
        core = "scripts",
        only = "rnr_drops_what_follows",
        old = "if (reported_ == Reported::kNotReady) {",
        new = "if (false) {",
    )

    mutant(
        name = "mutant_holds_one_of_two_that_differ_test",
        core = "scripts",
        only = "held_twice_and_held_conflict",
        old = "return Result::kConflict;",
        new = "return Insert(missing, packet, psns);",
    )

    mutant(
        name = "mutant_tells_everybody_what_is_held_test",
        core = "scripts",
        only = "held_behind_a_gap",
        old = "if (!peer_marks_) return;",
        new = "",
    )

    mutant(
        name = "mutant_believes_any_mark_test",
        core = "scripts",
        only = "marks_count_on_what_is_executed",
        old = "packet.bth->repair() != 0 && executed",
        new = "packet.bth->repair() != 0",
    )

    mutant(
        name = "mutant_says_nothing_of_the_next_gap_test",
        core = "scripts",
        only = "held_bitmap_for_a_peer_that_marks",
        old = "if (missing) ReportGap();",
        new = "",
    )

    mutant(
        name = "mutant_repeats_no_report_test",
        core = "scripts",
        only = "held_bitmap_for_a_peer_that_marks",
        old = "if (peer_marks_ && held && (another || packet.bth->ack_requested())) {",
        new = "if (false) {",
    )

    mutant(
        name = "mutant_marks_no_repair_test",
        core = "scripts",
        only = "repair_of_a_gap",
        old = "reinterpret_cast<wire::Bth*>(slot.headers)->SetRepair(1);",
        new = "",
    )

    mutant(
        name = "mutant_repairs_twice_in_a_round_trip_test",
        core = "scripts",
        only = "repair_of_what_a_bitmap_lacks",
        old = "now - part.since > round_trip) {",
        new = "true) {",
    )

    mutant(
        name = "mutant_waits_for_no_reordering_test",
        core = "scripts",
        only = "repair_waits_for_reordering",
        old = "s_.path->reordering_ns = static_cast<uint32_t>(std::min(wait, most));",
        new = "",
    )

    mutant(
        name = "mutant_believes_answers_to_what_was_not_sent_test",
        core = "scripts",
        only = "nak_of_the_first_unsent_psn",
        old = "if (unsent > 0 || (unsent == 0 && !IsSequenceNak(packet))) {",
        new = "if (false) {",
    )

    mutant(
        name = "mutant_believes_naks_sooner_than_a_round_trip_test",
        core = "scripts",
        only = "nak_sooner_than_a_round_trip",
        old = "const bool too_soon = now - s_.sent_since < path.Shortest();",
        new = "const bool too_soon = false;",
    )

    mutant(
        name = "mutant_doubts_no_nak_test",
        core = "scripts",
        only = "nak_after_a_needless_rewind",
        old = "if (!too_soon && s_.nak_doubt == 0) return GoBackForNak(now);",
        new = "if (!too_soon) return GoBackForNak(now);",
    )

    mutant(
        name = "mutant_a_nak_uses_up_a_retry_test",
        core = "scripts",
        only = "nak_sequence_uses_no_retry",
        old = "if (why == Why::kLoss) {",
        new = "if (false) {",
    )

    mutant(
        name = "mutant_holds_what_is_too_far_ahead_test",
        core = "scripts",
        only = "held_too_far_ahead",
        old = "begin - (empty() ? missing : this->end()) > kGapMax ||",
        new = "",
    )

    mutant(
        name = "mutant_sends_in_an_rnr_wait_test",
        core = "scripts",
        only = "nothing_is_sent_in_an_rnr_wait",
        old = "s_.running && !s_.rnr_waiting && !s_.pace_waiting) {",
        new = "s_.running && !s_.pace_waiting) {",
    )
