// Two devices on one port: what they share, what each has of its own, and what
// the iWARP device does not offer.

#include "verbs/control/open_nic.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "verbs/control/address_handle.h"
#include "verbs/control/control_commands.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/mw.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/srq.h"
#include "verbs/control/xrcd.h"

namespace urnic::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Listener final : public EventSink {
 public:
  void OnCompletion(Cq&) override {}
  void OnCqError(Cq&) override {}
  void OnQpEvent(void*, QpEvent) override {}
  void OnSrqLimit(Srq&) override {}
  void OnSrqError(Srq&) override {}
  void OnPortState(bool) override {}
  void OnDeviceFatal() override {}
  void OnGidChange() override { ++changes; }
  int changes = 0;
};

// Stand-ins for the preload.
std::string g_run_dir;
std::vector<std::string> g_states;
std::vector<std::string> g_gids_of;

const char* RunDir() { return g_run_dir.c_str(); }
int SetActive(const char* device, int active) {
  g_states.push_back(std::string(device) + (active != 0 ? " up" : " down"));
  return 0;
}
int SetGids(const urnic_device_identity* device) {
  g_gids_of.emplace_back(device->name);
  return 0;
}

class OpenNicTest : public ::testing::Test {
 protected:
  OpenNicTest() {
    // Not in the test's own directory: a socket address holds 107 characters.
    char path[] = "/dev/shm/urnic-open-nic-XXXXXX";
    EXPECT_NE(mkdtemp(path), nullptr);
    g_run_dir = path;
    g_states.clear();
    g_gids_of.clear();
    hooks_.run_dir = RunDir;
    hooks_.set_gids = SetGids;
    hooks_.set_port_active = SetActive;
  }
  ~OpenNicTest() override {
    EXPECT_EQ(rmdir(g_run_dir.c_str()), 0) << "the sockets are gone";
  }

  // The devices of URNIC_PORTS.
  void Configure(const std::string& ports, int count) {
    char error[256];
    ASSERT_EQ(urnic_device_identity_parse(ports.c_str(), 1, identities_.data(),
                                          error, sizeof(error)),
              count)
        << error;
  }
  std::shared_ptr<Device> Open(size_t node) {
    auto device = Device::Open(identities_[node], hooks_);
    EXPECT_TRUE(device.ok()) << device.status().message();
    return *std::move(device);
  }
  static std::string Ask(Device& device, const std::string& request) {
    std::string answer;
    AnswerControl(device.open_nic(), request, [&](std::string_view part) {
      answer += part;
      return true;
    });
    return answer;
  }
  static absl::StatusCode QpCode(Pd& pd, Cq& cq, QpService service) {
    QpRequest request;
    request.service = service;
    request.pd = &pd;
    request.send_cq = request.recv_cq = &cq;
    return Qp::Create(pd.device(), request).status().code();
  }

  ProgramHooks hooks_;
  std::vector<urnic_device_identity> identities_ =
      std::vector<urnic_device_identity>(URNIC_MAX_DEVICES);
};

const char* Removed(int i) {
  constexpr const char* kTexts[] = {
      "run directory urnic-1-4711-1 of process 4711, prog",
      "run directory urnic-1-4712-1 of process 4712"};
  return i < 2 ? kTexts[i] : nullptr;
}

// Once: at the first port that the program opens with such a preload.
TEST_F(OpenNicTest, WhatDiedProgramsLeftIsNamedOnce) {
  hooks_.removed = Removed;
  Configure("loop|10.9.0.1/24|transport=both", 2);
  for (const bool first : {true, false}) {
    auto device = Open(0);
    const std::string errors = Ask(*device, "show error");
    if (!first) {
      EXPECT_THAT(errors, Not(HasSubstr("URN1918")));
      continue;
    }
    for (const char* const text : {Removed(0), Removed(1)}) {
      const size_t at = errors.find(text);
      ASSERT_NE(at, std::string::npos) << errors;
      EXPECT_EQ(errors.find(text, at + 1), std::string::npos) << "twice";
    }
    EXPECT_THAT(errors, HasSubstr("URN1918"));
  }
}

TEST_F(OpenNicTest, TheDevicesOfAPortShareIt) {
  Configure("loop|10.9.0.1/24|transport=both", 2);
  auto iwarp = Open(1);
  auto roce = Open(0);
  EXPECT_EQ(&roce->engine(), &iwarp->engine());
  EXPECT_EQ(&roce->open_nic(), &iwarp->open_nic());
  EXPECT_STREQ(roce->open_nic().name(), "urnic0");
  // Sysfs shows the state of the port for each of them.
  EXPECT_THAT(g_states, ElementsAre("urnic0 up", "iwurnic0 up"));
  // The port stays open while one of them is open, in any order of closing.
  iwarp.reset();
  EXPECT_EQ(Ask(*roce, "addr").substr(0, 3), "ok\n");
  iwarp = Open(1);
  roce.reset();
  EXPECT_EQ(Ask(*iwarp, "addr").substr(0, 3), "ok\n");
}

// URNIC_PORTS may have been written without `urnic run`, which checks it.
TEST_F(OpenNicTest, AWrongChoiceForIwarpIsRefused) {
  Configure("loop|10.9.0.1/24|transport=iwarp|iwarp=crc=no", 1);
  const auto device = Device::Open(identities_[0], hooks_);
  EXPECT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(device.status().message()),
              HasSubstr("write crc=on or off"));
}

TEST_F(OpenNicTest, TheChoicesForIwarpReachTheNetwork) {
  Configure("loop|10.9.0.1/24|transport=both|iwarp=markers=on,ecn=dctcp", 2);
  const auto roce = Open(0);
  EXPECT_EQ(roce->network().iwarp_options(),
            (iwarp::Options{.markers = true, .ecn = iwarp::Ecn::kDctcp}));
}

TEST_F(OpenNicTest, APortWithIwarpHasItsCounters) {
  Configure("loop|10.9.0.1/24|transport=both;loop|10.9.0.2/24", 3);
  const auto iwarp = Open(1);
  EXPECT_THAT(Ask(*iwarp, "counters"), HasSubstr("\niwarp_retrans_segs 0\n"));
  const auto roce = Open(2);
  EXPECT_THAT(Ask(*roce, "counters"), Not(HasSubstr("retrans_segs")));
  EXPECT_THAT(Ask(*roce, "counters"), HasSubstr("\nnp_cnp_sent 0\n"));
  EXPECT_THAT(Ask(*iwarp, "counters"), HasSubstr("\nnp_cnp_sent 0\n"))
      << "the port has both devices";
}

TEST_F(OpenNicTest, EachDeviceCountsItsOwnObjects) {
  Configure("loop|10.9.0.1/24|transport=both", 2);
  const auto roce = Open(0);
  const auto iwarp = Open(1);
  const auto pd = *Pd::Create(*roce);
  const auto cq = *Cq::Create(*iwarp, {.entries = 10});
  EXPECT_EQ(roce->pds().size(), 1u);
  EXPECT_EQ(iwarp->pds().size(), 0u);
  EXPECT_EQ(iwarp->cqs().size(), 1u);
  // A domain of one device is of no use on the other.
  EXPECT_EQ(QpCode(*pd, *cq, QpService::kRc),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(OpenNicTest, OnlyARoceDeviceShowsAddressesAsGids) {
  Configure("loop|10.9.1.1/24,iwarp|10.9.1.3/24", 2);
  const auto iwarp = Open(1);
  const auto roce = Open(0);
  Listener of_roce;
  Listener of_iwarp;
  roce->Listen(&of_roce);
  iwarp->Listen(&of_iwarp);
  EXPECT_EQ(Ask(*iwarp, "addr add 10.9.1.2/24,iwarp"),
            "ok\n6 10.9.1.2/24,iwarp\n");
  EXPECT_THAT(g_gids_of, ElementsAre("urnic0"));
  EXPECT_EQ(of_roce.changes, 1);
  EXPECT_EQ(of_iwarp.changes, 0);
  // The link-local address, those of the configuration, and the new one.
  std::vector<bool> marks;
  for (const GidPair& pair : roce->gids().Pairs()) {
    marks.push_back(pair.is_iwarp);
  }
  EXPECT_THAT(marks, ElementsAre(false, true, false, true));
  roce->Unlisten(&of_roce);
  iwarp->Unlisten(&of_iwarp);
}

TEST_F(OpenNicTest, APortWithoutRoceHasAddressesWithoutIndices) {
  Configure("loop|10.9.2.1/24|transport=iwarp", 1);
  const auto iwarp = Open(0);
  EXPECT_STREQ(iwarp->open_nic().name(), "iwurnic0");
  EXPECT_THAT(Ask(*iwarp, "addr"), HasSubstr("\n- 10.9.2.1/24\n"));
  EXPECT_EQ(Ask(*iwarp, "addr add 10.9.2.2/24"), "ok\n- 10.9.2.2/24\n");
  EXPECT_THAT(g_gids_of, ElementsAre()) << "its GID is the MAC";
}

TEST_F(OpenNicTest, AnAddressIsMarkedOnlyForADeviceThatThePortHas) {
  Configure("loop|10.9.3.1/24", 1);
  const auto roce = Open(0);
  EXPECT_THAT(Ask(*roce, "addr add 10.9.3.2/24,iwarp"),
              HasSubstr("the port has no iWARP device"));
  EXPECT_EQ(roce->gids().Pairs().size(), 2u);
}

TEST_F(OpenNicTest, BothNamesReachTheControlSocket) {
  Configure("loop|10.9.4.1/24|transport=both", 2);
  const auto iwarp = Open(1);
  struct stat socket = {};
  struct stat link = {};
  ASSERT_EQ(stat((g_run_dir + "/urnic0.sock").c_str(), &socket), 0);
  ASSERT_EQ(stat((g_run_dir + "/iwurnic0.sock").c_str(), &link), 0);
  EXPECT_EQ(socket.st_ino, link.st_ino);
  ASSERT_EQ(lstat((g_run_dir + "/iwurnic0.sock").c_str(), &link), 0);
  EXPECT_TRUE(S_ISLNK(link.st_mode));
}

TEST_F(OpenNicTest, AnIwarpDeviceLacksWhatIsOnlyOfRoce) {
  Configure("loop|10.9.5.1/24|transport=both", 2);
  const auto iwarp = Open(1);
  const auto pd = *Pd::Create(*iwarp);
  const auto cq = *Cq::Create(*iwarp, {.entries = 10});
  for (const QpService service : {QpService::kRc, QpService::kUc,
                                  QpService::kUd, QpService::kXrcInitiator}) {
    EXPECT_EQ(QpCode(*pd, *cq, service), absl::StatusCode::kUnimplemented);
  }
  AddressVector vector;
  vector.is_global = 1;
  vector.port_num = 1;
  vector.sgid_index = 3;
  vector.dgid = wire::Gid::FromIpv4(0x0a090501);
  EXPECT_EQ(AddressHandle::Create(*pd, vector).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Xrcd::Open(*iwarp, -1, O_CREAT).status().code(),
            absl::StatusCode::kUnimplemented);
  // What it has.
  EXPECT_TRUE(Srq::Create(*pd, {.max_wr = 4}).ok());
  EXPECT_TRUE(Mw::Create(*pd, Mw::Type::k2).ok());
  // The other device of the port has them.
  const auto roce = Open(0);
  const auto roce_pd = *Pd::Create(*roce);
  EXPECT_TRUE(AddressHandle::Create(*roce_pd, vector).ok());
}

}  // namespace
}  // namespace urnic::control
