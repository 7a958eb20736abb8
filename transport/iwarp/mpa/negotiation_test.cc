// The set-up of MPA: each rule for both roles, and frames that break them.

#include "transport/iwarp/mpa/negotiation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace urnic::mpa {
namespace {

using Bytes = std::vector<uint8_t>;
using V = RxVerdict;
using I = Initiator::State;
using R = Responder::State;

constexpr Time kStart = Time::FromNs(1000000000);

Bytes Text(const std::string& text) { return {text.begin(), text.end()}; }

// A frame written by hand.
Bytes Frame(const std::string& key, uint8_t flags, uint8_t revision,
            const Bytes& data) {
  Bytes frame = Text(key);
  frame.push_back(flags);
  frame.push_back(revision);
  frame.push_back(static_cast<uint8_t>(data.size() >> 8));
  frame.push_back(static_cast<uint8_t>(data.size()));
  frame.insert(frame.end(), data.begin(), data.end());
  return frame;
}
Bytes Request(uint8_t flags, uint8_t revision, const Bytes& data = {}) {
  return Frame("MPA ID Req Frame", flags, revision, data);
}
Bytes Reply(uint8_t flags, uint8_t revision, const Bytes& data = {}) {
  return Frame("MPA ID Rep Frame", flags, revision, data);
}

SetupOptions Options(uint16_t ird = 1, uint16_t ord = 1) {
  SetupOptions options;
  options.ird = ird;
  options.ord = ord;
  options.max_ird = ird;
  return options;
}

Bytes Start(Initiator& initiator, const Bytes& data = {}) {
  Bytes frame(kMaxSetupBytes);
  frame.resize(initiator.Start(data, kStart, frame));
  return frame;
}
Bytes Accept(Responder& responder, const Bytes& data = {}) {
  Bytes frame(kMaxSetupBytes);
  frame.resize(responder.Accept(data, kStart, frame));
  return frame;
}
Bytes Reject(Responder& responder, const Bytes& data = {}) {
  Bytes frame(kMaxSetupBytes);
  frame.resize(responder.Reject(data, frame));
  return frame;
}
Bytes DataOf(std::span<const uint8_t> data) {
  return {data.begin(), data.end()};
}

// An initiator that has got this reply.
struct Answered {
  Answered(const SetupOptions& options, const Bytes& reply)
      : with(std::make_unique<Initiator>(options)), initiator(*with) {
    Start(initiator);
    verdict = initiator.OnBytes(reply).verdict;
  }
  I state() const { return initiator.state(); }
  const Agreement& agreement() const { return initiator.agreement(); }

  std::unique_ptr<Initiator> with;
  Initiator& initiator;
  V verdict;
};

//= RFC 5044 7.1.1, RFC 6581 6
TEST(InitiatorTest, TheRequestSaysWhatThisSideWants) {
  const auto request = [](const SetupOptions& options, const Bytes& data) {
    Initiator initiator(options);
    const Bytes frame = Start(initiator, data);
    EXPECT_EQ(initiator.state(), I::kWaiting);
    return frame;
  };
  SetupOptions options = Options(3, 5);
  options.markers = true;
  EXPECT_EQ(request(options, Text("hi")),
            Request(0xd0, 2, {0, 3, 0, 5, 'h', 'i'}));
  options = Options(3, 5);
  options.crc = false;
  options.peer_to_peer = true;
  EXPECT_EQ(request(options, {}), Request(0x10, 2, {0xc0, 3, 0xc0, 5}));
  options.revision = 1;
  EXPECT_EQ(request(options, Text("hi")), Request(0, 1, {'h', 'i'}));
}

//= RFC 5044 7.1.1
TEST(SetupTest, CrcsAreUsedIfEitherSideWantsThem) {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      SetupOptions options = Options();
      options.crc = ours;
      const auto crc = static_cast<uint8_t>(theirs ? 0x40 : 0);
      const Answered answered(options, Reply(0x10 | crc, 2, {0, 1, 0, 1}));
      ASSERT_EQ(answered.state(), I::kAgreed);
      EXPECT_EQ(answered.agreement().crc, ours || theirs);
      Responder responder(options, kStart);
      (void)responder.OnBytes(Request(0x10 | crc, 2, {0, 1, 0, 1}));
      EXPECT_EQ((Accept(responder)[16] & 0x40) != 0, ours || theirs);
      EXPECT_EQ(responder.agreement().crc, ours || theirs);
    }
  }
}

//= RFC 5044 7.1.1
TEST(SetupTest, EachSideAsksForTheMarkersThatItReceives) {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      SetupOptions options = Options();
      options.markers = ours;
      const auto markers = static_cast<uint8_t>(theirs ? 0x80 : 0);
      const Answered answered(options, Reply(0x10 | markers, 2, {0, 1, 0, 1}));
      ASSERT_EQ(answered.state(), I::kAgreed);
      EXPECT_EQ(answered.agreement().send_markers, theirs);
      EXPECT_EQ(answered.agreement().receive_markers, ours);
      Responder responder(options, kStart);
      (void)responder.OnBytes(Request(0x10 | markers, 2, {0, 1, 0, 1}));
      EXPECT_EQ((Accept(responder)[16] & 0x80) != 0, ours);
      EXPECT_EQ(responder.agreement().send_markers, theirs);
      EXPECT_EQ(responder.agreement().receive_markers, ours);
    }
  }
}

TEST(SetupTest, FramesMayBeCutAnywhere) {
  const Bytes request = Request(0x50, 2, {0, 1, 0, 1, 'a', 'b', 'c'});
  const Bytes reply = Reply(0x50, 2, {0, 1, 0, 1, 'd'});
  for (size_t cut = 0; cut <= request.size(); ++cut) {
    Responder responder(Options(), kStart);
    const std::span<const uint8_t> bytes(request);
    EXPECT_EQ(responder.OnBytes(bytes.first(cut)).bytes, cut);
    EXPECT_EQ(responder.OnBytes(bytes.subspan(cut)).verdict, V::kAccept);
    ASSERT_EQ(responder.state(), R::kRequested);
    EXPECT_EQ(DataOf(responder.request().private_data), Text("abc"));
  }
  for (size_t cut = 0; cut <= reply.size(); ++cut) {
    Initiator initiator(Options());
    Start(initiator);
    const std::span<const uint8_t> bytes(reply);
    EXPECT_EQ(initiator.OnBytes(bytes.first(cut)).bytes, cut);
    (void)initiator.OnBytes(bytes.subspan(cut));
    ASSERT_EQ(initiator.state(), I::kAgreed);
    EXPECT_EQ(DataOf(initiator.private_data()), Text("d"));
  }
}

TEST(SetupTest, BytesAfterTheReplyAreLeftForTheDelimiter) {
  Bytes bytes = Reply(0x10, 2, {0, 1, 0, 1});
  bytes.resize(bytes.size() + 8);
  Initiator initiator(Options());
  Start(initiator);
  EXPECT_EQ(initiator.OnBytes(bytes).bytes, bytes.size() - 8);
  EXPECT_EQ(initiator.OnBytes(bytes).bytes, 0u);
}

//= RFC 5044 7.1.2
TEST(ResponderTest, AnFpduBeforeTheReplyEndsTheConnection) {
  Bytes bytes = Request(0x10, 2, {0, 1, 0, 1});
  bytes.push_back(0);
  Responder at_once(Options(), kStart);
  EXPECT_EQ(at_once.OnBytes(bytes).verdict, V::kMpaBadFrame);
  EXPECT_EQ(at_once.state(), R::kFailed);
  EXPECT_EQ(at_once.error(), MpaError::kBadFrame);
  Responder later(Options(), kStart);
  bytes.pop_back();
  EXPECT_EQ(later.OnBytes(bytes).verdict, V::kAccept);
  EXPECT_EQ(later.OnBytes(Bytes{0}).verdict, V::kMpaBadFrame);
  EXPECT_EQ(later.state(), R::kFailed);
}

//= RFC 5044 7.1.2
TEST(ResponderTest, TheResponderSendsAfterTheFirstFpdu) {
  Responder responder(Options(), kStart);
  (void)responder.OnBytes(Request(0x10, 2, {0, 1, 0, 1}));
  Accept(responder);
  EXPECT_EQ(responder.state(), R::kAccepted);
  responder.OnFirstFpdu();
  EXPECT_EQ(responder.state(), R::kRunning);
}

//= RFC 5044 7.1.1, RFC 5044 7.1.2
TEST(SetupTest, AMalformedFrameIsRefusedAtItsFirstWrongByte) {
  for (size_t i = 0; i < 16; ++i) {
    Bytes request = Request(0x10, 2, {0, 1, 0, 1});
    request[i] ^= 0x20;
    Responder responder(Options(), kStart);
    const std::span<const uint8_t> bytes(request);
    EXPECT_EQ(responder.OnBytes(bytes.first(i)).verdict, V::kAccept);
    EXPECT_EQ(responder.OnBytes(bytes.subspan(i, 1)).verdict, V::kMpaBadFrame);
    EXPECT_EQ(responder.error(), MpaError::kBadFrame);
  }
  // 513 bytes of private data, and too few for the depths.
  EXPECT_EQ(Answered(Options(), Reply(0x10, 2, Bytes(513))).state(),
            I::kFailed);
  EXPECT_EQ(Answered(Options(), Reply(0x10, 2, Bytes(512))).state(),
            I::kAgreed);
  const Answered small(Options(), Reply(0x10, 2, Bytes(3)));
  EXPECT_EQ(small.verdict, V::kMpaBadFrame);
  EXPECT_EQ(small.initiator.error(), MpaError::kBadFrame);
}

//= RFC 5044 7.1.2
TEST(SetupTest, TwoInitiatorsOrTwoRespondersDoNotConnect) {
  const Answered both(Options(), Request(0x10, 2, {0, 1, 0, 1}));
  EXPECT_EQ(both.state(), I::kFailed);
  EXPECT_EQ(both.verdict, V::kMpaBadFrame);
  Responder responder(Options(), kStart);
  EXPECT_EQ(responder.OnBytes(Reply(0x10, 2, {0, 1, 0, 1})).verdict,
            V::kMpaBadFrame);
}

TEST(SetupTest, TheKindOfFrameIsKnownBeforeItIsComplete) {
  SetupReader reader(SetupKind::kReply, false);
  EXPECT_EQ(reader.Add(Text("MPA ID Re")), 9u);
  EXPECT_EQ(reader.state(), SetupReader::State::kMore);
  reader.Add(Text("q"));
  EXPECT_EQ(reader.state(), SetupReader::State::kWrongKind);
}

//= RFC 5044 7.1.1
TEST(SetupTest, ReservedBitsAreIgnored) {
  // In revision 1, the S bit is one of them.
  const Answered answered(Options(), Reply(0x1f, 1, {'a', 'b', 'c', 'd', 'e'}));
  ASSERT_EQ(answered.state(), I::kAgreed);
  EXPECT_EQ(DataOf(answered.initiator.private_data()), Text("abcde"));
  // And the reject bit in a request.
  Responder responder(Options(), kStart);
  EXPECT_EQ(responder.OnBytes(Request(0x3f, 2, {0, 1, 0, 1})).verdict,
            V::kAccept);
}

//= RFC 5044 7.1.1, RFC 6581 10
TEST(ResponderTest, ARequestOfAnUnknownRevisionIsNotAnswered) {
  for (const uint8_t revision : {0, 3, 255}) {
    Responder responder(Options(), kStart);
    EXPECT_EQ(responder.OnBytes(Request(0x10, revision, {0, 1, 0, 1})).verdict,
              V::kMpaBadFrame);
  }
  SetupOptions options = Options();
  options.revision = 1;
  Responder old(options, kStart);
  (void)old.OnBytes(Request(0x10, 2, {0, 1, 0, 1}));
  EXPECT_EQ(old.state(), R::kFailed);
  Responder older_peer(Options(), kStart);
  (void)older_peer.OnBytes(Request(0x40, 1, {'x'}));
  EXPECT_EQ(Accept(older_peer, {'y'}), Reply(0x40, 1, {'y'}));
  EXPECT_FALSE(older_peer.agreement().depths_agreed);
  EXPECT_EQ(older_peer.agreement().revision, 1);
}

//= RFC 6581 10
TEST(InitiatorTest, APeerThatKnowsRevision1OnlyGetsIt) {
  const Answered accepted(Options(4, 4), Reply(0x40, 1, {'x'}));
  ASSERT_EQ(accepted.state(), I::kAgreed);
  EXPECT_EQ(accepted.agreement().revision, 1);
  EXPECT_FALSE(accepted.agreement().depths_agreed);
  EXPECT_EQ(accepted.agreement().ord, 4);
  EXPECT_EQ(DataOf(accepted.initiator.private_data()), Text("x"));
  const Answered rejected(Options(), Reply(0x20, 1));
  EXPECT_EQ(rejected.state(), I::kRetryRevision1);
  // Once is enough.
  SetupOptions options = Options();
  options.revision = 1;
  EXPECT_EQ(Answered(options, Reply(0x20, 1)).state(), I::kRejected);
}

//= RFC 6581 10
TEST(InitiatorTest, APeerThatClosesInsteadOfAnAnswerMayKnowRevision1Only) {
  for (const uint8_t revision : {1, 2}) {
    SetupOptions options = Options();
    options.revision = revision;
    Initiator initiator(options);
    Start(initiator);
    initiator.OnClosed();
    EXPECT_EQ(initiator.state(),
              revision == 2 ? I::kRetryRevision1 : I::kFailed);
    EXPECT_EQ(initiator.error(),
              revision == 2 ? MpaError::kNone : MpaError::kConnectionLost);
  }
}

//= RFC 6581 10
TEST(InitiatorTest, AReplyOfALaterRevisionIsRefused) {
  SetupOptions options = Options();
  options.revision = 1;
  EXPECT_EQ(Answered(options, Reply(0x10, 2, {0, 1, 0, 1})).state(),
            I::kFailed);
  EXPECT_EQ(Answered(Options(), Reply(0x10, 3, {0, 1, 0, 1})).state(),
            I::kFailed);
  EXPECT_EQ(Answered(Options(), Reply(0x10, 0, {0, 1, 0, 1})).state(),
            I::kFailed);
}

//= RFC 5044 7.1.1
TEST(SetupTest, ARejectCarriesPrivateData) {
  Responder responder(Options(4, 4), kStart);
  (void)responder.OnBytes(Request(0x50, 2, {0, 4, 0, 4}));
  const Bytes reply = Reject(responder, Text("no"));
  EXPECT_EQ(reply, Reply(0x70, 2, {0, 4, 0, 4, 'n', 'o'}));
  EXPECT_EQ(responder.state(), R::kRejected);
  const Answered answered(Options(4, 4), reply);
  EXPECT_EQ(answered.state(), I::kRejected);
  EXPECT_EQ(answered.verdict, V::kAccept);
  EXPECT_EQ(DataOf(answered.initiator.private_data()), Text("no"));
}

// IRD and ORD of the initiator's options, and of the reply; then what comes
// out.
struct DepthCase {
  uint16_t ird, ord, max_ird;
  uint8_t reply[4];
  I state;
  uint16_t got_ird, got_ord;
};

//= RFC 6581 8
//= RFC 6581 9.1
TEST(InitiatorTest, TheDepthsFitTheReply) {
  const DepthCase cases[] = {
      {4, 4, 4, {0, 4, 0, 4}, I::kAgreed, 4, 4},
      // ORD is lowered.
      {4, 9, 4, {0, 2, 0, 1}, I::kAgreed, 4, 2},
      {4, 9, 4, {0, 0, 0, 0}, I::kAgreed, 4, 0},
      // IRD is raised, up to its limit.
      {4, 4, 8, {0, 4, 0, 8}, I::kAgreed, 8, 4},
      {4, 4, 8, {0, 4, 0, 9}, I::kTerminate, 8, 4},
      {4, 4, 0, {0, 4, 0, 5}, I::kTerminate, 4, 4},
      // Not negotiated.
      {4, 5, 4, {0x3f, 0xff, 0x3f, 0xff}, I::kAgreed, 4, 5},
  };
  for (const DepthCase& c : cases) {
    SetupOptions options = Options(c.ird, c.ord);
    options.max_ird = c.max_ird;
    const Answered answered(
        options, Reply(0x10, 2, Bytes(c.reply, c.reply + sizeof(c.reply))));
    EXPECT_EQ(answered.state(), c.state);
    EXPECT_EQ(answered.agreement().ird, c.got_ird);
    EXPECT_EQ(answered.agreement().ord, c.got_ord);
    EXPECT_EQ(answered.agreement().depths_agreed, c.reply[0] != 0x3f);
    EXPECT_EQ(answered.initiator.error(), c.state == I::kTerminate
                                              ? MpaError::kInsufficientIrd
                                              : MpaError::kNone);
  }
}

//= RFC 6581 9.1
TEST(ResponderTest, TheDepthsFitTheRequest) {
  const struct {
    uint16_t ird, ord, max_ird;
    uint8_t request[4];
    uint8_t reply[4];
  } cases[] = {
      {4, 4, 4, {0, 4, 0, 4}, {0, 4, 0, 4}},
      // ORD is lowered to the initiator's IRD.
      {4, 9, 4, {0, 2, 0, 4}, {0, 4, 0, 2}},
      // IRD is raised to the initiator's ORD, up to its limit.
      {4, 4, 8, {0, 4, 0, 7}, {0, 7, 0, 4}},
      {4, 4, 8, {0, 4, 0, 9}, {0, 8, 0, 4}},
      {4, 4, 4, {0x3f, 0xff, 0x3f, 0xff}, {0x3f, 0xff, 0x3f, 0xff}},
  };
  for (const auto& c : cases) {
    SetupOptions options = Options(c.ird, c.ord);
    options.max_ird = c.max_ird;
    Responder responder(options, kStart);
    (void)responder.OnBytes(Request(0x50, 2, Bytes(c.request, c.request + 4)));
    const Bytes reply = Accept(responder);
    EXPECT_EQ(Bytes(reply.begin() + 20, reply.end()),
              Bytes(c.reply, c.reply + 4));
    const bool agreed = c.request[0] != 0x3f;
    EXPECT_EQ(responder.agreement().depths_agreed, agreed);
    EXPECT_EQ(responder.agreement().ird, agreed ? c.reply[1] : c.ird);
    EXPECT_EQ(responder.agreement().ord, agreed ? c.reply[3] : c.ord);
  }
}

TEST(ResponderTest, TheProgramChoosesItsDepthsAfterItHasSeenTheRequest) {
  Responder responder(Options(1, 1), kStart);
  (void)responder.OnBytes(Request(0x50, 2, {0, 6, 0, 6}));
  EXPECT_EQ(responder.Proposed().ord, 1);
  responder.SetDepths(16, 16);
  EXPECT_EQ(responder.Proposed().ord, 6);
  EXPECT_EQ(Accept(responder), Reply(0x50, 2, {0, 16, 0, 6}));
}

//= RFC 6581 9.2
TEST(SetupTest, BothSidesAgreeOnOneKindOfRtr) {
  for (RtrKinds ours = 1; ours <= kRtrAll; ++ours) {
    for (RtrKinds theirs = 1; theirs <= kRtrAll; ++theirs) {
      SetupOptions options = Options();
      options.peer_to_peer = true;
      options.rtr_kinds = ours;
      Initiator initiator(options);
      options.rtr_kinds = theirs;
      options.peer_to_peer = false;  // the initiator's word counts
      Responder responder(options, kStart);
      (void)responder.OnBytes(Start(initiator));
      (void)initiator.OnBytes(Accept(responder));
      const RtrKinds kind = responder.agreement().rtr;
      EXPECT_EQ(initiator.agreement().rtr, kind);
      if ((ours & theirs) == 0) {
        EXPECT_EQ(kind, kRtrNone);
        EXPECT_EQ(initiator.state(), I::kTerminate);
        EXPECT_EQ(initiator.error(), MpaError::kNoMatchingRtr);
      } else {
        EXPECT_EQ(initiator.state(), I::kAgreed);
        EXPECT_TRUE((kind & ours & theirs) != 0 && (kind & (kind - 1)) == 0);
      }
    }
  }
}

// The responder could not take the read.
TEST(SetupTest, WithoutIncomingReadsNoneIsAnRtr) {
  for (const RtrKinds ours : {kRtrAll, kRtrRead}) {
    SetupOptions options = Options(0, 0);
    options.peer_to_peer = true;
    options.rtr_kinds = ours;
    Initiator initiator(options);
    options.rtr_kinds = kRtrRead | kRtrWrite;
    Responder responder(options, kStart);
    (void)responder.OnBytes(Start(initiator));
    (void)initiator.OnBytes(Accept(responder));
    const RtrKinds kind = ours == kRtrAll ? kRtrWrite : kRtrNone;
    EXPECT_EQ(responder.agreement().rtr, kind);
    EXPECT_EQ(initiator.agreement().rtr, kind);
  }
}

//= RFC 6581 9.2
TEST(SetupTest, WithoutTheABitTheOthersMeanNothing) {
  SetupOptions options = Options();
  options.peer_to_peer = true;
  const Answered refused(options, Reply(0x50, 2, {0x40, 1, 0xc0, 1}));
  EXPECT_EQ(refused.initiator.error(), MpaError::kNoMatchingRtr);
  Responder responder(Options(), kStart);
  (void)responder.OnBytes(Request(0x50, 2, {0x40, 1, 0xc0, 1}));
  EXPECT_EQ(Accept(responder), Reply(0x50, 2, {0, 1, 0, 1}));
  EXPECT_EQ(responder.agreement().rtr, kRtrNone);
}

TEST(InitiatorTest, AnRtrThatIsNotAskedForIsNotSent) {
  const Answered unasked(Options(), Reply(0x50, 2, {0x80, 1, 0x80, 1}));
  EXPECT_EQ(unasked.state(), I::kAgreed);
  EXPECT_EQ(unasked.agreement().rtr, kRtrNone);
}

//= RFC 5044 7.1.2
TEST(SetupTest, ThePeersFrameIsAwaitedForALimitedTime) {
  Initiator initiator(Options());
  Start(initiator);
  const Time end = kStart + Options().timeout;
  EXPECT_EQ(initiator.NextDeadline(), end);
  initiator.OnTimer(end - Duration::Nanoseconds(1));
  EXPECT_EQ(initiator.state(), I::kWaiting);
  initiator.OnTimer(end);
  EXPECT_EQ(initiator.state(), I::kFailed);
  EXPECT_TRUE(initiator.NextDeadline().IsInfinite());
  Responder responder(Options(), kStart);
  EXPECT_EQ(responder.NextDeadline(), end);
  responder.OnTimer(end);
  EXPECT_EQ(responder.state(), R::kFailed);
}

TEST(ResponderTest, OnlyAnRtrIsAwaitedForALimitedTime) {
  for (const bool peer_to_peer : {false, true}) {
    Responder responder(Options(), kStart);
    const auto a = static_cast<uint8_t>(peer_to_peer ? 0x80 : 0);
    (void)responder.OnBytes(Request(0x50, 2, {a, 1, 0x80, 1}));
    EXPECT_TRUE(responder.NextDeadline().IsInfinite());
    Accept(responder);
    EXPECT_EQ(responder.NextDeadline().IsInfinite(), !peer_to_peer);
    responder.OnTimer(kStart + Options().timeout);
    EXPECT_EQ(responder.state(), peer_to_peer ? R::kFailed : R::kAccepted);
  }
}

TEST(ResponderTest, AConnectionThatEndsDuringTheSetupHasFailed) {
  Responder waiting(Options(), kStart);
  waiting.OnClosed();
  EXPECT_EQ(waiting.state(), R::kFailed);
  EXPECT_EQ(waiting.error(), MpaError::kConnectionLost);
  Responder rejected(Options(), kStart);
  (void)rejected.OnBytes(Request(0x50, 2, {0, 1, 0, 1}));
  Reject(rejected);
  rejected.OnClosed();
  EXPECT_EQ(rejected.state(), R::kRejected);
}

//= Linux siw_recv_mpa_rr(): 256 bytes, with the four of revision 2
TEST(ResponderTest, AnAnswerToALinuxHasAtMost256Bytes) {
  Responder enhanced(Options(), kStart);
  (void)enhanced.OnBytes(Request(0x50, 2, {0, 1, 0, 1}));
  EXPECT_EQ(enhanced.room(), 252u);
  Responder plain(Options(), kStart);
  (void)plain.OnBytes(Request(0x40, 1, {}));
  EXPECT_EQ(plain.room(), 256u);
}

TEST(PromiseTest, AlignmentIsPromisedBehindTheProgramsData) {
  SetupOptions options = Options();
  options.promise = true;
  const Bytes data(MaxPrivateData(2, true), 'p');
  EXPECT_EQ(data.size(), 500u);
  Initiator initiator(options);
  const Bytes request = Start(initiator, data);
  EXPECT_EQ(request.size(), kMaxSetupBytes);
  Responder responder(options, kStart);
  (void)responder.OnBytes(request);
  EXPECT_EQ(DataOf(responder.request().private_data), data);
  EXPECT_EQ(responder.room(), 500u);
  const Bytes reply = Accept(responder, Text("ok"));
  EXPECT_TRUE(responder.agreement().peer_aligned);
  (void)initiator.OnBytes(reply);
  EXPECT_TRUE(initiator.agreement().peer_aligned);
  EXPECT_EQ(DataOf(initiator.private_data()), Text("ok"));
  EXPECT_EQ(Bytes(reply.begin() + 24, reply.end()),
            (Bytes{'o', 'k', 0x75, 0x52, 0x4e, 0x41, 0, 0, 0, 2}));
}

TEST(PromiseTest, ItIsWithdrawnIfThePeerIsNotAUrnic) {
  for (const uint8_t revision : {uint8_t{1}, uint8_t{2}}) {
    SetupOptions options = Options();
    options.revision = revision;
    options.promise = true;
    Initiator promising(options);
    Bytes request = Start(promising, Text("hello"));
    ASSERT_TRUE(promising.promises());
    request.resize(promising.WithdrawPromise(request));
    EXPECT_FALSE(promising.promises());
    options.promise = false;
    Initiator plain(options);
    EXPECT_EQ(request, Start(plain, Text("hello")));
  }
}

TEST(PromiseTest, AnInitiatorThatMakesNoneGetsNone) {
  Initiator initiator(Options());
  SetupOptions options = Options();
  options.promise = true;
  Responder responder(options, kStart);
  (void)responder.OnBytes(Start(initiator, Text("hello")));
  EXPECT_EQ(responder.room(), 508u);
  (void)initiator.OnBytes(Accept(responder, Text("ok")));
  EXPECT_FALSE(responder.agreement().peer_aligned);
  EXPECT_FALSE(initiator.agreement().peer_aligned);
  EXPECT_EQ(DataOf(initiator.private_data()), Text("ok"));
}

TEST(PromiseTest, DataThatOnlyLookLikeAPromiseAreThePrograms) {
  const Bytes promise = {'u', 'R', 'N', 'A', 0, 0, 0, 2};
  Bytes data = {0, 1, 0, 1, 'o', 'k'};
  data.insert(data.end(), promise.begin(), promise.end());
  // From a peer that is not a uRNIC, and with a length that does not fit.
  const Answered other(Options(), Reply(0x50, 2, data));
  EXPECT_FALSE(other.agreement().peer_aligned);
  EXPECT_EQ(other.initiator.private_data().size(), 10u);
  SetupOptions options = Options();
  options.promise = true;
  EXPECT_TRUE(Answered(options, Reply(0x50, 2, data)).agreement().peer_aligned);
  data.back() = 3;
  const Answered wrong(options, Reply(0x50, 2, data));
  EXPECT_FALSE(wrong.agreement().peer_aligned);
  EXPECT_EQ(wrong.initiator.private_data().size(), 10u);
}

}  // namespace
}  // namespace urnic::mpa
