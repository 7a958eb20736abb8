"""What is broken on purpose in the shared window, in congestion control by
delay, and in repairs under congestion, one place each."""

load("//tests/sim:mutants.bzl", "mutant")

def congestion_mutants():
    """Each misses a bound of the table of congestion."""

    mutant(
        name = "mutant_never_drains_the_queue_test",
        core = "congestion",
        only = "incast 16:1, QPs each: 16",
        old = "return number(now) != number(drained_at);",
        new = "return false;",
    )

    mutant(
        name = "mutant_cuts_no_small_window_at_losses_test",
        core = "congestion",
        only = "incast 16:1, QPs each: 16",
        old = "const bool few = lost <= std::max(all / kFewLost, 3u);",
        new = "const bool few = true;",
    )

    mutant(
        name = "mutant_ignores_long_round_trips_test",
        core = "congestion",
        only = "later",
        old = "if (competes || JustCut(now)) return;",
        new = "return;",
    )

    mutant(
        name = "mutant_leaves_small_windows_no_longer_queue_test",
        core = "congestion",
        only = "later",
        old = "std::max<int64_t>(small, 0)",
        new = "0",
    )

    mutant(
        name = "mutant_fills_the_path_each_for_itself_test",
        core = "congestion",
        only = "incast 4:1, QPs each: 1",
        old = "return under_way < window ? window - under_way : 0;",
        new = "return window;",
    )

    mutant(
        name = "mutant_counts_no_grants_test",
        core = "congestion",
        only = "sharing, QPs: 16",
        old = "(silent ? 0 : InFlight()) + granted",
        new = "(silent ? 0 : InFlight())",
    )

    mutant(
        name = "mutant_lets_turns_become_short_test",
        core = "congestion",
        only = "small, QPs: 1 + 16",
        old = "return room >= std::clamp(cc.AckEvery() / 2, 1u, kGrant) ||",
        new = "return room != 0 ||",
    )

    mutant(
        name = "mutant_passes_those_who_wait_test",
        core = "congestion",
        only = "small, QPs: 1 + 16",
        old = "(path->waiting == 0 ? path->Room() : 0)",
        new = "path->Room()",
    )

    mutant(
        name = "mutant_lets_nobody_go_first_test",
        core = "congestion",
        only = "small, QPs: 1 + 1",
        old = "(destination.first_next && !first.empty());",
        new = "false;",
    )

    mutant(
        name = "mutant_counts_silent_queue_pairs_test",
        core = "congestion",
        only = "dead peer, QPs: 3 + 1",
        old = "(silent ? 0 : InFlight()) + granted",
        new = "InFlight() + granted",
    )

    mutant(
        name = "mutant_sends_into_silence_test",
        core = "congestion",
        only = "incast 100:1, QPs each: 1",
        old = "if (silent) return InFlight();",
        new = "",
    )

    mutant(
        name = "mutant_learns_nothing_from_a_drained_queue_test",
        core = "congestion",
        only = "later",
        old = "LearnShortest(std::min(shortest_drained, before));",
        new = "",
    )

    mutant(
        name = "mutant_young_flows_drain_as_rarely_as_others_test",
        core = "congestion",
        only = "later",
        old = "std::clamp<int>(std::bit_width(age) - 3, kFirstDrains, kLaterDrains);",
        new = "kLaterDrains;",
    )

    mutant(
        name = "mutant_knows_no_little_requests_test",
        core = "congestion",
        only = "small, QPs: 1 + 16",
        old = "return little ? PathWait::kFirst : PathWait::kInTurn;",
        new = "return PathWait::kInTurn;",
    )

    mutant(
        name = "mutant_the_oldest_gap_waits_for_room_test",
        core = "congestion",
        only = "incast 100:1, QPs each: 1",
        old = "s_.recovery->gaps.FirstDue().begin == s_.una_psn));",
        new = "false));",
    )

    mutant(
        name = "mutant_repeats_without_room_test",
        core = "congestion",
        only = "incast 100:1, QPs each: 1",
        old = "if (MayGo(limit)) limit = std::max(limit, in_flight + 1);",
        new = "limit = in_flight + 4096;",
    )

    mutant(
        name = "mutant_sends_more_than_the_peer_can_hold_test",
        core = "congestion",
        only = "long, hosts: 1",
        old = "if (missing == 0) s_.path->OnNotHeld();",
        new = "",
    )

    mutant(
        name = "mutant_paces_no_long_path_test",
        core = "congestion",
        only = "long, hosts",
        old = "} else if (Paces()) {",
        new = "} else if (false) {",
    )

    mutant(
        name = "mutant_believes_that_unreported_packets_are_under_way_test",
        core = "congestion",
        only = "long, hosts",
        old = "if (end - known_end_ > 0) known_end_ = end;",
        new = "if (end - known_end_ > 0) known_end_ = gaps_[count_ - 1].end();",
    )

    mutant(
        name = "mutant_ignores_what_a_repair_overtook_test",
        core = "congestion",
        only = "long, hosts",
        old = "if (mark_sent_ - end > 0) end = mark_sent_;",
        new = "",
    )

    mutant(
        name = "mutant_ignores_notifications_of_congestion_test",
        core = "congestion",
        only = "marks, hosts: 16",
        old = "s_.path->cc.OnCnp(now);",
        new = "(void)now;",
    )

    mutant(
        name = "mutant_keeps_losses_to_itself_test",
        core = "congestion",
        only = "incast 16:1, QPs each: 16",
        old = "if (lost != 0 && s_.path->cc.OnLoss(now, lost) && many)",
        new = "if (false)",
    )

    mutant(
        name = "mutant_believes_the_latest_of_long_round_trips_test",
        core = "congestion",
        only = "small, QPs: 1 + 16",
        old = "row_least = std::min(row_least, ns);",
        new = "row_least = ns;",
    )

    mutant(
        name = "mutant_forgets_losses_too_soon_test",
        core = "congestion",
        only = "incast 100:1, QPs each: 1",
        old = "if (now - lost_since > round_trip && heard >= kLossPeriod) {",
        new = "if (now - lost_since > round_trip) {",
    )

    mutant(
        name = "mutant_grows_while_round_trips_are_long_test",
        core = "congestion",
        only = "incast 100:1, QPs each: 1",
        old = "if (above != 0 && !competes) return;",
        new = "",
    )

    mutant(
        name = "mutant_asks_once_in_a_window_test",
        core = "congestion",
        only = "dead peer, QPs: 3",
        old = "window() >> ack_shift",
        new = "window()",
    )

    mutant(
        name = "mutant_never_sends_a_probe_test",
        core = "congestion",
        only = "dead peer, QPs: 3 + 1",
        old = "s_.probe = Probe::kDue;",
        new = "",
    )

    mutant(
        name = "mutant_never_finds_its_window_full_test",
        core = "congestion",
        only = "incast 4:1, QPs each: 1",
        old = "if (RoomInPort() >= RoomInWindow()) cc.OnFull(now);",
        new = "",
    )

    mutant(
        name = "mutant_keeps_the_next_gap_to_itself_test",
        core = "congestion",
        only = "incast 100:1, QPs each: 1",
        old = "if (missing) ReportGap();",
        new = "",
    )
