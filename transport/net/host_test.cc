// A host on a link: what it answers, which neighbours it asks for, where it
// sends.

#include "transport/net/host.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/host_wire.h"

namespace urnic::net {
namespace {

using testing::FrameBytes;
using testing::GidOf;
using testing::HostSink;
using testing::MacOf;
using testing::SelfOf;
using testing::WordsOf;

constexpr Duration kMs = Duration::Milliseconds(1);
constexpr uint8_t kRouter = 250;

wire::Gid Far(uint8_t n, bool ipv6) {
  wire::Gid gid = GidOf(n, ipv6);
  gid.bytes[ipv6 ? 7 : 14] = 9;
  return gid;
}

HostConfig ConfigOf(uint16_t vlan) {
  HostConfig config;
  config.mac = MacOf(1);
  config.vlan = vlan;
  config.mtu = 4200;
  config.addresses = {{GidOf(1, false), 96 + 24}, {GidOf(1, true), 64}};
  config.max_questions = 100;
  config.seed = 7;
  return config;
}

class HostTest : public ::testing::TestWithParam<bool> {
 protected:
  wire::Gid Gid(uint8_t n) const { return GidOf(n, GetParam()); }
  RxVerdict Give(Host& host, const FrameBytes& frame) {
    wire::FrameView view;
    const RxVerdict shape = wire::ParseFrame(frame.data(), frame.size(), view);
    return host.OnFrame(view, shape, {frame}, now_, sink_);
  }
  RxVerdict Give(const FrameBytes& frame) { return Give(host_, frame); }
  void Introduce(uint8_t n) {
    (void)Give(testing::AskFrame(SelfOf(MacOf(n), Gid(n)), Gid(1)));
    sink_.Take();
  }
  FrameBytes AnswerOf(uint8_t n, uint8_t mac) const {
    return testing::AnswerFrame(SelfOf(MacOf(mac), Gid(n)),
                                SelfOf(MacOf(1), Gid(1)));
  }
  PathQuery To(const wire::Gid& remote) const {
    return {.local = Gid(1), .remote = remote, .udp_src_port = 50000};
  }
  PathStatus Find(const PathQuery& query) {
    return host_.Find(query, now_, path_);
  }
  QuestionId Ask(const wire::Gid& remote, Duration patience,
                 uint64_t user = 0) {
    return host_.Ask(To(remote), user, now_, now_ + patience, sink_);
  }
  std::vector<Host::Answer> Answers() {
    std::vector<Host::Answer> list;
    Host::Answer answer;
    while (host_.TakeAnswer(now_, answer)) list.push_back(answer);
    return list;
  }
  void Pass(Duration time) {
    const Time end = now_ + time;
    while (host_.NextDeadline() <= end) {
      now_ = std::max(now_, host_.NextDeadline());
      host_.OnTimer(now_, sink_);
    }
    now_ = end;
  }
  FrameBytes TooBigOf(const wire::Gid& remote, uint32_t mtu) const {
    return testing::TooBigFrame({.router_mac = MacOf(kRouter),
                                 .mac = MacOf(1),
                                 .router = Gid(kRouter),
                                 .to = Gid(1),
                                 .quoted_src = Gid(1),
                                 .quoted_dst = remote,
                                 .mtu = mtu});
  }
  void AddRouter() {
    Introduce(kRouter);
    Route route{.gateway = Gid(kRouter)};
    if (!GetParam()) {
      route.prefix = wire::Gid::FromIpv4(0);
      route.prefix_bits = 96;
    }
    ASSERT_TRUE(host_.AddRoute(route));
  }

  Host host_{ConfigOf(0)};
  HostSink sink_;
  Path path_;
  Time now_ = Time::FromNs(1000000000);
};

// --- Answers -----------------------------------------------------------------

TEST_P(HostTest, ItAnswersOnlyForItsAddresses) {
  const auto self = SelfOf(MacOf(2), Gid(2));
  const RxVerdict shape = GetParam() ? RxVerdict::kIcmp : RxVerdict::kArp;
  EXPECT_EQ(Give(testing::AskFrame(self, Gid(1))), shape);
  const std::vector<FrameBytes> answers = sink_.Take();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0], testing::AnswerFrame(SelfOf(MacOf(1), Gid(1)), self));
  EXPECT_EQ(Give(testing::AskFrame(self, Gid(3))), RxVerdict::kNotForUs);
  EXPECT_TRUE(sink_.Take().empty());
  host_.SetAddresses({});
  EXPECT_EQ(Give(testing::AskFrame(self, Gid(1))), RxVerdict::kNotForUs);
}

TEST_P(HostTest, ANeighbourThatAskedForUsNeedsNoQuestion) {
  Introduce(2);
  EXPECT_EQ(Find(To(Gid(2))), PathStatus::kFound);
  EXPECT_EQ(path_.headers.dst_mac(), MacOf(2));
  EXPECT_EQ(path_.mtu, 4200u);
  EXPECT_EQ(path_.local, Gid(1));
  EXPECT_EQ(path_.remote, Gid(2));
}

TEST_P(HostTest, TheSenderOfADatagramNeedsNoQuestion) {
  wire::Ethernet eth;
  eth.src = MacOf(2);
  wire::FrameView view;
  view.eth = &eth;
  view.src = Gid(2);
  view.dst = Gid(1);
  host_.OnDatagram(view, now_, sink_);
  EXPECT_EQ(Find(To(Gid(2))), PathStatus::kFound);
  // From beyond a router: the frame says nothing about a neighbour.
  view.src = Far(2, GetParam());
  host_.OnDatagram(view, now_, sink_);
  EXPECT_EQ(host_.neighbors().size(), 1u);
}

TEST_P(HostTest, AClaimForOurOwnAddressIsIgnored) {
  (void)Give(testing::AskFrame(SelfOf(MacOf(66), Gid(1)), Gid(1)));
  EXPECT_EQ(host_.neighbors().size(), 0u);
}

// --- Questions ---------------------------------------------------------------

TEST_P(HostTest, EveryQuestionHasOneAnswer) {
  const QuestionId first = Ask(Gid(2), kMs * 100, 5);
  const QuestionId second = Ask(Gid(2), kMs * 200, 6);
  const QuestionId third = Ask(Gid(3), kMs * 50, 7);
  EXPECT_EQ(sink_.Take().size(), 2u);
  EXPECT_TRUE(Answers().empty());
  (void)Give(AnswerOf(2, 2));
  const auto found = Answers();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, first);
  EXPECT_EQ(found[0].user, 5u);
  EXPECT_EQ(found[1].id, second);
  EXPECT_EQ(found[0].status, PathStatus::kFound);
  EXPECT_EQ(found[0].path.adjacency, found[1].path.adjacency);
  EXPECT_EQ(found[0].path.headers.dst_mac(), MacOf(2));
  Pass(kMs * 49);
  EXPECT_TRUE(Answers().empty());
  Pass(kMs);
  const auto late = Answers();
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].id, third);
  EXPECT_EQ(late[0].status, PathStatus::kNoAnswer);
  Pass(Duration::Seconds(1));
  EXPECT_TRUE(Answers().empty());
}

TEST_P(HostTest, AKnownPathIsAnsweredImmediately) {
  Introduce(2);
  EXPECT_NE(Ask(Gid(2), kMs), 0u);
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, PathStatus::kFound);
  EXPECT_TRUE(sink_.Take().empty());
}

TEST_P(HostTest, ACancelledQuestionHasNoAnswer) {
  const QuestionId id = Ask(Gid(2), kMs * 100);
  host_.Cancel(id);
  sink_.Take();
  host_.OnTimer(host_.NextDeadline(), sink_);
  EXPECT_TRUE(host_.NextDeadline().IsInfinite()) << "nobody is asked for";
  EXPECT_TRUE(sink_.Take().empty());
  const QuestionId known = Ask(Gid(1), kMs);
  host_.Cancel(known);
  host_.Cancel(known);
  EXPECT_TRUE(Answers().empty());
  EXPECT_NE(Ask(Gid(2), kMs * 100), id);
  host_.Cancel(id);
  Pass(kMs * 100);
  EXPECT_EQ(Answers().size(), 1u);
}

TEST_P(HostTest, TooManyQuestionsAreNotAsked) {
  for (int i = 0; i < 100; ++i) EXPECT_NE(Ask(Gid(2), kMs * 10), 0u);
  EXPECT_EQ(Ask(Gid(2), kMs * 10), 0u);
  Pass(kMs * 10);
  EXPECT_EQ(Answers().size(), 100u);
  EXPECT_NE(Ask(Gid(2), kMs * 10), 0u);
}

TEST_P(HostTest, APathToNowhereIsRefusedImmediately) {
  const PathQuery foreign{.local = Gid(9), .remote = Gid(2)};
  EXPECT_EQ(Find(foreign), PathStatus::kNotLocal);
  EXPECT_EQ(Find({.local = Gid(1), .remote = GidOf(2, !GetParam())}),
            PathStatus::kMixedFamilies);
  EXPECT_EQ(Find(To(Far(2, GetParam()))), PathStatus::kNoRoute);
  EXPECT_EQ(Find(To(Gid(2))), PathStatus::kNoAnswer);
  (void)Ask(Far(2, GetParam()), Duration::Seconds(1000));
  const auto answers = Answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, PathStatus::kNoRoute);
  EXPECT_TRUE(sink_.Take().empty());
}

TEST_P(HostTest, OurAddressesAndGroupsNeedNoQuestion) {
  EXPECT_EQ(Find(To(Gid(1))), PathStatus::kFound);
  EXPECT_TRUE(path_.loopback);
  EXPECT_EQ(path_.headers.dst_mac(), MacOf(1));
  wire::Gid group = wire::Gid::FromIpv4(0xe1020304);
  if (GetParam()) {
    group = wire::Gid();
    group.bytes[0] = 0xff;
    group.bytes[15] = 4;
  }
  EXPECT_EQ(Find(To(group)), PathStatus::kFound);
  EXPECT_TRUE(path_.multicast);
  EXPECT_EQ(path_.headers.dst_mac(), wire::MulticastMac(group));
  EXPECT_TRUE(path_.IsCurrent());
}

TEST_P(HostTest, ALinkLocalGidOfRoceV1NamesItsMac) {
  wire::Gid gid;
  gid.bytes = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0, 0, 0xff, 0xfe, 0, 0, 9};
  wire::Gid own = gid;
  own.bytes[15] = 1;
  host_.SetAddresses({{own, 64}});
  PathQuery query{.local = own, .remote = gid};
  EXPECT_EQ(Find(query), PathStatus::kNoAnswer);
  query.roce_v1 = true;
  EXPECT_EQ(Find(query), PathStatus::kFound);
  EXPECT_EQ(path_.headers.dst_mac(), MacOf(9));
  EXPECT_EQ(path_.headers.framing(), wire::Framing::kGrh);
}

// --- Moves -------------------------------------------------------------------

TEST_P(HostTest, AnAnnouncedMoveIsFollowedByEveryPath) {
  Introduce(2);
  ASSERT_EQ(Find(To(Gid(2))), PathStatus::kFound);
  Path other = path_;
  (void)Give(testing::AnnounceFrame(SelfOf(MacOf(9), Gid(2))));
  EXPECT_TRUE(path_.IsCurrent());
  Pass(kMs * 30);
  for (Path* path : {&path_, &other}) {
    EXPECT_FALSE(path->IsCurrent());
    path->Restamp();
    EXPECT_TRUE(path->IsCurrent());
    EXPECT_EQ(path->headers.dst_mac(), MacOf(9));
  }
}

TEST_P(HostTest, ASpoofedAnnouncementMovesNoNeighbour) {
  Introduce(2);
  ASSERT_EQ(Find(To(Gid(2))), PathStatus::kFound);
  (void)Give(testing::AnnounceFrame(SelfOf(MacOf(66), Gid(2))));
  const std::vector<FrameBytes> probes = sink_.Take();
  ASSERT_EQ(probes.size(), 1u);
  EXPECT_EQ(WordsOf(probes[0])->to, MacOf(2));
  (void)Give(AnswerOf(2, 2));
  (void)Give(AnswerOf(2, 66));  // once more, as an answer
  (void)Give(testing::AskFrame(SelfOf(MacOf(66), Gid(2)), Gid(1)));
  Pass(kMs * 100);
  (void)Give(AnswerOf(2, 2));
  Pass(Duration::Seconds(1));
  EXPECT_TRUE(path_.IsCurrent());
}

//= RFC 826
TEST_P(HostTest, AQuestionFromANewMacIsAMove) {
  Introduce(2);
  ASSERT_EQ(Find(To(Gid(2))), PathStatus::kFound);
  (void)Give(testing::AskFrame(SelfOf(MacOf(9), Gid(2)), Gid(1)));
  Pass(kMs * 30);
  EXPECT_FALSE(path_.IsCurrent());
}

TEST_P(HostTest, ItAnnouncesItsAddresses) {
  host_.Announce(sink_);
  const std::vector<FrameBytes> frames = sink_.Take();
  ASSERT_EQ(frames.size(), 2u);
  const auto words = WordsOf(frames[GetParam() ? 1 : 0]);
  ASSERT_TRUE(words.has_value());
  EXPECT_EQ(words->info.owner, Gid(1));
  EXPECT_EQ(words->info.owner_mac, MacOf(1));
  EXPECT_TRUE(words->to.is_group());
}

TEST_P(HostTest, APathKnowsWhetherItsSourceIsOurs) {
  Introduce(2);
  ASSERT_EQ(Find(To(Gid(2))), PathStatus::kFound);
  host_.SetAddresses({{Gid(5), static_cast<uint8_t>(GetParam() ? 64 : 120)}});
  host_.CheckSource(path_);
  EXPECT_TRUE(path_.source_gone);
  EXPECT_EQ(path_.local, wire::Gid{});
  host_.SetAddresses({{Gid(1), 128}});
  host_.CheckSource(path_);
  EXPECT_FALSE(path_.source_gone);
  EXPECT_EQ(path_.local, Gid(1));
}

// --- Routes ------------------------------------------------------------------

//= IBTA A16
TEST_P(HostTest, FarHostsAreReachedThroughARouter) {
  AddRouter();
  const wire::Gid far = Far(2, GetParam());
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  EXPECT_EQ(path_.headers.dst_mac(), MacOf(kRouter));
  EXPECT_EQ(path_.remote, far);
  EXPECT_EQ(path_.adjacency->address(), Gid(kRouter));
  EXPECT_TRUE(host_.LeadsStill(path_));
  ASSERT_TRUE(host_.SetRoutes({}));
  EXPECT_FALSE(host_.LeadsStill(path_));
  PathQuery v1 = To(far);
  v1.roce_v1 = true;
  AddRouter();
  EXPECT_EQ(Find(v1), PathStatus::kNoRoute) << "no IP, no routing";
}

TEST_P(HostTest, ManyFarHostsAskForOneRouter) {
  AddRouter();
  Pass(Duration::Seconds(31));
  for (uint8_t n = 1; n < 50; ++n) (void)Ask(Far(n, GetParam()), kMs * 100);
  EXPECT_EQ(sink_.Take().size(), 1u);
  (void)Give(AnswerOf(kRouter, kRouter));
  EXPECT_EQ(Answers().size(), 49u);
}

TEST_P(HostTest, ARouteToAHostOfOurLinkOverridesTheLink) {
  AddRouter();
  const Route route{
      .prefix = Gid(2), .prefix_bits = 128, .gateway = Gid(kRouter)};
  EXPECT_EQ(host_.NextHop(Gid(2)), Gid(2));
  ASSERT_TRUE(host_.AddRoute(route));
  EXPECT_EQ(host_.NextHop(Gid(2)), Gid(kRouter));
  EXPECT_EQ(host_.NextHop(Gid(3)), Gid(3));
}

//= RFC 6724 5
TEST_P(HostTest, TheSourceBelongsToTheLinkOrTheRoute) {
  EXPECT_EQ(*host_.SourceFor(Gid(2)), Gid(1));
  AddRouter();
  const uint8_t bits = GetParam() ? 64 : 120;
  const wire::Gid other = Far(1, GetParam());
  host_.SetAddresses({{other, bits}, {Gid(1), bits}});
  EXPECT_EQ(*host_.SourceFor(Gid(2)), Gid(1));
  wire::Gid beyond = Gid(2);
  beyond.bytes[GetParam() ? 6 : 13] ^= 1;
  EXPECT_EQ(*host_.SourceFor(beyond), Gid(1)) << "of the router's link";
  ASSERT_TRUE(host_.AddRoute({.prefix = beyond,
                              .prefix_bits = 128,
                              .gateway = Gid(kRouter),
                              .source = other}));
  EXPECT_EQ(*host_.SourceFor(beyond), other);
}

TEST(HostRouteTest, AnIpv4RouteMayHaveAnIpv6Router) {
  Host host(ConfigOf(0));
  HostSink sink;
  const Time now = Time::FromNs(1);
  ASSERT_TRUE(host.AddRoute({.prefix = wire::Gid::FromIpv4(0),
                             .prefix_bits = 96,
                             .gateway = GidOf(kRouter, true)}));
  (void)host.Ask({.local = GidOf(1), .remote = Far(2, false)}, 0, now,
                 now + Duration::Seconds(1), sink);
  ASSERT_EQ(sink.frames.size(), 1u);
  const auto words = WordsOf(sink.frames[0]);
  EXPECT_EQ(words->info.asked, GidOf(kRouter, true));
  EXPECT_EQ(words->info.owner, GidOf(1, true));
}

//= RFC 4861 5.2
TEST(HostRouteTest, ALinkLocalAddressIsOnTheLinkDespiteRoutes) {
  Host host(ConfigOf(0));
  const wire::Gid router = GidOf(kRouter, true);
  ASSERT_TRUE(host.AddRoute({.prefix_bits = 0, .gateway = router}));
  wire::Gid far;
  far.bytes[0] = 0x20;
  EXPECT_EQ(host.NextHop(far), router);
  wire::Gid near;
  near.bytes[0] = 0xfe;
  near.bytes[1] = 0x80;
  near.bytes[15] = 9;
  EXPECT_EQ(host.NextHop(near), near);
}

// --- Path MTU ----------------------------------------------------------------

//= RFC 1191 6.3, RFC 8201 4
TEST_P(HostTest, ARouterMayLowerAPathMtu) {
  AddRouter();
  const wire::Gid far = Far(2, GetParam());
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  EXPECT_EQ(Give(TooBigOf(far, 1400)), RxVerdict::kIcmp);
  PathMtuCache::Change change;
  ASSERT_TRUE(host_.TakeMtuChange(change));
  EXPECT_EQ(change.remote, far);
  EXPECT_EQ(change.mtu, 1400u);
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  EXPECT_EQ(path_.mtu, 1400u);
  Pass(Duration::Seconds(601));
  Introduce(kRouter);
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  EXPECT_EQ(path_.mtu, 4200u);
}

//= RFC 8201 4
TEST_P(HostTest, TooBigForWhatWeHaveNotSentIsIgnored) {
  AddRouter();
  const wire::Gid far = Far(2, GetParam());
  PathMtuCache::Change change;
  // No path leads there yet.
  (void)Give(TooBigOf(far, 1400));
  EXPECT_FALSE(host_.TakeMtuChange(change));
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  testing::TooBigFields fields{.router_mac = MacOf(kRouter),
                               .mac = MacOf(1),
                               .router = Gid(kRouter),
                               .to = Gid(1),
                               .quoted_src = Gid(1),
                               .quoted_dst = far,
                               .mtu = 1400};
  auto wrong = fields;
  wrong.udp_port = 4790;
  (void)Give(testing::TooBigFrame(wrong));
  wrong = fields;
  wrong.quoted_src = Gid(3);
  (void)Give(testing::TooBigFrame(wrong));
  wrong = fields;
  wrong.to = Gid(3);
  wrong.quoted_src = Gid(3);
  (void)Give(testing::TooBigFrame(wrong));
  wrong = fields;
  wrong.quoted_dst = Gid(1);
  (void)Give(testing::TooBigFrame(wrong));
  wrong = fields;
  wrong.mtu = 4140;
  (void)Give(testing::TooBigFrame(wrong));
  EXPECT_FALSE(host_.TakeMtuChange(change));
  FrameBytes damaged = testing::TooBigFrame(fields);
  damaged.back() ^= 1;
  EXPECT_EQ(Give(damaged), RxVerdict::kBadIcmp);
  (void)Give(testing::TooBigFrame(fields));
  EXPECT_TRUE(host_.TakeMtuChange(change));
}

//= RFC 5927 4.1
//= RFC 1191 7
TEST_P(HostTest, AReportAboutASegmentIsOnlyPassedOn) {
  AddRouter();
  const wire::Gid far = Far(2, GetParam());
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  const testing::TooBigFields fields{
      .router_mac = MacOf(kRouter),
      .mac = MacOf(1),
      .router = Gid(kRouter),
      .to = Gid(1),
      .quoted_src = Gid(1),
      .quoted_dst = far,
      .mtu = 1400,
      .segment = {{wire::Be<uint16_t>(50000), wire::Be<uint16_t>(20000),
                   wire::Be<uint32_t>(0x80000001)}}};
  EXPECT_EQ(Give(testing::TooBigFrame(fields)), RxVerdict::kIcmp);
  TcpTooBig report;
  ASSERT_TRUE(host_.TakeTcpReport(report));
  EXPECT_EQ(report.local, Gid(1));
  EXPECT_EQ(report.remote, far);
  EXPECT_EQ(report.local_port, 50000);
  EXPECT_EQ(report.remote_port, 20000);
  EXPECT_EQ(report.seq, 0x80000001);
  EXPECT_EQ(report.mtu, 1400u);
  EXPECT_FALSE(host_.TakeTcpReport(report)) << "once";
  PathMtuCache::Change change;
  EXPECT_FALSE(host_.TakeMtuChange(change));
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  EXPECT_EQ(path_.mtu, 4200u);
  // The connection has checked it.
  host_.LearnPathMtu(far, report.mtu, now_);
  EXPECT_TRUE(host_.TakeMtuChange(change));
  ASSERT_EQ(Find(To(far)), PathStatus::kFound);
  EXPECT_EQ(path_.mtu, 1400u);
  host_.LearnPathMtu(far, 9000, now_);
  EXPECT_FALSE(host_.TakeMtuChange(change));
  // Some routers of IPv4 name no size.
  auto other = fields;
  other.mtu = 0;
  (void)Give(testing::TooBigFrame(other));
  ASSERT_EQ(host_.TakeTcpReport(report), !GetParam());
  if (!GetParam()) {
    EXPECT_EQ(report.mtu, 2002u);
  }
  // Not from us; and a segment that would have fitted.
  other = fields;
  other.quoted_src = Gid(3);
  (void)Give(testing::TooBigFrame(other));
  EXPECT_FALSE(host_.TakeTcpReport(report));
  other = fields;
  other.packet_bytes = 1400;
  (void)Give(testing::TooBigFrame(other));
  EXPECT_FALSE(host_.TakeTcpReport(report));
}

// --- VLANs -------------------------------------------------------------------

TEST_P(HostTest, FramesOfAnotherVlanAreNotOurs) {
  const auto ask = [&](std::optional<uint16_t> tci) {
    return testing::AskFrame(SelfOf(MacOf(2), Gid(2), tci), Gid(1));
  };
  EXPECT_NE(Give(ask(uint16_t{0x6000})), RxVerdict::kForeignVlan);
  EXPECT_EQ(Give(ask(uint16_t{7})), RxVerdict::kForeignVlan);
  EXPECT_EQ(sink_.Take().size(), 1u);
  Host tagged(ConfigOf(7));
  EXPECT_EQ(Give(tagged, ask(std::nullopt)), RxVerdict::kForeignVlan);
  EXPECT_EQ(Give(tagged, ask(uint16_t{8})), RxVerdict::kForeignVlan);
  EXPECT_TRUE(sink_.Take().empty());
  EXPECT_NE(Give(tagged, ask(uint16_t{0xe007})), RxVerdict::kForeignVlan);
  const std::vector<FrameBytes> answers = sink_.Take();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(WordsOf(answers[0])->vlan, 7);
}

TEST_P(HostTest, PathsOfAVlanAreTaggedWithTheirPriority) {
  Host tagged(ConfigOf(7));
  (void)Give(tagged,
             testing::AskFrame(SelfOf(MacOf(2), Gid(2), uint16_t{7}), Gid(1)));
  PathQuery query = To(Gid(2));
  query.traffic_class = 0x68;
  ASSERT_EQ(tagged.Find(query, now_, path_), PathStatus::kFound);
  EXPECT_TRUE(path_.headers.is_tagged());
  EXPECT_EQ(path_.headers.vlan_tci(), 0x6007);
  EXPECT_EQ(path_.adjacency->vlan(), 7);
  sink_.Take();
  tagged.Announce(sink_);
  EXPECT_EQ(WordsOf(sink_.Take()[0])->vlan, 7);
}

TEST_P(HostTest, AReplyTakesTheReversePath) {
  const auto self = SelfOf(MacOf(2), Gid(2));
  const FrameBytes frame = testing::AskFrame(self, Gid(1));
  wire::FrameView view;
  (void)wire::ParseFrame(frame.data(), frame.size(), view);
  view.src = Gid(2);
  view.dst = Gid(1);
  view.udp_src_port = 4711;
  view.framing = GetParam() ? wire::Framing::kIpv6 : wire::Framing::kIpv4;
  const Path path = host_.ReplyPath(view);
  EXPECT_EQ(path.headers.dst_mac(), MacOf(2));
  EXPECT_EQ(path.headers.src(), Gid(1));
  EXPECT_EQ(path.remote, Gid(2));
  EXPECT_FALSE(path.loopback);
  EXPECT_TRUE(path.IsCurrent());
}

INSTANTIATE_TEST_SUITE_P(Families, HostTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Ipv6" : "Ipv4";
                         });

}  // namespace
}  // namespace urnic::net
