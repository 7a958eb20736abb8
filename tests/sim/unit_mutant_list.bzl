"""Faults that no simulated network reveals, because its flows adapt to them.
The unit test of the broken part has to find each."""

load("//tests/sim:mutants.bzl", "mutant")

def unit_mutants():
    """Each fails a test of its part."""

    mutant(
        name = "mutant_fills_the_port_with_one_path_test",
        core = "unit",
        only = "//transport/cc:shared_path_test.cc",
        old = "if (left > mine) return (left - mine + 1) / 2;",
        new = "if (left > mine) return left;",
    )

    mutant(
        name = "mutant_counts_nothing_in_the_port_test",
        core = "unit",
        only = "//transport/cc:shared_path_test.cc",
        old = "port->under_way += now_in_port - in_port;",
        new = "",
    )

    mutant(
        name = "mutant_forgers_stop_a_path_test",
        core = "unit",
        only = "//transport/cc:delay_window_test.cc",
        old = "std::min(before, kMarkedFloor)",
        new = "kFloor",
    )

    mutant(
        name = "mutant_begins_with_a_whole_window_test",
        core = "unit",
        only = "//transport/cc:delay_window_test.cc",
        old = "cwnd = before_cut = std::min(quiet, kInitial);",
        new = "cwnd = before_cut = quiet;",
    )

    mutant(
        name = "mutant_trusts_a_round_trip_behind_others_test",
        core = "unit",
        only = "//transport/cc:delay_window_test.cc",
        old = "doubted |= !few && before < quiet;",
        new = "",
    )

    mutant(
        name = "mutant_undoes_what_marks_have_cut_test",
        core = "unit",
        only = "//transport/cc:delay_window_test.cc",
        old = "before_cut = 0;  // this cut is never undone",
        new = "",
    )

    mutant(
        name = "mutant_takes_losses_for_congestion_test",
        core = "unit",
        only = "//transport/cc:delay_window_test.cc",
        old = "if (few && quick && !competes) return false;",
        new = "",
    )

    mutant(
        name = "mutant_never_competes_test",
        core = "unit",
        only = "//transport/cc:delay_window_test.cc",
        old = "(competed ? kPatience / 4 : kPatience) * int64_t{ns}) {",
        new = "INT64_MAX) {",
    )

    mutant(
        name = "mutant_competes_again_as_late_test",
        core = "unit",
        only = "//transport/cc:delay_window_test.cc",
        old = "competed = std::exchange(competes, false);",
        new = "competes = false;",
    )

    mutant(
        name = "mutant_counts_losses_of_one_overflow_again_test",
        core = "unit",
        only = "//transport/rc:gaps_test.cc",
        old = "forgiven_end_ = sent;",
        new = "",
    )

    mutant(
        name = "mutant_repeats_part_of_a_gap_for_ever_test",
        core = "unit",
        only = "//transport/rc:gaps_test.cc",
        old = "if (repeated < gap.packets) SplitAfter(i, repeated);",
        new = "if (repeated < gap.packets) { if (count_ == kMax) break; SplitAfter(i, repeated); }",
    )

    mutant(
        name = "mutant_executes_what_is_held_out_of_order_test",
        core = "unit",
        only = "//transport/rc:held_packets_test.cc",
        old = "while (count < out.size() && head_ != kNone && At(head_).psn == next) {",
        new = "while (count < out.size() && head_ != kNone) {",
    )

    mutant(
        name = "mutant_keeps_bursts_long_test",
        core = "unit",
        only = "//datapath/engine:burst_limit_test.cc",
        old = "large_ != 0 && small_ != 0 ? kFew : kBurstMax;",
        new = "kBurstMax;",
    )
