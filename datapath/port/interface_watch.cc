#include "datapath/port/interface_watch.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "datapath/port/inherited_sockets.h"
#include "verbs/libc/high_fd.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

namespace urnic {
namespace {

// A packet socket that is bound to the interface for all protocols, with the
// ring format version that the driver uses: no other socket looks like that.
bool IsDriverSocket(int fd, int interface_index) {
  sockaddr_ll address = {};
  socklen_t bytes = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
      address.sll_family != AF_PACKET ||
      address.sll_ifindex != interface_index ||
      address.sll_protocol != htons(ETH_P_ALL)) {
    return false;
  }
  int version = -1;
  int loss = 0;
  bytes = sizeof(version);
  getsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, &bytes);
  bytes = sizeof(loss);
  getsockopt(fd, SOL_PACKET, PACKET_LOSS, &loss, &bytes);
  return version == TPACKET_V2 && loss == 1;
}

}  // namespace

InterfaceWatch::InterfaceWatch(std::string name) : name_(std::move(name)) {
  ioctl_socket_ =
      urnic_move_fd_high(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  netlink_ = urnic_move_fd_high(socket(
      AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (netlink_ >= 0 && bind(netlink_, reinterpret_cast<sockaddr*>(&address),
                            sizeof(address)) != 0) {
    close(netlink_);
    netlink_ = -1;
  }
}

InterfaceWatch::~InterfaceWatch() {
  if (netlink_ >= 0) close(netlink_);
  if (ioctl_socket_ >= 0) close(ioctl_socket_);
}

InterfaceState InterfaceWatch::Read() {
  // The messages only say that something changed; so does an overflow.
  char scrap[256];
  while (netlink_ >= 0 &&
         (recv(netlink_, scrap, sizeof(scrap), 0) >= 0 || errno == ENOBUFS)) {
  }
  ifreq request = {};
  std::strncpy(request.ifr_name, name_.c_str(), IFNAMSIZ - 1);
  InterfaceState state;
  if (ioctl(ioctl_socket_, SIOCGIFINDEX, &request) != 0) return state;
  state.index = request.ifr_ifindex;
  if (ioctl(ioctl_socket_, SIOCGIFFLAGS, &request) != 0) return {};
  constexpr int kRunning = IFF_UP | IFF_RUNNING;
  state.running = (request.ifr_flags & kRunning) == kRunning;
  if (ioctl(ioctl_socket_, SIOCGIFMTU, &request) == 0) {
    state.mtu = request.ifr_mtu;
  }
  return state;
}

int FindPacketSocket(int interface_index) {
  DIR* dir = opendir("/proc/thread-self/fd");
  if (dir == nullptr) return -1;
  int found = -1;
  while (const dirent* entry = readdir(dir)) {
    char* end;
    const auto fd = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    if (*end == 0 && IsDriverSocket(fd, interface_index) && !IsInherited(fd)) {
      found = fd;
    }
  }
  closedir(dir);
  return found;
}

int PreparePacketSocket(int fd, int interface_index) {
  const int yes = 1;
  // Unknown before Linux 4.20; then the port also receives the host's own
  // frames.
  setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes));
  packet_mreq request = {};
  request.mr_ifindex = interface_index;
  request.mr_type = PACKET_MR_PROMISC;
  return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request,
                    sizeof(request)) == 0
             ? 0
             : errno;
}

void ForgetPacketSocketError(int fd) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
}

uint32_t TakePacketSocketDrops(int fd) {
  tpacket_stats stats = {};
  socklen_t bytes = sizeof(stats);
  if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes) != 0) {
    return 0;
  }
  return stats.tp_drops;
}

}  // namespace urnic
