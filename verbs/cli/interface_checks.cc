#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "verbs/cli/checks.h"

namespace urnic {
namespace {

// One question to the kernel about an interface.
class InterfaceQuery {
 public:
  explicit InterfaceQuery(const char (&name)[IFNAMSIZ])
      : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    std::memcpy(request_.ifr_name, name, IFNAMSIZ);
  }
  InterfaceQuery(const InterfaceQuery&) = delete;
  InterfaceQuery& operator=(const InterfaceQuery&) = delete;
  ~InterfaceQuery() {
    if (fd_ >= 0) close(fd_);
  }

  bool IsUp() {
    return ioctl(fd_, SIOCGIFFLAGS, &request_) == 0 &&
           (request_.ifr_flags & IFF_UP) != 0 &&
           (request_.ifr_flags & IFF_RUNNING) != 0;
  }

  // An ethtool on/off feature; false also if the driver does not know it.
  bool Has(uint32_t get_command) {
    ethtool_value value{get_command, 0};
    request_.ifr_data = reinterpret_cast<char*>(&value);
    return ioctl(fd_, SIOCETHTOOL, &request_) == 0 && value.data != 0;
  }

  bool HasLro() {
    ethtool_value value{ETHTOOL_GFLAGS, 0};
    request_.ifr_data = reinterpret_cast<char*>(&value);
    return ioctl(fd_, SIOCETHTOOL, &request_) == 0 &&
           (value.data & ETH_FLAG_LRO) != 0;
  }

 private:
  int fd_;
  ifreq request_{};
};

Check CheckMtu(const urnic_device_identity& d) {
  const uint32_t ib_mtu = urnic_ib_mtu(d.mtu);
  Check check{Finding::kOk, absl::StrCat(d.ifname, " MTU"),
              absl::StrCat(d.mtu, ", carries RDMA packets of ", ib_mtu, " B"),
              ""};
  if (ib_mtu < 1024) {
    check.finding = Finding::kWarn;
    check.remedy = absl::StrCat("ip link set ", d.ifname, " mtu 1500 or more");
  }
  return check;
}

// Offloads that merge received frames deliver packets that no peer has sent.
Check CheckOffloads(const urnic_device_identity& d) {
  InterfaceQuery query(d.ifname);
  std::string on;
  if (query.Has(ETHTOOL_GGRO)) on += " gro";
  if (query.HasLro()) on += " lro";
  const std::string what = absl::StrCat(d.ifname, " offloads");
  if (on.empty())
    return {
        Finding::kOk, what,
        "the kernel merges no received frames; a kernel as peer needs tx, tso "
        "and gso off, too",
        ""};
  return {Finding::kWarn, what,
          "on:" + on + "; the RNIC drops frames that the kernel has merged",
          absl::StrCat(
              "ethtool -K ", d.ifname,
              " gro off lro off; where the peer is a kernel, there also tx "
              "off tso off gso off")};
}

Check CheckForwarding(const urnic_device_identity& d) {
  const std::string path =
      absl::StrCat("/proc/sys/net/ipv4/conf/", d.ifname, "/forwarding");
  int forwarding = 0;
  std::ifstream(path) >> forwarding;
  const std::string what = absl::StrCat(d.ifname, " forwarding");
  if (forwarding == 0) return {Finding::kOk, what, "off", ""};
  return {Finding::kWarn, what,
          "on; with mac=port the kernel sends our packets back out",
          absl::StrCat("sysctl net.ipv4.conf.", d.ifname,
                       ".forwarding=0, or do not use mac=port")};
}

}  // namespace

std::vector<Check> CheckInterface(const urnic_device_identity& d) {
  if (d.ifname[0] == '\0') return {};
  std::vector<Check> checks;
  if (InterfaceQuery(d.ifname).IsUp())
    checks.push_back({Finding::kOk, absl::StrCat(d.ifname, " link"), "up", ""});
  else
    checks.push_back(
        {Finding::kFail, absl::StrCat(d.ifname, " link"), "down, or no cable",
         absl::StrCat("ip link set ", d.ifname,
                      " up; then look at the cable and the peer's interface")});
  checks.push_back(CheckMtu(d));
  checks.push_back(CheckOffloads(d));
  if (d.mac_is_port) checks.push_back(CheckForwarding(d));
  return checks;
}

}  // namespace urnic
