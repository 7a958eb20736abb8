#include "transport/wire/address_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace urnic::wire {

std::string IpText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = gid.is_ipv4();
  inet_ntop(v4 ? AF_INET : AF_INET6, &gid.bytes[v4 ? 12 : 0], text,
            sizeof(text));
  return text;
}

std::string SocketText(const Gid& gid, uint16_t port) {
  const std::string address =
      gid.is_ipv4() ? IpText(gid) : "[" + IpText(gid) + "]";
  return address + ":" + std::to_string(port);
}

std::string MacText(const MacAddress& mac) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : mac.bytes) {
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace urnic::wire
