"""Upper layers of RUD that are broken on purpose: upper_run.h must notice."""

load("//tests/sim:mutants.bzl", "mutant")

def rud_upper_mutants():
    """The mutants of //transport/rud/upper."""
    _mutant(
        name = "hands_a_message_out_twice",
        old = "if (taken_.Take(tag.sequence))",
        new = "if (taken_.Take(tag.sequence) || true)",
    )
    _mutant(
        name = "counts_a_packet_twice",
        old = "if ((message->bits[tag.unit] & bit) != 0) {",
        new = "if (false) {",
    )
    _mutant(
        name = "leaves_a_context_without_a_fence",
        old = "if (lane.kind != UnitKind::kRead) return handshake_.Fence(lane);",
        new = "if (lane.kind != UnitKind::kRead) return GiveUnitBack(lane);",
    )
    _mutant(
        name = "leaves_a_read_with_its_context",
        old = "if (Move(lane, *lane.pair)) return GiveUnitBack(lane);",
        new = "return GiveUnitBack(lane);",
    )
    _mutant(
        name = "hears_another_life",
        old = "if (tag.from.value() != pair.peer->address.incarnation ||",
        new = "if (false ||",
    )
    _mutant(
        name = "ends_only_the_first_of_a_list",
        old = "core_.ForEachUnit(*lane, [this](const Unit& unit) { core_.EndUnit(unit); });",
        new = "core_.EndUnit(lane->unit);",
    )
    _mutant(
        name = "joins_what_has_left",
        old = "return is_visible ? nullptr : &entries_[position & mask_];",
        new = "return (void)is_visible, &entries_[position & mask_];",
    )
    _mutant(
        name = "forgets_who_else_was_in_a_list",
        old = "ForEachUnit(lane, [&](const Unit& unit) { peer.again.push_back(unit); });",
        new = "peer.again.push_back(lane.unit);",
    )
    _mutant(
        name = "forgets_parked_units",
        old = "peer.parked.Append(lane);",
        new = "(void)peer;",
    )

def _mutant(name, old, new):
    mutant(
        name = "mutant_rud_upper_%s_test" % name,
        old = old,
        new = new,
        core = "rud_upper",
    )
