#pragma once

// Resends the RSTs of connections that we have aborted a few times, because a
// RST is not acknowledged. If the only one were lost, a peer that has nothing
// to send, and no keep-alive, would wait forever. A peer that has got one
// ignores the others.
//
//= RFC 9293 3.10.5: ABORT sends a RST
//
// Nothing is allocated after construction. If the table is full, the oldest
// record makes room. Thread: the token's holder.

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/base/time.h"
#include "transport/iwarp/tcp/four_tuple.h"
#include "transport/wire/tcp.h"

namespace urnic::tcp {

class LastResets {
 public:
  // With 10 % loss, all five are lost once in 100 000 times.
  static constexpr Duration kInterval = Duration::Milliseconds(500);
  static constexpr uint8_t kRepeats = 4;

  // `capacity`: a power of two.
  explicit LastResets(uint32_t capacity);
  LastResets(const LastResets&) = delete;
  LastResets& operator=(const LastResets&) = delete;

  struct Reset {
    FourTuple tuple;
    wire::TcpFields fields;
  };
  // Adds a RST that has been sent.
  void Add(const Reset& reset, Time now);
  // The RSTs that are due: call this until it returns none.
  std::optional<Reset> OnTimer(Time now);
  Time NextDeadline() const {
    return first_ == end_ ? Time::Infinite() : At(first_).due;
  }
  uint32_t size() const { return end_ - first_; }

 private:
  struct Record {
    Reset reset;
    Time due;
    uint8_t left = 0;
  };

  Record& At(uint32_t number) {
    return records_[number & (records_.size() - 1)];
  }
  const Record& At(uint32_t number) const {
    return records_[number & (records_.size() - 1)];
  }
  void Append(const Record& record);

  // All wait for the same time, so they are due in this order.
  std::vector<Record> records_;
  uint32_t first_ = 0;
  uint32_t end_ = 0;
};

}  // namespace urnic::tcp
