#pragma once

// The lists of members of a receiver (transport/work/image_codec.h).

#include "transport/iwarp/tcp/receiver.h"
#include "transport/work/image_codec.h"

namespace urnic {

template <>
struct FieldsOf<wire::SackBlock> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, begin, end);
    f("begin", begin);
    f("end", end);
  }
};

template <>
struct FieldsOf<tcp::SackList> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, recent, count, duplicate, has_duplicate);
    f("count", count);
    f("has_duplicate", has_duplicate);
    f.Group("duplicate", duplicate);
    f.Elsewhere(recent);
    if (!f.Require(count <= recent.size(), "count", count,
                   "is more than the options of a segment can have")) {
      return;
    }
    for (size_t i = 0; i < count; ++i) f.Element("recent", recent[i]);
  }
};

template <>
struct FieldsOf<tcp::ReceiveWindow> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, willing, mss, shift, edge);
    f("willing", willing);
    f("mss", mss);
    f("shift", shift);
    f("edge", edge);
    f.Require(willing <= tcp::ReceiveWindow::kMaxBytes, "willing", willing,
              "is more than a window can be");
    f.Require(mss != 0, "mss", 0, "must not be 0");
    f.Require(shift <= wire::kTcpMaxWindowShift, "shift", shift,
              "is more than the limit");
  }
};

template <>
struct FieldsOf<tcp::RangePool::Range> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, begin, bytes, data, frame, next, buffer);
    bool early = data == nullptr;
    f("begin", begin);
    f("bytes", bytes);
    f("early", early);
    f.Elsewhere(frame, next, buffer);
    f.Require(bytes != 0 && bytes <= tcp::ReceiveWindow::kMaxBytes, "bytes",
              bytes, "is not the length of a range");
    if (early || !f.ok()) return;
    const auto payload = f.Payload("data", data, bytes);
    if constexpr (F::kReads) data = payload.data();
  }
};

//= RFC 2018 8: a receiver may discard what it has only SACKed, but should not
// The peer may rely on bytes that were SACKed until a time-out. So the image
// has the bytes, and they become frames in custody again.
template <>
struct FieldsOf<tcp::OutOfOrder> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, pool, keeper, holder, max_ranges, count, head, tail,
                  taken, tail_block_begin);
    uint32_t ranges = count;
    f("ranges", ranges);
    // Taken ranges do not belong to the receiver any more.
    f.Elsewhere(pool, keeper, holder, max_ranges, head, tail, taken,
                tail_block_begin);
    if constexpr (F::kReads) {
      for (uint32_t i = 0; f.ok() && i != ranges; ++i) Read(f, s);
    } else {
      for (uint32_t i = head; i != S::kNone; i = s.At(i).next) {
        f.Element("range", s.At(i));
      }
    }
  }
  // Calls range(SeqNum begin, uint32_t bytes) for each early range, in order.
  template <typename Visitor>
  static void ForEarly(const tcp::OutOfOrder& s, Visitor&& range) {
    for (uint32_t i = s.head_; i != s.kNone; i = s.At(i).next) {
      if (s.At(i).data == nullptr) range(s.At(i).begin, s.At(i).bytes);
    }
  }

 private:
  template <typename F>
  static void Read(F& f, tcp::OutOfOrder& s) {
    tcp::OutOfOrder::Range range;
    f.Element("range", range);
    if (!f.ok()) return;
    const bool follows =
        s.empty() || (range.begin - s.end() >= 0 &&
                      static_cast<uint32_t>(range.end() - s.begin()) <=
                          tcp::ReceiveWindow::kMaxBytes);
    if (!f.Require(follows, "begin", range.begin.value(),
                   "does not follow the range before") ||
        !f.Require(s.HasRoom(1), "ranges", s.range_count() + 1,
                   "is more than there is room for")) {
      return;
    }
    const auto overlap = s.Examine(range.begin, range.end());
    if (range.data == nullptr) {
      s.InsertEarly(overlap, range.begin, range.bytes);
      return;
    }
    const ReceivedFrame frame = f.MakeFrame({range.data, range.bytes});
    f.Require(frame.buffer != nullptr &&
                  s.Insert(overlap, range.begin, frame.bytes, frame),
              "bytes", range.bytes, "find no custody here");
  }
};

template <>
struct FieldsOf<tcp::ReceiverConfig> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, irs, window_bytes, window_shift, mss, sack, timestamps,
                  ts_recent, ecn, ack_delay);
    static constexpr const char* kModes[] = {"off", "classic", "dctcp"};
    f("irs", irs);
    f("window_bytes", window_bytes);
    f("window_shift", window_shift);
    f("mss", mss);
    f("sack", sack);
    f("timestamps", timestamps);
    f("ts_recent", ts_recent);
    f("ecn", ecn, tcp::EcnMode::kDctcp, kModes);
    f("ack_delay", ack_delay);
  }
};

template <>
struct FieldsOf<tcp::Receiver> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, config, window, held, sacks, next, last_acked,
                  largest_payload, fin_at, fin_known, fin_delivered,
                  echo_congestion, ack, ack_at, next_answer, ts_recent,
                  ts_recent_since);
    using Ack = tcp::Receiver::Ack;
    static constexpr const char* kAcks[] = {"none", "delayed", "now"};
    f("next", next);
    f("last_acked", last_acked);
    f("largest_payload", largest_payload);
    f("fin_at", fin_at);
    f("fin_known", fin_known);
    f("fin_delivered", fin_delivered);
    f("echo_congestion", echo_congestion);
    f("ack", ack, Ack::kNow, kAcks);
    f.Deadline("ack_at", ack_at);
    f.Deadline("next_answer", next_answer);
    f("ts_recent", ts_recent);
    f.Since("ts_recent_since", ts_recent_since, config.timestamps);
    f.Require(!next_answer.IsInfinite(), "next_answer", UINT64_MAX, "is never");
    f.Group("receiver_config", config);
    f.Group("window", window);
    f.Group("held", held);
    f.Group("sacks", sacks);
  }
  static void Check(ImageReader& f, const tcp::Receiver& r);
};

}  // namespace urnic
