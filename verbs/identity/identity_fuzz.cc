// Any text as URNIC_PORTS, and as an address of `urnic addr`. An accepted text
// is within the limits of the header, a refused one gives an error message, and
// the same text gives the same result again.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "transport/base/check.h"
#include "verbs/identity/device_identity.h"

namespace {

constexpr uint64_t kHost = 1;

bool Terminated(const char* text, size_t size) {
  return std::memchr(text, '\0', size) != nullptr;
}

void CheckAddress(const urnic_ip_address& a) {
  URNIC_CHECK(a.is_ipv6 <= 1 && a.is_iwarp <= 1);
  URNIC_CHECK(a.prefix_len >= 1 && a.prefix_len <= (a.is_ipv6 ? 128 : 32));
}

void CheckRoute(const urnic_ip_route& route) {
  URNIC_CHECK(route.prefix_bits <= 128 && route.metric <= 999999999);
  for (uint32_t i = route.prefix_bits; i < 128; ++i) {
    URNIC_CHECK((route.prefix[i / 8] & 0x80 >> i % 8) == 0);
  }
  URNIC_CHECK(route.gateway[0] != 0xff && route.source[0] != 0xff);
}

void CheckGids(const urnic_device_identity& d) {
  if (d.device_kind->gid_source == URNIC_GID_OF_MAC) {
    URNIC_CHECK(std::memcmp(d.gids[0].gid, d.mac, sizeof(d.mac)) == 0);
    return;
  }
  // Exactly the link-local GID and the addresses, each in both versions.
  for (uint32_t i = 0; i < URNIC_GID_TABLE_LEN; ++i) {
    const int both[] = {URNIC_GID_ROCE_V1, URNIC_GID_ROCE_V2};
    URNIC_CHECK(d.gids[i].type ==
                (i / 2 <= d.num_addresses ? both[i % 2] : URNIC_GID_NONE));
  }
}

void CheckDevice(const urnic_device_identity& d, int node) {
  URNIC_CHECK(Terminated(d.name, sizeof(d.name)));
  URNIC_CHECK(Terminated(d.dev, sizeof(d.dev)));
  URNIC_CHECK(Terminated(d.ifname, sizeof(d.ifname)));
  URNIC_CHECK(Terminated(d.fault, sizeof(d.fault)));
  URNIC_CHECK(Terminated(d.iwarp, sizeof(d.iwarp)));
  URNIC_CHECK(d.port_kind != URNIC_PORT_LOOP || d.fault[0] == '\0');
  URNIC_CHECK(Terminated(d.port_name, sizeof(d.port_name)));
  URNIC_CHECK(d.node == node && d.ordinal <= node);
  URNIC_CHECK(d.ordinal < URNIC_MAX_PORTS);
  URNIC_CHECK(d.mtu >= URNIC_PORT_MTU_MIN && d.mtu <= URNIC_PORT_MTU_MAX);
  URNIC_CHECK(d.num_addresses <= URNIC_MAX_ADDRS);
  URNIC_CHECK(d.kinds != 0 && d.kinds < 1u << URNIC_DEVICE_KINDS);
  for (uint32_t i = 0; i < d.num_addresses; ++i) {
    CheckAddress(d.addresses[i]);
    URNIC_CHECK(d.addresses[i].is_iwarp == 0 ||
                (d.kinds & 1u << URNIC_DEVICE_IWARP) != 0);
  }
  URNIC_CHECK(d.num_routes <= URNIC_MAX_ROUTES && d.vlan <= URNIC_MAX_VLAN);
  for (uint32_t i = 0; i < d.num_routes; ++i) CheckRoute(d.routes[i]);
  URNIC_CHECK((d.mac[0] & 1) == 0 || d.mac_is_port);  // not a group's
  CheckGids(d);
  URNIC_CHECK(d.num_pkeys >= 1 && d.num_pkeys <= URNIC_MAX_PKEYS);
  URNIC_CHECK(d.pkeys[0] == URNIC_PKEY_DEFAULT);
}

void CheckPorts(const std::string& text) {
  std::vector<urnic_device_identity> devices(URNIC_MAX_DEVICES);
  char error[64];
  const int count = urnic_device_identity_parse(
      text.c_str(), kHost, devices.data(), error, sizeof(error));
  if (count < 0) {
    URNIC_CHECK(Terminated(error, sizeof(error)) && error[0] != '\0');
    return;
  }
  URNIC_CHECK(count <= URNIC_MAX_DEVICES);
  for (int i = 0; i < count; ++i) CheckDevice(devices[i], i);
  std::vector<urnic_device_identity> again(URNIC_MAX_DEVICES);
  URNIC_CHECK(urnic_device_identity_parse(text.c_str(), kHost, again.data(),
                                          error, sizeof(error)) == count);
  for (int i = 0; i < count; ++i) {
    URNIC_CHECK(std::memcmp(devices[i].mac, again[i].mac, 6) == 0);
    URNIC_CHECK(std::memcmp(devices[i].gids, again[i].gids,
                            sizeof(again[i].gids)) == 0);
  }
}

void CheckOneAddress(const std::string& text) {
  char error[64];
  urnic_ip_address address;
  std::memset(&address, 0xa5, sizeof(address));
  const urnic_ip_address before = address;
  if (urnic_ip_address_parse(text.c_str(), &address, error, sizeof(error)) ==
      0) {
    CheckAddress(address);
    return;
  }
  URNIC_CHECK(Terminated(error, sizeof(error)) && error[0] != '\0');
  URNIC_CHECK(std::memcmp(&address, &before, sizeof(address)) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CheckPorts(text);
  CheckOneAddress(text);
  return 0;
}
