"""What is broken on purpose in transport/iwarp, one place each."""

load("//tests/sim:mutants.bzl", "mutant")

# What is broken, the text that stands there once, and what replaces it.
_MUTANTS = [
    # TCP, sending.
    ("forgets_retransmission_timer", "if (s.timeout_at.IsInfinite()) s.timeout_at = now + s.round_trip.timeout();", ""),
    ("timer_marks_nothing_lost", "board_.MarkLostAtTimeout(now, ReorderWindow());", ""),
    ("ignores_peer_window", "if (bytes + fin > usable) {", "if (false) {"),
    ("keeps_window_of_older_segment", "if (older && !newer) return false;", "if (older) return false;"),
    ("resends_pieces_from_start", "out.offset = record.offset + at;", "out.offset = record.offset;"),
    ("forgets_offset_of_acked_part", "record.offset = static_cast<uint16_t>(record.offset + bytes);", ""),

    # TCP, receiving.
    ("holds_duplicates", "if (overlap.new_parts == 0) {", "if (false) {"),
    ("never_opens_window", "const uint32_t open = MayOpen(next) ? willing_ : bytes(next);", "const uint32_t open = bytes(next);"),
    ("releases_frames_early", "held_.PopFront();", "held_.PopFront(); held_.ReleaseTaken();"),
    ("acks_beyond_hole", "fields.ack = next_;", "fields.ack = held_.empty() ? next_ : held_.end();"),
    ("sacks_holes", "sacks_.OnBlock(held_.BlockOf(at));", "sacks_.OnBlock({at, held_.end()});"),

    # MPA.
    ("ignores_crc_of_whole_fpdu", "!wire::Crc32c().Add(rest.first(covered)).Matches(rest.data() + covered)) {", "false) {"),
    ("ignores_crc_of_divided_fpdu", "if (config_.crc && !crc_.Matches(crc_field_)) {", "if (false) {"),
    ("counts_markers_from_frame", "const auto distance = static_cast<uint32_t>(begin - send_start_);", "const auto distance = static_cast<uint32_t>(begin - tcp_first_);"),
    ("forgets_phase_of_markers", "shape_.phase = shape_.phase_after();", "shape_.phase = 0;"),
    ("responder_never_speaks", "  set_up_.OnFirstFpdu();", ""),

    # DDP.
    ("message_offset_is_zero", ".offset = source.offset};", ".offset = 0};"),
    ("immediate_data_has_no_number", "next_send_msn_ += uint32_t{send} + uint32_t{with_imm};", "next_send_msn_ += uint32_t{send};"),

    # RDMAP.
    ("completes_with_first_ack", "if (!last) return;", ""),
    ("completes_long_messages_when_sent", "record.bytes <= config_.keep_bytes;", "true;"),
    ("ignores_rights", "segment.payload_bytes, rights, host);", "segment.payload_bytes, 0, host);"),
    ("ignores_fences", "return reads_in_flight_ != 0 &&", "return false &&"),
    ("has_one_read_too_many", "reads >= config_.ord) {", "reads > config_.ord) {"),
    ("does_not_count_read_of_rtr", "reads_in_flight_ + uint32_t{rtr_read_};", "reads_in_flight_;"),
    ("immediate_data_has_other_length", "done.byte_len = last_write_bytes_;", "done.byte_len = write_bytes_;"),
    ("does_not_invalidate", "if (const ddp::StreamError error = Invalidate(segment.stag)) return error;", ""),
    ("does_not_flush_receives", "while (responder_.PollFlush(flushed)) sink.Flushed(flushed);", ""),
    ("answers_with_other_offset", "answer.sink_offset + source.offset);", "answer.sink_offset);"),

    # The endpoint.
    ("builds_kept_fpdu_again", "kept.written = true;", ""),
    ("ignores_end_of_peer", "if (tcp_.ended() == tcp::End::kNone && tcp_.peer_closed()) OnPeerClosed();", ""),
    ("never_closes", "if (std::exchange(close_due_, false)) tcp_.Close();", ""),
]

def iwarp_mutants():
    """Each is found by the simulator of iWARP."""
    for name, old, new in _MUTANTS:
        mutant(
            name = "mutant_iwarp_%s_test" % name,
            core = "iwarp",
            new = new,
            old = old,
        )
