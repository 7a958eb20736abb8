// Two processes at one unix socket: late start, death by SIGKILL and return of
// either side. The other process is port_echo.

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "datapath/port/port_factory.h"
#include "datapath/port/port_test_util.h"
#include "datapath/port/stale_socket.h"
#include "datapath/port/tcp_checksum.h"
#include "datapath/port/unix_socket.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"

// DPDK 22.11 leaks four bytes with each virtio_user device that is closed, and
// with each failed probe the whole device.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:rte_intr_vec_list_alloc\n"
         "leak:rte_intr_instance_alloc\n"
         "leak:vhost_user_setup\n";
}

namespace urnic {
namespace {

std::unique_ptr<Port> Create(const std::string& dev,
                             const std::string& fault = "") {
  PortConfig config;
  config.dev = dev;
  config.fault = fault;
  auto port = CreatePort(config);
  EXPECT_TRUE(port.ok()) << dev << ": " << port.status();
  return port.ok() ? std::move(*port) : nullptr;
}

class PairTest : public testing::Test {
 protected:
  PairTest() {
    // Not the test's own directory: socket paths are limited to 107 characters.
    directory_ = std::filesystem::temp_directory_path() / "urnic_XXXXXX";
    if (mkdtemp(directory_.data()) == nullptr) abort();
    path_ = directory_ + "/s";
  }
  ~PairTest() override {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }
  std::unique_ptr<Process> Echo(const std::string& dev) {
    return std::make_unique<Process>(
        std::vector<std::string>{"datapath/port/port_echo", dev});
  }

  std::string VirtioServer() const {
    return "net_virtio_user0,server=1,path=" + path_;
  }
  std::string VirtioClient() const { return "net_virtio_user0,path=" + path_; }
  std::pair<std::string, std::string> Memif(const std::string& ours,
                                            const std::string& theirs) const {
    const std::string memif = "net_memif0,socket=" + path_ + ",role=";
    return {memif + ours, memif + theirs};
  }
  std::string VhostServer() const { return "net_vhost0,iface=" + path_; }
  std::string VhostClient() const {
    return "net_vhost0,client=1,iface=" + path_;
  }

  // Whichever side starts first and whichever dies, frames flow again.
  void PeerComesDiesAndReturns(const std::string& ours,
                               const std::string& theirs) {
    const auto port = Create(ours);
    EXPECT_TRUE(Send(*port, 1)) << "drops, does not wait";
    auto peer = Echo(theirs);
    ASSERT_TRUE(RoundTrip(*port)) << port->info().text;
    EXPECT_TRUE(StateBecomes(*port, PortState::kUp)) << port->info().text;
    EXPECT_TRUE(Eventually([&] { return port->info().rx_ring == 256; }));
    peer->Kill();
    ASSERT_TRUE(Eventually([&] {
      return port->info().state != PortState::kUp;
    })) << port->info().text;
    const uint64_t dropped = port->counters().tx_dropped_down;
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Send(*port, 1));
    EXPECT_EQ(port->counters().tx_dropped_down, dropped + 1000);
    peer = Echo(theirs);
    ASSERT_TRUE(RoundTrip(*port)) << port->info().text;
    const PortCounters counters = port->counters();
    EXPECT_GE(counters.rx_packets, 2u);
    EXPECT_GE(counters.tx_packets, counters.rx_packets);
    EXPECT_GE(counters.tx_bytes, 64 * counters.tx_packets);
  }

  std::string directory_;
  std::string path_;
};

TEST_F(PairTest, AVirtioServerSurvivesItsPeer) {
  PeerComesDiesAndReturns(VirtioServer(), VhostClient());
}

TEST_F(PairTest, AVhostClientSurvivesItsPeer) {
  PeerComesDiesAndReturns(VhostClient(), VirtioServer());
}

TEST_F(PairTest, AVhostServerSurvivesItsPeer) {
  PeerComesDiesAndReturns(VhostServer(), VirtioClient());
}

TEST_F(PairTest, AVirtioClientSurvivesItsPeer) {
  PeerComesDiesAndReturns(VirtioClient(), VhostServer());
}

// Sends and receives as fast as it can until told to stop.
class Load {
 public:
  explicit Load(Port& port) : port_(port), thread_([this] { Run(); }) {}
  ~Load() {
    stop_ = true;
    thread_.join();
  }
  uint64_t received() const { return received_; }

 private:
  void Run() {
    TakeLcore(port_.lcore());
    rte_mbuf* frames[kBurstMax];
    uint64_t next = 0;
    while (!stop_) {
      uint16_t made = 0;
      while (made < kBurstMax) {
        frames[made] = TestFrame(port_, next++, 1000);
        if (frames[made] == nullptr) break;
        ++made;
      }
      const uint16_t sent = port_.Transmit(frames, made);
      rte_pktmbuf_free_bulk(frames + sent, made - sent);
      const uint16_t n = port_.Receive(frames, kBurstMax);
      rte_pktmbuf_free_bulk(frames, n);
      received_ += n;
    }
    ReleaseLcore();
  }

  Port& port_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> received_ = 0;
  std::thread thread_;
};

TEST_F(PairTest, PeersMayBeKilledUnderFullLoad) {
  for (const auto& [ours, theirs] :
       {std::pair(VirtioServer(), VhostClient()),
        std::pair(VhostServer(), VirtioClient()), Memif("server", "client"),
        Memif("client", "server")}) {
    const auto port = Create(ours);
    Load load(*port);
    for (int round = 0; round < 5; ++round) {
      const uint64_t before = load.received();
      const auto peer = Echo(theirs);
      ASSERT_TRUE(Eventually([&] { return load.received() > before + 1000; }))
          << ours << round << port->info().text;
    }
    // memif may use a new device for each peer.
    if (ours.find("memif") == ours.npos) {
      EXPECT_EQ(port->counters().incarnations, 1u);
    }
  }
}

TEST_F(PairTest, AMemifServerAcceptsALateClient) {
  const auto [ours, theirs] = Memif("server", "client");
  const auto port = Create(ours);
  EXPECT_TRUE(Send(*port, 1));
  const auto peer = Echo(theirs);
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
}

TEST_F(PairTest, AMemifClientFindsALateServer) {
  const auto [ours, theirs] = Memif("client", "server");
  const auto port = Create(ours);
  EXPECT_TRUE(Send(*port, 1));
  ASSERT_TRUE(Eventually([&] { return !port->info().text.empty(); }));
  const auto peer = Echo(theirs);
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
}

// Meanwhile its client keeps looking for it.
TEST_F(PairTest, AMemifServerMayBeClosedAndOpenedAgain) {
  for (const char* kind : {",socket-abstract=no", ",socket-abstract=yes"}) {
    const std::string memif = "net_memif0,socket=" + path_ + kind;
    const auto peer = Echo(memif + ",role=client");
    for (int round = 0; round < 3; ++round) {
      const auto port = Create(memif + ",role=server");
      EXPECT_TRUE(RoundTrip(*port)) << kind << round << port->info().text;
    }
    usleep(600'000);  // longer than the client ever waits
  }
}

TEST_F(PairTest, AWaitingServerBlocksNoOtherPortAndCanBeClosed) {
  auto waiting = Create(VirtioServer());
  ASSERT_TRUE(Eventually([&] {
    return waiting->info().text.find("waiting for a peer") != std::string::npos;
  }));
  EXPECT_TRUE(HasListener(path_));
  const auto a = Create("ring:other:a");
  const auto b = Create("ring:other:b");
  EXPECT_TRUE(StateBecomes(*a, PortState::kUp));
  waiting = nullptr;
  EXPECT_FALSE(HasListener(path_));
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the file is gone";
  // And again, with a peer.
  waiting = Create(VirtioServer());
  const auto peer = Echo(VhostClient());
  EXPECT_TRUE(RoundTrip(*waiting)) << waiting->info().text;
}

TEST_F(PairTest, AConnectionThatIsNotAPeerDoesNotEndTheServer) {
  const auto port = Create(VirtioServer());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Eventually([&] { return SomebodyListens(path_); })) << i;
  }
  const auto peer = Echo(VhostClient());
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
}

// A TCP segment without a payload, whose checksum the port is to finish.
rte_mbuf* SegmentToFinish(Port& port) {
  constexpr uint16_t kBytes = sizeof(wire::Ethernet) + sizeof(wire::Ipv4) + 20;
  rte_mbuf* frame = rte_pktmbuf_alloc(port.pool());
  if (frame == nullptr) return nullptr;
  auto* data = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, kBytes));
  std::memset(data, 0, kBytes);
  auto* eth = reinterpret_cast<wire::Ethernet*>(data);
  eth->ether_type = wire::Be<uint16_t>(wire::kEtherTypeIpv4);
  auto* ip = reinterpret_cast<wire::Ipv4*>(eth + 1);
  ip->version_ihl = 0x45;
  ip->total_length = wire::Be<uint16_t>(kBytes - sizeof(wire::Ethernet));
  ip->protocol = wire::kIpProtocolTcp;
  reinterpret_cast<uint8_t*>(ip + 1)[12] = 5 << 4;  // data offset
  AskForTcpChecksum(frame, sizeof(wire::Ethernet), sizeof(wire::Ipv4), false);
  return frame;
}

// Sends one until it has arrived; true if the receiver vouches for it.
bool IsVouchedFor(Port& from, Port& to) {
  bool vouched = false;
  EXPECT_TRUE(Eventually([&] {
    TakeLcore(from.lcore());
    rte_mbuf* segment = SegmentToFinish(from);
    if (segment != nullptr && from.Transmit(&segment, 1) == 0) {
      rte_pktmbuf_free(segment);
    }
    ReleaseLcore();
    TakeLcore(to.lcore());
    rte_mbuf* got = nullptr;
    const bool arrived = to.Receive(&got, 1) == 1;
    if (arrived) vouched = TcpChecksumIsVouchedFor(*got);
    rte_pktmbuf_free(got);
    ReleaseLcore();
    return arrived;
  }));
  return vouched;
}

TEST_F(PairTest, VhostAndVirtioUserLeaveChecksumsToEachOther) {
  const auto server = Create(VirtioServer());
  const auto client = Create(VhostClient());
  ASSERT_TRUE(StateBecomes(*server, PortState::kUp));
  ASSERT_TRUE(StateBecomes(*client, PortState::kUp));
  EXPECT_TRUE(server->finishes_tcp_checksums());
  EXPECT_TRUE(client->finishes_tcp_checksums());
  EXPECT_TRUE(IsVouchedFor(*server, *client));
  EXPECT_TRUE(IsVouchedFor(*client, *server));
}

// Otherwise what its faults corrupt would arrive with a right sum.
TEST_F(PairTest, APortWithFaultsFinishesNoChecksums) {
  for (const bool faulty_server : {true, false}) {
    const auto server = Create(VirtioServer(), faulty_server ? "loss=1%" : "");
    const auto client = Create(VhostClient(), faulty_server ? "" : "loss=1%");
    ASSERT_TRUE(StateBecomes(*server, PortState::kUp));
    ASSERT_TRUE(StateBecomes(*client, PortState::kUp));
    Port& faulty = faulty_server ? *server : *client;
    Port& other = faulty_server ? *client : *server;
    EXPECT_FALSE(faulty.finishes_tcp_checksums());
    EXPECT_TRUE(other.finishes_tcp_checksums());
    EXPECT_FALSE(IsVouchedFor(other, faulty)) << faulty_server;
  }
}

TEST_F(PairTest, AStaleSocketFileIsReplaced) {
  auto first = Echo(VhostServer());
  ASSERT_TRUE(Eventually([&] { return access(path_.c_str(), F_OK) == 0; }));
  first->Kill();
  ASSERT_EQ(access(path_.c_str(), F_OK), 0) << "left behind";
  const auto port = Create(VhostServer());
  const auto peer = Echo(VirtioClient());
  EXPECT_TRUE(RoundTrip(*port)) << port->info().text;
}

// Send a frame, arm, sleep: on both kinds of device that can wake us.
TEST_F(PairTest, AnArmedPortBecomesReadableWhenAFrameArrives) {
  for (bool vhost : {true, false}) {
    const auto port = Create(vhost ? VhostClient() : VirtioServer());
    const auto peer = Echo(vhost ? VirtioServer() : VhostClient());
    ASSERT_TRUE(RoundTrip(*port)) << port->info().text;
    ASSERT_TRUE(NothingIsUnderWay(*port));
    pollfd p = {.fd = port->wait_fd(), .events = POLLIN, .revents = 0};
    for (int i = 0; i < 100; ++i) {
      port->DisarmWakeup();
      ReceiveNumbers(*port);
      ASSERT_TRUE(port->ArmWakeup());
      if (!ReceiveNumbers(*port).empty()) continue;
      if (i % 10 == 0) {
        EXPECT_EQ(poll(&p, 1, 5), 0) << "nothing was sent";
      }
      ASSERT_TRUE(Send(*port, 1));
      ASSERT_EQ(poll(&p, 1, kPatienceMs), 1) << vhost << i;
      EXPECT_EQ(ReceiveNumbers(*port).size(), 1u);
    }
    port->DisarmWakeup();
    ASSERT_TRUE(Send(*port, 1));
    ASSERT_TRUE(Eventually([&] { return !ReceiveNumbers(*port).empty(); }));
    EXPECT_EQ(poll(&p, 1, 0), 0) << "disarmed";
    unlink(path_.c_str());
  }
}

TEST_F(PairTest, ThePeersDeathWakesAnArmedPort) {
  const auto port = Create(VhostClient());
  auto peer = Echo(VirtioServer());
  ASSERT_TRUE(RoundTrip(*port)) << port->info().text;
  ASSERT_TRUE(port->ArmWakeup());
  peer->Kill();
  pollfd p = {.fd = port->wait_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&p, 1, kPatienceMs), 1) << "state change wakes";
}

std::string InheritedExcept(const std::set<int>& known) {
  std::string list;
  for (int fd = 0; fd < 1024; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC) != 0 || known.contains(fd)) continue;
    char link[64] = {};
    const std::string name = "/proc/self/fd/" + std::to_string(fd);
    static_cast<void>(readlink(name.c_str(), link, sizeof(link) - 1) == 0);
    if (std::string(link) == "anon_inode:[eventpoll]") continue;
    list += " " + std::to_string(fd) + "=" + link;
  }
  return list;
}

// In all roles, as far as we control it: DPDK's interrupt thread opens a new
// epoll descriptor at any time.
TEST_F(PairTest, DescriptorsAreNotInherited) {
  for (const auto& [ours, theirs] :
       {std::pair(VirtioServer(), VhostClient()),
        std::pair(VhostServer(), VirtioClient()),
        std::pair(VhostClient(), VirtioServer()),
        std::pair(VirtioClient(), VhostServer())}) {
    std::set<int> before;
    for (int fd = 0; fd < 1024; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) before.insert(fd);
    }
    const auto port = Create(ours);
    const auto peer = Echo(theirs);
    ASSERT_TRUE(RoundTrip(*port));
    std::string inherited;
    EXPECT_TRUE(Eventually([&] {
      inherited = InheritedExcept(before);
      return inherited.empty();
    })) << ours
        << inherited;
  }
}

// DPDK's arrays of queues are null for a moment: the flight recorder, which
// begins with the port, once read them then.
TEST_F(PairTest, CountersMayBeReadWhileTheDeviceStarts) {
  for (int i = 0; i < 50; ++i) {
    const auto port = Create(VhostServer());
    while (port->counters().incarnations == 0) {
    }
  }
}

// The driver reacts to its peer's death in another thread while we close.
TEST_F(PairTest, ClosingWhileThePeerDiesIsSafe) {
  for (int i = 0; i < 10; ++i) {
    const bool server = i < 8;
    auto port = Create(server ? VirtioServer() : VirtioClient());
    auto peer = Echo(server ? VhostClient() : VhostServer());
    ASSERT_TRUE(RoundTrip(*port)) << i << port->info().text;
    peer->Signal(SIGKILL);
    usleep(static_cast<useconds_t>(i * 300));
    port = nullptr;
    peer->Kill();
  }
}

// Makes the driver slow to react to its peer's goodbye, the end of a memif
// connection. Here only memif uses a SOCK_SEQPACKET socket.
std::atomic<int> g_goodbye_takes_us = 0;

extern "C" ssize_t recvmsg(int fd, msghdr* message, int flags) {
  const ssize_t n = syscall(SYS_recvmsg, fd, message, flags);
  int type = 0;
  socklen_t bytes = sizeof(type);
  getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
  if (n <= 0 && type == SOCK_SEQPACKET) {
    usleep(static_cast<useconds_t>(g_goodbye_takes_us));
  }
  return n;
}

TEST_F(PairTest, ClosingMemifWhileItReactsToItsPeerIsSafe) {
  g_goodbye_takes_us = 200'000;
  for (const bool server : {true, false, true, false}) {
    const std::string memif = "net_memif0,socket=" + path_;
    auto port = Create(memif + (server ? ",role=server" : ",role=client"));
    auto peer = Echo(memif + (server ? ",role=client" : ",role=server"));
    ASSERT_TRUE(RoundTrip(*port)) << port->info().text;
    peer->Kill();
    port = nullptr;
  }
  g_goodbye_takes_us = 0;
}

TEST_F(PairTest, ExitWithoutADestructorDoesNotHang) {
  // A waiting probe and a live port at the moment of exit().
  for (const std::string& dev : {VirtioServer(), VhostClient()}) {
    const pid_t child = fork();
    if (child == 0) {
      execl("datapath/port/port_exit", "port_exit", dev.c_str(), nullptr);
      _exit(127);
    }
    int status = -1;
    ASSERT_TRUE(
        Eventually([&] { return waitpid(child, &status, WNOHANG) == child; }));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace
}  // namespace urnic
