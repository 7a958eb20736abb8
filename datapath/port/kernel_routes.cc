#include "datapath/port/kernel_routes.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs/libc/high_fd.h"

#ifndef NETLINK_GET_STRICT_CHK
#define NETLINK_GET_STRICT_CHK 12
#endif
#ifndef SOL_NETLINK
#define SOL_NETLINK 270
#endif

namespace urnic {
namespace {

// A dump arrives in pieces of at most this size (netlink_dump()).
constexpr size_t kPieceBytes = 32768;
// How often a table is read again if it changes while it is read.
constexpr int kAttempts = 5;

int OpenNetlink(int flags, uint32_t groups) {
  const int fd = urnic_move_fd_high(
      socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE));
  if (fd < 0) return -1;
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

template <typename T>
T ReadAs(const rtattr* attribute) {
  T value = {};
  std::memcpy(&value, RTA_DATA(attribute),
              std::min<size_t>(sizeof(value), RTA_PAYLOAD(attribute)));
  return value;
}

// Reads an address of the family; zero: there is none.
wire::Gid ReadAddress(int family, const void* data, size_t bytes) {
  if (family == AF_INET && bytes >= 4) {
    wire::Be<uint32_t> ip;
    std::memcpy(&ip, data, sizeof(ip));
    return wire::Gid::FromIpv4(ip);
  }
  if (family == AF_INET6 && bytes >= 16) {
    return wire::Gid::FromIpv6(static_cast<const uint8_t*>(data));
  }
  return {};
}

// The attributes of a route, or of one of its next hops.
struct Attributes {
  net::Route route;
  uint32_t table = 0;
  unsigned interface = 0;
  const rtattr* nexthops = nullptr;

  void Read(int family, const rtattr* at, size_t bytes) {
    for (; RTA_OK(at, bytes); at = RTA_NEXT(at, bytes)) {
      const auto address = [&] {
        return ReadAddress(family, RTA_DATA(at), RTA_PAYLOAD(at));
      };
      switch (at->rta_type) {
        case RTA_DST:
          route.prefix = address();
          break;
        case RTA_GATEWAY:
          route.gateway = address();
          break;
        case RTA_VIA:  // of the other family
          route.gateway = ReadVia(at);
          break;
        case RTA_PREFSRC:
          route.source = address();
          break;
        case RTA_PRIORITY:
          route.metric = ReadAs<uint32_t>(at);
          break;
        case RTA_TABLE:
          table = ReadAs<uint32_t>(at);
          break;
        case RTA_OIF:
          interface = ReadAs<unsigned>(at);
          break;
        case RTA_MULTIPATH:
          nexthops = at;
          break;
        default:
          break;
      }
    }
  }

  static wire::Gid ReadVia(const rtattr* at) {
    constexpr size_t kHeader = sizeof(rtvia);
    if (RTA_PAYLOAD(at) < kHeader) return {};
    const auto* via = static_cast<const uint8_t*>(RTA_DATA(at));
    sa_family_t family;
    std::memcpy(&family, via, sizeof(family));
    return ReadAddress(family, via + kHeader, RTA_PAYLOAD(at) - kHeader);
  }
};

bool IsDown(unsigned flags) {
  return (flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN)) != 0;
}

// If there are several next hops, takes the first one over the interface,
// because net::Route has only one.
void TakeNexthop(int family, unsigned interface, Attributes& of) {
  const auto* hop = static_cast<const rtnexthop*>(RTA_DATA(of.nexthops));
  size_t left = RTA_PAYLOAD(of.nexthops);
  while (left >= sizeof(*hop) && hop->rtnh_len >= sizeof(*hop) &&
         hop->rtnh_len <= left) {
    if (static_cast<unsigned>(hop->rtnh_ifindex) == interface &&
        !IsDown(hop->rtnh_flags)) {
      of.interface = interface;
      of.Read(family, RTNH_DATA(hop), hop->rtnh_len - sizeof(*hop));
      return;
    }
    const size_t step = std::min<size_t>(RTNH_ALIGN(hop->rtnh_len), left);
    left -= step;
    hop = reinterpret_cast<const rtnexthop*>(
        reinterpret_cast<const uint8_t*>(hop) + step);
  }
}

// False: not a route that we use.
bool TakeRoute(const nlmsghdr* message, unsigned interface, net::Route& out) {
  if (message->nlmsg_len < NLMSG_LENGTH(sizeof(rtmsg))) return false;
  const auto* header = static_cast<const rtmsg*>(NLMSG_DATA(message));
  if (header->rtm_type != RTN_UNICAST || header->rtm_tos != 0 ||
      (header->rtm_flags & RTM_F_CLONED) != 0 || IsDown(header->rtm_flags)) {
    return false;
  }
  Attributes read;
  const int family = header->rtm_family;
  read.table = header->rtm_table;
  // A default route has no RTA_DST.
  if (family == AF_INET) read.route.prefix = wire::Gid::FromIpv4(uint32_t{0});
  read.Read(family, RTM_RTA(header), RTM_PAYLOAD(message));
  if (read.nexthops != nullptr) TakeNexthop(family, interface, read);
  read.route.prefix_bits =
      static_cast<uint8_t>(header->rtm_dst_len + (family == AF_INET ? 96 : 0));
  out = read.route;
  return read.table == RT_TABLE_MAIN && read.interface == interface &&
         net::RouteTable::Valid(out);
}

}  // namespace

KernelRoutes::KernelRoutes(std::string interface_name)
    : name_(std::move(interface_name)),
      buffer_(std::make_unique<char[]>(kPieceBytes)) {
  // The kernel does not report a route that disappears with its address or
  // link.
  events_ = OpenNetlink(SOCK_NONBLOCK, RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE |
                                           RTMGRP_IPV4_IFADDR |
                                           RTMGRP_IPV6_IFADDR | RTMGRP_LINK);
  dump_ = OpenNetlink(0, 0);
  if (dump_ < 0) return;
  // Since Linux 4.20 the kernel only sends the requested table; before, all
  // tables.
  const int yes = 1;
  setsockopt(dump_, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &yes, sizeof(yes));
  const timeval second = {.tv_sec = 1, .tv_usec = 0};
  setsockopt(dump_, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
}

KernelRoutes::~KernelRoutes() {
  if (events_ >= 0) close(events_);
  if (dump_ >= 0) close(dump_);
}

bool KernelRoutes::Concerns(const void* data) const {
  const auto* message = static_cast<const nlmsghdr*>(data);
  const void* body = NLMSG_DATA(message);
  switch (message->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      // A new interface may have our name.
      return index_ == 0 ||
             static_cast<unsigned>(
                 static_cast<const ifinfomsg*>(body)->ifi_index) == index_ ||
             if_nametoindex(name_.c_str()) != index_;
    case RTM_NEWADDR:
    case RTM_DELADDR:
      return static_cast<const ifaddrmsg*>(body)->ifa_index == index_;
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      const auto* header = static_cast<const rtmsg*>(body);
      Attributes read;
      read.Read(header->rtm_family, RTM_RTA(header), RTM_PAYLOAD(message));
      return read.interface == index_ || read.nexthops != nullptr;
    }
    default:
      return false;
  }
}

bool KernelRoutes::TakeChange() {
  if (events_ < 0) return false;
  bool changed = false;
  while (true) {
    const ssize_t got = recv(events_, buffer_.get(), kPieceBytes, MSG_TRUNC);
    if (got < 0 && errno == EINTR) continue;
    // The message that did not fit may have been about us.
    if ((got < 0 && errno == ENOBUFS) ||
        got > static_cast<ssize_t>(kPieceBytes)) {
      changed = true;
      continue;
    }
    if (got < 0) return changed;
    auto left = static_cast<size_t>(got);
    for (const auto* at = reinterpret_cast<const nlmsghdr*>(buffer_.get());
         NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
      changed = changed || Concerns(at);
    }
  }
}

std::optional<std::vector<net::Route>> KernelRoutes::Read(bool* cut_off) {
  *cut_off = false;
  std::vector<net::Route> routes;
  index_ = if_nametoindex(name_.c_str());
  if (index_ == 0) return routes;
  if (dump_ < 0) return std::nullopt;
  for (const uint8_t family : {uint8_t{AF_INET}, uint8_t{AF_INET6}}) {
    if (!Dump(family, routes)) return std::nullopt;
  }
  if (routes.size() > net::RouteTable::kMaxRoutes) {
    routes.resize(net::RouteTable::kMaxRoutes);
    *cut_off = true;
  }
  return routes;
}

// Appends the routes of the family. False: the kernel did not answer.
bool KernelRoutes::Dump(uint8_t family, std::vector<net::Route>& out) {
  struct {
    nlmsghdr header;
    rtmsg route;
    rtattr attribute;
    uint32_t interface;
  } request = {};
  static_assert(sizeof(request) ==
                NLMSG_LENGTH(sizeof(rtmsg)) + RTA_LENGTH(sizeof(uint32_t)));
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.route.rtm_family = family;
  request.route.rtm_table = RT_TABLE_MAIN;
  request.attribute.rta_type = RTA_OIF;
  request.attribute.rta_len = RTA_LENGTH(sizeof(uint32_t));
  request.interface = index_;
  const size_t before = out.size();
  bool interrupted = true;
  // If the table keeps changing, the next change is reported soon.
  for (int i = 0; interrupted && i < kAttempts; ++i) {
    out.resize(before);
    interrupted = false;
    request.header.nlmsg_seq = ++sequence_;
    if (send(dump_, &request, sizeof(request), 0) < 0) return false;
    Piece piece = Piece::kMore;
    while (piece == Piece::kMore) piece = ReadPiece(interrupted, out);
    if (piece == Piece::kNone) return false;
  }
  return true;
}

KernelRoutes::Piece KernelRoutes::ReadPiece(bool& interrupted,
                                            std::vector<net::Route>& out) {
  const ssize_t got = recv(dump_, buffer_.get(), kPieceBytes, 0);
  if (got < 0 && errno == EINTR) return Piece::kMore;
  if (got <= 0) return Piece::kNone;
  auto left = static_cast<size_t>(got);
  for (const auto* at = reinterpret_cast<const nlmsghdr*>(buffer_.get());
       NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
    // The rest of a dump that was given up.
    if (at->nlmsg_seq != sequence_) continue;
    interrupted = interrupted || (at->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    // An error: the kernel lacks the family, or the table.
    if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR) {
      return Piece::kLast;
    }
    net::Route route;
    if (at->nlmsg_type == RTM_NEWROUTE && TakeRoute(at, index_, route) &&
        out.size() <= net::RouteTable::kMaxRoutes) {
      out.push_back(route);
    }
  }
  return Piece::kMore;
}

}  // namespace urnic
