// Reports to the user about a port that does not come up: all go to the debug
// log, and those that the user must act on also to stderr.

#include "datapath/port/port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/pd.h"
#include "verbs/control/port_reporter.h"
#include "verbs/control/qp.h"

namespace urnic::control {
namespace {

using ::testing::HasSubstr;

// The log is opened when its first line is written, so this comes before any
// test.
const std::string g_log = [] {
  std::string path = ::testing::TempDir() + "/debug_log";
  unlink(path.c_str());
  setenv("URNIC_DEBUG", path.c_str(), 1);
  return path;
}();

std::string Log() {
  std::ifstream in(g_log);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <typename F>
bool Eventually(F condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

std::shared_ptr<Device> Open(const std::string& ports) {
  std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
  char error[256];
  EXPECT_EQ(urnic_device_identity_parse(ports.c_str(), 1, identities.data(),
                                        error, sizeof(error)),
            1)
      << error;
  auto device = Device::Open(identities.front(), {});
  EXPECT_TRUE(device.ok()) << device.status().message();
  return device.ok() ? *device : nullptr;
}

// A socket path. Not in the test's own directory: an address holds 107
// characters.
std::string SocketPath(const std::string& name) {
  struct Directory {
    std::string path = "/dev/shm/urnic-report-XXXXXX";
    Directory() {
      if (mkdtemp(path.data()) == nullptr) abort();
    }
    ~Directory() { std::filesystem::remove_all(path); }
  };
  static const Directory directory;
  return directory.path + "/" + name;
}

// Opens the port, waits until its keeper has tried several times, and returns
// what was written to stderr.
std::string WordsOf(const std::string& ports) {
  ::testing::internal::CaptureStderr();
  {
    const auto device = Open(ports);
    EXPECT_TRUE(
        Eventually([&] { return !device->port().info().text.empty(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    // Verbs report it, too: the port is down if the user must fix it first.
    EXPECT_EQ(device->QueryPort().active, device->port().info().remedy.empty());
  }
  return ::testing::internal::GetCapturedStderr();
}

bool SetCapability(int number, bool wanted) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  syscall(SYS_capget, &header, data);
  const uint32_t bit = 1u << number;
  if (wanted) {
    data[0].effective |= data[0].permitted & bit;
  } else {
    data[0].effective &= ~bit;
  }
  return syscall(SYS_capset, &header, data) == 0;
}

TEST(PortReporterTest, EachReasonIsReportedOnceAndEachChangeIsLogged) {
  PortReporter report("urnic5");
  PortInfo waits;
  waits.text = "waiting for a peer";
  PortInfo fails;
  fails.text = "it is broken";
  fails.remedy = "fix it";
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    report(waits);
    report(fails);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "urnic: urnic5: it is broken; fix it\n");
  EXPECT_EQ(Log(),
            "urnic: urnic5: waiting for a peer\n"
            "urnic: urnic5: it is broken; fix it\n"
            "urnic: urnic5: waiting for a peer\n"
            "urnic: urnic5: it is broken\n");
}

TEST(PortReportTest, AMissingCapabilityIsNamed) {
  for (const int missing : {CAP_NET_RAW, CAP_NET_ADMIN}) {
    ASSERT_TRUE(SetCapability(missing, false));
    const std::string words = WordsOf("iface:lo|10.9.0.1/24");
    SetCapability(missing, true);
    EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), 1) << words;
    EXPECT_THAT(words, HasSubstr("urnic0: iface:lo: needs CAP_NET_RAW and "
                                 "CAP_NET_ADMIN; run as root"));
  }
}

TEST(PortReportTest, AnInterfaceThatDoesNotExistIsNamed) {
  const std::string words =
      WordsOf("net_af_packet0,iface=not_there|10.9.0.1/24");
  EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), 1) << words;
  EXPECT_THAT(words, HasSubstr("urnic0: interface not_there does not exist; "));
}

TEST(PortReportTest, ASocketThatCannotBeMadeIsNamed) {
  for (const char* dev : {"net_vhost0,iface=",
                          "net_memif0,role=server,"
                          "socket-abstract=no,socket="}) {
    const std::string path = SocketPath("no/such/directory/s");
    const std::string words = WordsOf(dev + path + "|10.9.0.1/24");
    EXPECT_EQ(std::count(words.begin(), words.end(), '\n'), 1) << words;
    EXPECT_THAT(words, HasSubstr("the socket " + path)) << dev;
  }
}

TEST(PortReportTest, WaitingForAPeerIsSilent) {
  for (const char* dev :
       {"net_virtio_user0,server=1,path=", "net_virtio_user0,path=",
        "net_vhost0,client=1,iface=", "net_vhost0,iface=",
        "net_memif0,role=server,socket-abstract=no,socket=",
        "net_memif0,role=client,socket-abstract=no,socket="}) {
    EXPECT_EQ(WordsOf(dev + SocketPath("s") + "|10.9.0.1/24"), "") << dev;
  }
  EXPECT_THAT(Log(), HasSubstr("urnic0: waiting for a peer at "));
  EXPECT_THAT(Log(), HasSubstr("urnic0: no listener at "));
}

TEST(PortReportTest, AQueuePairSaysThatThePortHasNoPeer) {
  const auto device = Open("net_virtio_user0,server=1,path=" + SocketPath("q") +
                           "|10.9.0.1/24");
  auto pd = *Pd::Create(*device);
  auto cq = *Cq::Create(*device, {.entries = 4});
  QpRequest request;
  request.send_cq = request.recv_cq = cq.get();
  request.pd = pd.get();
  auto qp = *Qp::Create(*device, request);
  QpAttributes a;
  a.qp_state = QpState::kInit;
  a.port_num = 1;
  ASSERT_TRUE(
      qp->Modify(a, kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags).ok());
  a.qp_state = QpState::kRtr;
  a.path_mtu = 3;
  a.dest_qp_num = 1;
  a.ah_attr.is_global = a.ah_attr.port_num = 1;
  a.ah_attr.sgid_index = 3;
  a.ah_attr.dgid = wire::Gid::FromIpv4(0x0a090002u);
  const absl::Status status =
      qp->Modify(a, kQpState | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn |
                        kQpMaxDestRdAtomic | kQpMinRnrTimer);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("; the port is not up: waiting for a peer at "));
}

}  // namespace
}  // namespace urnic::control
