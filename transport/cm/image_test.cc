#include "transport/cm/image.h"

#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cm_pair.h"
#include "tests/support/golden.h"
#include "tests/support/image_map.h"
#include "transport/cm/image_fields.h"

namespace urnic::cm {
namespace {

using ::testing::HasSubstr;
using urnic::testing::CmPair;
using urnic::testing::CmSink;
using urnic::testing::ImageMap;
using urnic::testing::SentMad;

using Bytes = std::vector<uint8_t>;

constexpr Duration kAhead = Duration::Seconds(1000);
constexpr uint8_t kServiceCode = 14;

class ImageTest : public CmPair {
 protected:
  // The manager of node `i`'s CA; its communication ids depend on `first_id`.
  static Config ConfigOf(int i, uint32_t first_id = 0x77000) {
    Config config;
    config.ca_guid = 0xca00 + i;
    config.first_communication_id = first_id;
    config.number_key = {{5, first_id}};
    config.max_connections = 64;
    return config;
  }
  uint32_t CommId(int i) {
    EXPECT_FALSE(manager(i).CommIds().empty());
    return manager(i).CommIds().back();
  }
  static Bytes ImageOf(const ConnectionManager& m, uint32_t id, Time now) {
    Bytes image(ExtractImage(m, id, now, {}));
    EXPECT_NE(image.size(), 0u);
    EXPECT_EQ(ExtractImage(m, id, now, image), image.size());
    return image;
  }
  Bytes Image(int i) { return ImageOf(manager(i), CommId(i), now_); }
  MovedConnection Moved(int i) {
    MovedConnection moved;
    EXPECT_TRUE(manager(i).Copy(CommId(i), moved));
    return moved;
  }
  std::string Insert(int i, const Bytes& image) {
    ConnectionManager m(ConfigOf(i));
    Handle handle;
    return InsertImage(image, now_, m, handle).Text();
  }

  // Node `i` continues in another manager, with all its connections.
  void Move(int i) {
    std::vector<Bytes> images;
    const uint32_t of_node = manager(i).local_comm_id(handle(i));
    for (const uint32_t id : manager(i).CommIds()) {
      images.push_back(ImageOf(manager(i), id, now_));
      ASSERT_EQ(manager(i).Forget(id), 0);
      manager(i).CheckInvariants();
    }
    CmSink sink = std::move(this->sink(i));
    const bool listens = manager(i).Exists(node(i).listener);
    EXPECT_EQ(manager(i).in_use(), listens ? 1u : 0u);
    EXPECT_TRUE(manager(i).NextDeadline().IsInfinite());
    Restart(i, ConfigOf(i, 0x77000 + ++moves_));
    this->sink(i) = std::move(sink);
    if (listens) Listen(i);
    for (const Bytes& image : images) {
      Handle handle;
      ASSERT_EQ(InsertImage(image, now_, manager(i), handle).Text(), "");
      if (manager(i).local_comm_id(handle) == of_node) node(i).handle = handle;
    }
    manager(i).CheckInvariants();
  }

  // Each state that a connection or a resolution can be in: which node reaches
  // it, and how.
  struct Way {
    State state;
    int node;
    std::function<void()> walk;
  };
  void AskForDatagrams() {
    SidrRequestParams params;
    params.service_id = kService;
    params.mad_path = PathFrom(0);
    Listen();
    ASSERT_EQ(manager(0).SidrRequest(params, 7, now_, sink(0), node(0).handle),
              0);
  }
  void ReachDreqSent() {
    ReachEstablished();
    ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  }
  void BePatient(int i) {
    ASSERT_EQ(manager(i).PrepareMra(handle(i), kServiceCode), 0);
  }
  std::vector<Way> Ways() {
    return {
        {State::kReqSent, 0, [this] { Connect(); }},
        {State::kReqReceived, 1, [this] { ReachReqReceived(); }},
        {State::kMraReqSent, 1,
         [this] {
           ReachReqReceived();
           BePatient(1);
         }},
        {State::kMraReqReceived, 0,
         [this] {
           ReachReqReceived();
           EXPECT_EQ(Give(0, Mra(1, wire::kCmMessageReq, kServiceCode)),
                     RxVerdict::kAccept);
         }},
        {State::kRepSent, 1, [this] { ReachRepSent(); }},
        {State::kRepReceived, 0, [this] { ReachRepReceived(); }},
        {State::kMraRepSent, 0,
         [this] {
           ReachRepReceived();
           BePatient(0);
         }},
        {State::kMraRepReceived, 1,
         [this] {
           ReachRepReceived();
           EXPECT_EQ(Give(1, Mra(0, wire::kCmMessageRep, kServiceCode)),
                     RxVerdict::kAccept);
         }},
        {State::kEstablished, 0, [this] { ReachEstablished(); }},
        {State::kEstablished, 1, [this] { ReachEstablished(); }},
        {State::kDreqSent, 0, [this] { ReachDreqSent(); }},
        {State::kDreqSent, 1,
         [this] {
           ReachEstablished();
           ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
         }},
        {State::kDreqReceived, 1,
         [this] {
           ReachDreqSent();
           Pass(0);
         }},
        {State::kTimewait, 1,
         [this] {
           ReachDreqSent();
           Pass(0);
           ASSERT_EQ(manager(1).SendDrep(handle(1), {}, now_, sink(1)), 0);
         }},
        {State::kIdle, 1,
         [this] {
           ReachReqReceived();
           ASSERT_EQ(
               manager(1).Reject(handle(1), RejectParams(), now_, sink(1)), 0);
         }},
        {State::kSidrReqSent, 0, [this] { AskForDatagrams(); }},
        {State::kSidrReqReceived, 1,
         [this] {
           AskForDatagrams();
           Pass(0);
           Take(1, EventKind::kSidrReqReceived);
         }},
    };
  }
  // Calls `f(way)` for each, from a fresh start.
  template <typename F>
  void InEachState(const F& f) {
    std::set<State> seen;
    for (const Way& way : Ways()) {
      SCOPED_TRACE(NameOf(way.state));
      SetUp();
      way.walk();
      ASSERT_EQ(Moved(way.node).connection.state, way.state);
      seen.insert(way.state);
      f(way);
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(State::kSidrReqReceived));
  }

  uint32_t moves_ = 0;
};

TEST_F(ImageTest, InAnyStateTheImageOfAnInsertedConnectionIsTheSame) {
  InEachState([&](const Way& way) {
    now_ = now_ + Duration::Microseconds(700);
    const uint32_t id = CommId(way.node);
    const Bytes image = Image(way.node);
    const Time due = manager(way.node).NextDeadline();
    ConnectionManager other(ConfigOf(way.node));
    Handle handle;
    ASSERT_EQ(InsertImage(image, now_ + kAhead, other, handle).Text(), "");
    other.CheckInvariants();
    EXPECT_EQ(other.in_use(), 1u);
    EXPECT_EQ(ImageOf(other, id, now_ + kAhead), image);
    // On another clock.
    EXPECT_EQ(other.NextDeadline(), due.IsInfinite() ? due : due + kAhead);
  });
}

TEST_F(ImageTest, AMovedConnectionIsForgottenSilently) {
  InEachState([&](const Way& way) {
    ConnectionManager& m = manager(way.node);
    CmSink& s = sink(way.node);
    const size_t mads = s.mads.size();
    const size_t events = s.events.size();
    const uint32_t before = m.in_use();
    const uint32_t id = CommId(way.node);
    ASSERT_EQ(m.Forget(id), 0);
    m.CheckInvariants();
    m.OnTimer(now_ + Duration::Seconds(100), s);
    EXPECT_EQ(s.mads.size(), mads);
    EXPECT_EQ(s.events.size(), events);
    EXPECT_EQ(m.in_use(), before - 1);
    EXPECT_EQ(m.unanswered_dreqs(), 0u);
    EXPECT_FALSE(m.IsQpnBusy(Qpn{0x100}) || m.IsQpnBusy(Qpn{0x201}));
    EXPECT_EQ(m.Forget(id), EBADF);
    EXPECT_EQ(ExtractImage(m, id, now_, {}), 0u);
  });
}

// Each end moves to another manager between any two steps.
TEST_F(ImageTest, AConnectionThatMovesAllTheTimeBehavesLikeOneThatStays) {
  const auto move = [this] {
    for (int i = 0; i < 2; ++i) Move(i);
  };
  Listen();
  Connect();
  const uint32_t ours = manager(0).local_comm_id(handle(0));
  move();
  // The repetition is the same message, at the same time.
  const SentMad first = sink(0).mads.front();
  sink(0).mads.clear();
  ASSERT_TRUE(Wait());
  EXPECT_EQ(now_, Time::FromNs(1'000'000) + AnswerTime());
  ASSERT_EQ(sink(0).mads.size(), 1u);
  EXPECT_EQ(sink(0).mads.front().bytes, first.bytes);
  EXPECT_EQ(sink(0).mads.front().to.remote, first.to.remote);
  Pass(0);
  Take(1, EventKind::kReqReceived);
  move();
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  const uint32_t theirs = manager(1).local_comm_id(handle(1));
  move();
  Pass(1);
  EXPECT_EQ(Take(0, EventKind::kRepReceived).event.user, kUser);
  move();
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  move();
  Pass(0);
  Take(1, EventKind::kRtuReceived);
  move();
  EXPECT_EQ(manager(0).local_comm_id(handle(0)), ours);
  EXPECT_EQ(manager(0).remote_comm_id(handle(0)), theirs);
  EXPECT_EQ(manager(1).remote_comm_id(handle(1)), ours);
  EXPECT_TRUE(manager(0).IsQpnBusy(Qpn{0x100}));
  ASSERT_EQ(manager(1).Disconnect(handle(1), {}, now_, sink(1)), 0);
  move();
  EXPECT_EQ(manager(1).unanswered_dreqs(), 1u);
  Pass(1);
  Take(0, EventKind::kDreqReceived);
  move();
  ASSERT_EQ(manager(0).SendDrep(handle(0), {}, now_, sink(0)), 0);
  move();
  Pass(0);
  Take(1, EventKind::kDrepReceived);
  move();
  while (Wait()) move();
  for (int i = 0; i < 2; ++i) {
    Take(i, EventKind::kTimewaitExit);
    ExpectQuiet(i);
    EXPECT_EQ(manager(i).Destroy(handle(i), now_, sink(i)), 0);
  }
  EXPECT_EQ(manager(0).in_use(), 0u);
  EXPECT_EQ(manager(1).in_use(), 1u);  // the listener
}

// With few ids, which are soon used again.
class FewIds : public ImageTest {
 protected:
  void Start(uint32_t ids) {
    lessor_.Offer(NumberSpace::kCommId, {0x100, ids});
    Config config = ConfigOf(0, 0x100);
    config.lessor = &lessor_;
    config.max_connections = 4;
    manager_.emplace(config);
    Connect();
    moved_ = Moved(0);
  }
  int Adopt(uint32_t id) {
    moved_.connection.local_comm_id = id;
    Handle handle;
    return manager_->Adopt(moved_, handle);
  }
  Handle Open() {
    Handle handle;
    EXPECT_EQ(manager_->Connect(Request(), 0, now_, sink(0), handle), 0);
    return handle;
  }
  uint32_t Close(Handle handle) {
    const uint32_t id = manager_->local_comm_id(handle);
    EXPECT_EQ(manager_->Destroy(handle, now_, sink(0)), 0);
    return id;
  }
  std::set<uint32_t> AllIds() {
    std::set<uint32_t> ids;
    for (int i = 0; i < 40; ++i) ids.insert(Close(Open()));
    return ids;
  }

  LocalLessor lessor_;
  std::optional<ConnectionManager> manager_;
  MovedConnection moved_;
};

TEST_F(FewIds, NoNewConnectionGetsTheIdOfAnAdoptedOne) {
  Start(32);
  std::set<uint32_t> ids = AllIds();
  EXPECT_GT(ids.size(), 2u);
  const Handle first = Open();
  ids.erase(manager_->local_comm_id(first));
  const uint32_t taken = *ids.begin();
  ASSERT_EQ(Adopt(taken), 0);
  EXPECT_EQ(Adopt(taken), EEXIST);
  ids.insert(Close(first));
  ids.erase(taken);
  EXPECT_EQ(AllIds(), ids);
  manager_->CheckInvariants();
}

TEST_F(FewIds, ThereIsNoRoomWhenAdoptedConnectionsUseTheIds) {
  Start(8);
  const Handle a = Open();
  const Handle b = Open();
  Close(a);
  ASSERT_EQ(Adopt(Close(b)), 0);
  Handle handle;
  EXPECT_EQ(manager_->Connect(Request(), 0, now_, sink(0), handle), ENOMEM);
  manager_->CheckInvariants();
  EXPECT_EQ(manager_->in_use(), 1u);
}

// Half of the ids belong to others.
class ScarceLessor final : public Lessor {
 public:
  NumberRange Lease(NumberSpace) override { return {0x100, 16}; }
  bool LeaseOne(NumberSpace space, uint32_t number) override {
    if (space != NumberSpace::kCommId || number >= 0x8000) return false;
    return leased.insert(number).second;
  }
  void GiveBack(NumberSpace, NumberRange range) override {
    if (range.count == 1) leased.erase(range.first);
  }
  std::set<uint32_t> leased;
};

TEST_F(ImageTest, TheLessorDecidesWhetherAnIdIsAdopted) {
  Connect();
  MovedConnection moved = Moved(0);
  ScarceLessor lessor;
  Config config = ConfigOf(0);
  config.lessor = &lessor;
  {
    ConnectionManager m(config);
    const auto adopt = [&](uint32_t id) {
      moved.connection.local_comm_id = id;
      Handle handle;
      return m.Adopt(moved, handle);
    };
    EXPECT_EQ(adopt(0x8000), EACCES);
    EXPECT_EQ(adopt(0x7000), 0);
    EXPECT_EQ(adopt(0x7001), 0);
    EXPECT_EQ(adopt(0x107), 0);  // in its range: the lessor is not asked
    EXPECT_EQ(lessor.leased, (std::set<uint32_t>{0x7000, 0x7001}));
    EXPECT_EQ(m.Forget(0x7000), 0);
    EXPECT_EQ(lessor.leased, (std::set<uint32_t>{0x7001}));
    EXPECT_EQ(adopt(0x7000), 0);
  }
  EXPECT_TRUE(lessor.leased.empty());
}

// The oldest must be displaced first, also after a move.
TEST_F(ImageTest, HalfOpenConnectionsKeepTheirOrder) {
  Restart(1, 64, /*max_half_open=*/3);
  Listen();
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < 3; ++i) {
    ConnectParams params = Request();
    params.qpn.value += i;
    Connect(0, params);
    Pass(0);
    Take(1, EventKind::kReqReceived);
    ids.push_back(manager(1).local_comm_id(handle(1)));
  }
  const std::vector<uint32_t> before = manager(1).CommIds();
  EXPECT_EQ(before, ids);
  Move(1);
  EXPECT_EQ(manager(1).CommIds(), ids);
}

TEST_F(ImageTest, AnImageThatIsCutOrAlteredIsRefused) {
  ReachRepSent();
  Bytes image = Image(1);
  for (size_t bytes = 0; bytes < image.size(); ++bytes) {
    EXPECT_NE(Insert(1, Bytes(image.begin(), image.begin() + bytes)), "");
  }
  for (uint8_t& byte : image) {
    byte ^= 0x10;
    EXPECT_NE(Insert(1, image), "");
    byte ^= 0x10;
  }
  EXPECT_EQ(Insert(1, image), "");
}

// Any byte is changed, under a valid CRC: the image is refused, or continues.
TEST_F(ImageTest, AnyBytesAreRefusedOrGiveAConnection) {
  int taken = 0;
  int refused = 0;
  InEachState([&](const Way& way) {
    const Bytes good = Image(way.node);
    for (size_t at = 0; at + kImageTrailerBytes < good.size(); ++at) {
      for (const uint8_t flip : {0x01, 0x80, 0xff}) {
        Bytes image = good;
        image[at] ^= flip;
        ImageMap::Seal(image);
        ConnectionManager m(ConfigOf(way.node));
        CmSink sink;
        Handle handle;
        if (!InsertImage(image, now_, m, handle).ok()) {
          ++refused;
          EXPECT_EQ(m.in_use(), 0u);
          continue;
        }
        ++taken;
        m.CheckInvariants();
        if (m.Exists(handle)) {
          EXPECT_EQ(m.Destroy(handle, now_, sink), 0);
        }
        for (int i = 0; i < 600 && m.in_use() != 0; ++i) {
          m.OnTimer(m.NextDeadline(), sink);
          m.CheckInvariants();
        }
        EXPECT_EQ(m.in_use(), 0u);
      }
    }
  });
  EXPECT_GT(taken, 1000);
  EXPECT_GT(refused, 1000);
}

// A member with a value that it cannot have, and the refusal.
struct Bad {
  const char* field;
  uint64_t value;
  const char* text;
};

TEST_F(ImageTest, ARefusalNamesTheMember) {
  ReachRepSent();
  static constexpr Bad kBad[] = {
      {"ca_guid", 5, "ca_guid is 5: belongs to another CA"},
      {"displaced", 1, "displaced is 1: does not fit the state"},
      {"connection.state", 16, "connection.state is 16"},
      {"connection.state", 1, "state is 1: is a listener's"},
      {"connection.state", 2, "passive is 1: does not fit the state"},
      {"connection.state", 14, "passive is 1"},
      {"connection.state", 3, "has_local_qpn is 1"},
      {"connection.state", 15, "has_local_qpn is 1"},
      {"connection.state", 11, "sent_attribute is 19: is not the last message"},
      {"connection.state", 10, "deadline is 0: does not fit the state"},
      {"connection.orphan", 1, "orphan is 1: does not fit the state"},
      {"connection.passive", 0, "passive is 0: does not fit the state"},
      {"connection.has_local_qpn", 0, "has_local_qpn is 0"},
      {"connection.service", 2, "service is 2: is unknown"},
      {"connection.local_comm_id", 0, "local_comm_id is 0: must not be 0"},
      {"connection.local_comm_id", 5, "local_comm_id is 5: is not that of"},
      {"connection.remote_comm_id", 0, "remote_comm_id is 0"},
      {"mad_path.flow_label", 1 << 20, "mad_path.flow_label is 1048576"},
      {"path.service_level", 16, "path.service_level is 16"},
      {"connection.packet_rate", 64, "packet_rate is 64"},
      {"connection.mtu_code", 16, "mtu_code is 16"},
      {"connection.local_qpn", 1 << 24, "connection.local_qpn is 16777216"},
      {"connection.send_psn", 1 << 24, "connection.send_psn is 16777216"},
      {"connection.ack_timeout_code", 32, "ack_timeout_code is 32"},
      {"connection.retry_count", 8, "retry_count is 8"},
      {"connection.rnr_retry_count", 8, "rnr_retry_count is 8"},
      {"connection.deadline", kImageNever, "deadline is 1: does not fit"},
      {"connection.deadline", 1 << 30, "deadline is 1073741824: is later"},
      {"connection.max_cm_retries", 16, "max_cm_retries is 16"},
      {"connection.retries_left", 16, "retries_left is 16: is more than"},
      {"connection.retries_withheld", 9, "is more than max_cm_retries"},
      {"connection.timeout", uint64_t{1} << 61, "connection.timeout is "},
      {"connection.timeout", uint64_t{1} << 50, "timeout is 1125899906842624"},
      {"connection.repeat_after", uint64_t{1} << 50,
       "is not a valid message time"},
      {"connection.sent_attribute", 16,
       "sent_attribute is 16: is not the last message"},
      {"connection.sent_attribute", 99,
       "sent_attribute is 99: is not the last message"},
      {"connection.sent", 0, "sent_attribute is 19: is not of the message"},
  };
  const MovedConnection moved = Moved(1);
  const Bytes good = Image(1);
  const ImageMap map(moved);
  for (const Bad& bad : kBad) {
    Bytes image = good;
    map.Set(image, bad.field, bad.value);
    EXPECT_THAT(Insert(1, image), HasSubstr(bad.text)) << bad.field;
  }
}

TEST_F(ImageTest, AConnectionThatIsAlreadyThereIsRefused) {
  ReachEstablished();
  const auto insert = [this](const Bytes& image) {
    Handle handle;
    return InsertImage(image, now_, manager(1), handle).Text();
  };
  const MovedConnection moved = Moved(1);
  Bytes image = Image(1);
  EXPECT_THAT(insert(image), HasSubstr("is in use by a connection here"));
  ImageMap(moved).Set(image, "connection.local_comm_id", 0x4711);
  EXPECT_EQ(insert(image), "remote_qpn is 256: is in use by a connection here");
  EXPECT_EQ(manager(1).in_use(), 2u);
  manager(1).CheckInvariants();
  // No room.
  Config config = ConfigOf(1);
  config.max_connections = 1;
  ConnectionManager small(config);
  Handle handle;
  ASSERT_EQ(small.Listen(1, 0, 0, handle), 0);
  EXPECT_THAT(InsertImage(image, now_, small, handle).Text(),
              HasSubstr("would be one more than max_connections"));
}

TEST_F(ImageTest, OtherVersionsAndKindsAreRefused) {
  Connect();
  Bytes image = Image(0);
  image[8] = kImageVersion + 1;
  ImageMap::Seal(image);
  EXPECT_THAT(Insert(0, image),
              HasSubstr("version is " + std::to_string(kImageVersion + 1)));
  image = Image(0);
  image[10] = static_cast<uint8_t>(ImageKind::kUd);
  ImageMap::Seal(image);
  EXPECT_EQ(Insert(0, image), "kind is 2: is not a connection's");
  image[10] = 7;
  ImageMap::Seal(image);
  EXPECT_EQ(Insert(0, image), "kind is 7: is unknown");
  // It is not the image of a queue pair.
  ImageShape shape;
  EXPECT_EQ(ReadImageShape(Image(0), shape).Text(),
            "kind is 3: is not a queue pair's");
}

TEST_F(ImageTest, ShowsEachMember) {
  Connect();
  std::string text;
  ShowState(Moved(0), now_, text);
  EXPECT_THAT(text, HasSubstr("connection.state REQ_SENT\n"));
  EXPECT_THAT(text, HasSubstr("connection.deadline 6291456 ns\n"));
  EXPECT_THAT(text, HasSubstr("mad_path.remote 0x0000ffff0a000002\n"));
  EXPECT_THAT(text, HasSubstr("connection.local_qpn 0x000100\n"));
  // The beginning of the REQ.
  EXPECT_THAT(text, HasSubstr("connection.sent 0x0107020300000000\n"));
}

// The layout is fixed: a change of a list of members must raise kImageVersion.
TEST_F(ImageTest, LayoutOfThisVersion) {
  Connect();
  const MovedConnection moved = Moved(0);
  const ImageMap map(moved);
  urnic::testing::ExpectGolden(
      "transport/cm/goldens/image_layout.txt",
      "version " + std::to_string(kImageVersion) + "\n" + map.Layout());
}

}  // namespace
}  // namespace urnic::cm
