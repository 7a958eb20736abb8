#pragma once

// The replay of one segment of a log of inputs (replay.h). This class has what
// does not depend on the transport: it goes through the items, keeps the rings,
// the keys and what comes of a call, and compares that with the log. The cores
// are in replay_rc.cc and replay_iwarp.cc.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/replay.h"
#include "tests/sim/replay_items.h"
#include "tests/support/fake_rings.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/lessor.h"
#include "transport/mem/mr_table.h"
#include "transport/work/image.h"

namespace urnic::sim {

// Frames that were received. None is ever freed before the end.
class ReplayFrames final : public FrameKeeper, public FrameMaker {
 public:
  uint8_t* Add(size_t bytes) {
    return frames_.emplace_back(std::max<size_t>(bytes, 1)).data();
  }
  uint32_t Keep(const ReceivedFrame&, FrameHolder& holder) override {
    if (!HasRoomFor(holder)) return kRefused;
    ++holder.kept;
    if (free_ != kNoLimit) --free_;
    return ++last_;
  }
  void Release(uint32_t, FrameHolder& holder) override {
    --holder.kept;
    if (free_ != kNoLimit) ++free_;
  }
  ReceivedFrame Make(std::span<const uint8_t> bytes) override {
    uint8_t* const frame = Add(bytes.size());
    std::ranges::copy(bytes, frame);
    return {{frame, bytes.size()}, frame};
  }
  void SetFree(uint32_t free) { free_ = free; }

 private:
  std::vector<std::vector<uint8_t>> frames_;
  uint32_t last_ = 0;
};

class ReplayRun {
 public:
  ReplayRun(uint32_t qpn, ReplayStats& stats, const ReplayListener& say)
      : qpn_(qpn), stats_(stats), say_(say) {}
  virtual ~ReplayRun() = default;
  ReplayRun(const ReplayRun&) = delete;
  ReplayRun& operator=(const ReplayRun&) = delete;

  absl::Status Replay(std::span<const InputItem> items);

  // --- For the core ----------------------------------------------------------

  void Place(const Placement& placement) { placements_.push_back(placement); }
  void Sent(const SendCompletion& done) { got_.sends.push_back(done); }
  void Received(const RecvCompletion& done) { got_.receives.push_back(done); }
  void Flushed(const RecvCompletion&) {}

 protected:
  // What came of a call.
  struct Outcome {
    std::vector<uint8_t> verdicts;
    std::vector<SendCompletion> sends;
    std::vector<RecvCompletion> receives;
    std::optional<FlowResult> result;
    std::optional<bool> returned;
  };
  struct Logged : Outcome {
    std::vector<InputItem> faults;
    std::vector<uint64_t> originals;
    ResultNow end;
  };

  // --- Of the transport ------------------------------------------------------

  // Makes the core. `image`: behind `call`.
  virtual absl::Status Begin(const InputItem& item) = 0;
  // Its own items: whether their values are possible, and which are calls.
  virtual bool IsValidOwn(const InputItem& item) const = 0;
  virtual bool IsCall(const InputItem& item) const = 0;
  // An item before a call that is not of the rings and keys.
  virtual absl::Status ApplyOwn(const InputItem& item) = 0;
  // One behind it. False: it cannot be there.
  virtual bool TakeOwn(const InputItem& item) = 0;
  // `logged_` is what came of it in the program.
  virtual absl::Status Do(const InputItem& call) = 0;
  // Compares what is its own, says it, and forgets it.
  virtual void CompareOwn() = 0;
  // Says what is called.
  virtual void Tell(const InputItem& call) = 0;
  virtual QpState state() const = 0;
  virtual void CheckInvariants() const = 0;

  // --- For the transport -----------------------------------------------------

  // The rings and the queue, as the image says.
  void MakeRings(const ImageShape& shape);
  static absl::Status Refused(const ImageRefusal& refusal);
  static absl::Status Damaged(const std::string& what);
  // The placement that the log says has failed; null: there is none.
  const Placement* FindFault(const InputItem& fault) const;
  // The next atomic of the burst has found this value.
  void SetOriginal(uint64_t value);
  void ForgetBurst();
  void Differ(const std::string& what);
  std::string SinceBegin(int64_t ns) const;
  void Say(const std::string& what) const;
  bool talks() const { return static_cast<bool>(say_); }

  const uint32_t qpn_;
  ReplayStats& stats_;

  std::vector<mem::MemoryRegion> storage_ =
      std::vector<mem::MemoryRegion>(65536);
  LocalLessor lessor_;
  mem::MrTable keys_{storage_, &lessor_, NumberKey{}};
  ReplayFrames frames_;
  std::unique_ptr<testing::FakeRing> sends_;
  std::unique_ptr<testing::FakeRing> receives_ring_;
  std::unique_ptr<testing::OwnRecvQueue> receive_queue_;

  Time now_;
  // Of the call that runs.
  Logged logged_;
  Outcome got_;
  // Of the burst.
  std::vector<Placement> placements_;
  std::vector<RecvCompletion> completed_;

 private:
  absl::Status Check(std::span<const InputItem> items);
  absl::Status DoOne(const InputItem& call, std::span<const InputItem>& items,
                     bool& ended);
  absl::Status CheckTime(const InputItem& item);
  absl::Status Apply(const InputItem& item);
  absl::Status ApplyReceive(const InputItem& item);
  // Up to the end of the outcome; `whole` false: the log ends before.
  absl::Status ReadOutcome(std::span<const InputItem>& items, bool& whole);
  void TellOutcome();
  void Compare();

  const ReplayListener& say_;
  int64_t begin_ns_ = 0;
  uint32_t receives_ = 1;           // entries of the ring
  size_t originals_looked_at_ = 0;  // placements, by SetOriginal()
};

// A core of RC, and one of iWARP.
std::unique_ptr<ReplayRun> MakeRcReplay(uint32_t qpn, ReplayStats& stats,
                                        const ReplayListener& say);
std::unique_ptr<ReplayRun> MakeIwarpReplay(uint32_t qpn, ReplayStats& stats,
                                           const ReplayListener& say);

}  // namespace urnic::sim
