#pragma once

// A receiver beside a model: for each offset, the byte that arrived there
// first. After each segment, both must agree.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/check.h"
#include "transport/iwarp/tcp/receiver_fixture.h"

namespace urnic::tcp {

class ModelledReceiver {
 public:
  explicit ModelledReceiver(uint32_t irs, uint32_t max_ranges = 256)
      : end_(irs, max_ranges) {}

  // A segment of `bytes` at this distance from the next byte. Its bytes depend
  // on `fill`: those of two segments contradict each other.
  RxVerdict Segment(int32_t distance, uint32_t bytes, bool fin, uint8_t fill) {
    const int32_t begin = next_ + distance;
    std::string data(bytes, '\0');
    for (uint32_t i = 0; i < bytes; ++i) {
      data[i] = static_cast<char>(fill + (begin + static_cast<int32_t>(i)) * 7);
    }
    ++segments_;
    const auto flags =
        static_cast<uint8_t>(wire::kTcpAck | (fin ? wire::kTcpFin : 0));
    const int32_t edge = Edge();
    const RxVerdict verdict = end_.Give(begin, data, flags);
    Apply(begin, data, fin, edge, verdict);
    CheckState(edge);
    CheckAck(begin, begin + static_cast<int32_t>(bytes), verdict);
    return verdict;
  }

  ReceiverEnd<>& end() { return end_; }
  int32_t next() const { return next_; }
  bool fin_delivered() const { return end_.receiver.fin_delivered(); }
  void CloseHoles() {
    while (end_.receiver.has_hole()) (void)Segment(0, 100, false, 0);
    URNIC_CHECK(end_.frames.kept() == 0);
  }

 private:
  struct Byte {
    char value = 0;
    int segment = 0;  // that brought it; 0: none
  };

  int32_t Edge() const {
    return end_.receiver.right_edge() - (end_.config.irs + 1);
  }

  void Apply(int32_t begin, const std::string& data, bool fin, int32_t edge,
             RxVerdict verdict) {
    const auto end = begin + static_cast<int32_t>(data.size());
    if (verdict == RxVerdict::kAccept || verdict == RxVerdict::kTcpKept ||
        verdict == RxVerdict::kTcpAfterFin) {
      const int32_t limit = std::min({end, edge, fin_at_.value_or(INT32_MAX)});
      const int32_t first = std::max(begin, next_);
      if (first < limit && limit > end_of_known()) {
        known_.resize(static_cast<size_t>(limit));
      }
      for (int32_t at = first; at < limit; ++at) {
        if (Has(at)) continue;
        known_[static_cast<size_t>(at)] = {
            data[static_cast<size_t>(at - begin)], segments_};
      }
    }
    if (fin && !fin_at_.has_value() && end < edge && end >= next_ &&
        (verdict == RxVerdict::kAccept || verdict == RxVerdict::kTcpKept ||
         verdict == RxVerdict::kTcpDuplicate)) {
      fin_at_ = end;
    }
    while (Has(next_)) ++next_;
    if (fin_at_.has_value() && *fin_at_ == next_) next_ = *fin_at_ + 1;
  }

  void CheckState(int32_t edge) {
    URNIC_CHECK(end_.next() == next_);
    URNIC_CHECK(Edge() >= edge && next_ <= Edge());
    const bool whole = fin_at_.has_value() && next_ > *fin_at_;
    URNIC_CHECK(end_.receiver.fin_delivered() == whole);
    const std::string& stream = end_.upper.stream;
    URNIC_CHECK(static_cast<int32_t>(stream.size()) == next_ - whole);
    for (; checked_ < stream.size(); ++checked_) {
      URNIC_CHECK(stream[checked_] == known_.at(checked_).value);
    }
    URNIC_CHECK(end_.receiver.has_hole() == (next_ < end_of_known()));
    URNIC_CHECK(end_.frames.kept() <= end_.receiver.range_count());
    URNIC_CHECK(end_.pool.free_count() + end_.receiver.range_count() == 512);
  }

  int32_t end_of_known() const { return static_cast<int32_t>(known_.size()); }
  bool Has(int32_t at) const {
    return at >= 0 && at < end_of_known() &&
           known_[static_cast<size_t>(at)].segment != 0;
  }
  // Whether all these bytes had arrived with this segment.
  bool Knows(int32_t begin, int32_t end, int segment) const {
    for (int32_t at = begin; at < end; ++at) {
      if (!Has(at) || known_[static_cast<size_t>(at)].segment > segment) {
        return false;
      }
    }
    return begin < end;
  }

  void CheckAck(int32_t begin, int32_t end, RxVerdict verdict) {
    if (!end_.receiver.ack_now()) return;
    auto blocks = end_.Sacks();
    URNIC_CHECK(!end_.receiver.ack_now());
    // The D-SACK block is below the acknowledgement, or a part of the second.
    if (!blocks.empty() &&
        (blocks[0].first < next_ ||
         (blocks.size() > 1 && blocks[1].first <= blocks[0].first &&
          blocks[0].second <= blocks[1].second))) {
      const auto [b, e] = blocks[0];
      URNIC_CHECK(b >= begin && e <= end);
      // A segment may claim the place of the FIN, or one before the stream.
      const int32_t first = std::max(b, 0);
      const int32_t last = std::min(e, fin_at_.value_or(e));
      URNIC_CHECK(last <= first || Knows(first, last, segments_ - 1));
      blocks.erase(blocks.begin());
    }
    for (const auto& [b, e] : blocks) {
      URNIC_CHECK(b > next_ && Knows(b, e, segments_));
      URNIC_CHECK(!Has(b - 1) && !Has(e));
    }
    if (verdict == RxVerdict::kTcpKept) {
      const int32_t first = std::max(begin, next_);
      URNIC_CHECK(!blocks.empty() && blocks[0].first <= first &&
                  first < blocks[0].second);
    }
  }

  ReceiverEnd<> end_;
  std::vector<Byte> known_;  // up to the last one that has arrived
  int segments_ = 0;
  std::optional<int32_t> fin_at_;
  int32_t next_ = 0;
  size_t checked_ = 0;  // of the stream
};

}  // namespace urnic::tcp
