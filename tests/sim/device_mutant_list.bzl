"""What is broken on purpose in the engine's code for iWARP, one place each."""

load("//tests/sim:mutants.bzl", "mutant")

# What is broken, the text that stands there once, and what replaces it.
_MUTANTS = [
    # Segments.
    ("takes_segments_of_others", "if (connection != current_) {", "if (current_ == nullptr) {"),
    ("settles_no_burst", "const FlowResult result = connection.FinishBurst<Sink>(*sink_);", "const FlowResult result = connection.Settle(*sink_);"),
    ("listens_at_every_port", "if (listener->port() != port) continue;", ""),

    # Connections.
    ("never_destroys", "if (!connection.owned_) Destroy(connection);", ""),
    ("tells_after_forget", "  connection->events_ = nullptr;", ""),
    ("does_not_settle_after_calls", "parts_.flows->Apply(connection, connection.Settle(*parts_.sink));", ""),
    ("loses_events", "DeliverOne(connection, static_cast<iwarp::Event>(bit));", "if (bit % 2 == 0) DeliverOne(connection, static_cast<iwarp::Event>(bit));"),
    ("disconnect_aborts", "calls.Disconnect(*parts_.now);", "calls.Abort(*parts_.now);"),

    # Queue pairs.
    ("doorbell_misses_connection", "if (connection != nullptr) serving_flow_ = connection;", ""),
    ("err_leaves_connection", "if (target == QpState::kErr && connection_ != nullptr) {", "if (false) {"),
    ("gives_no_rights", "return {.access = qp.config().access,", "return {.access = 0,"),

    # Logs of inputs, which are replayed.
    ("inputs_forget_pools", "if (std::exchange(pools_known_, true) && now == pools_) return;", "if (std::exchange(pools_known_, true)) return;"),
    ("inputs_forget_receives", "(void)AddReceive(*ring, behind, place);", ""),
]

def device_mutants():
    """Each is found by the simulator of iWARP devices."""
    for name, old, new in _MUTANTS:
        mutant(
            name = "mutant_device_%s_test" % name,
            core = "device",
            new = new,
            old = old,
        )
