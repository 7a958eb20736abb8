// A program writes arbitrary bytes to the rdma_cm device, one command after the
// other, on two channels, and messages are delivered and lost in between. The
// ids of the two channels talk to each other, so connections are made.
//
// An input is a sequence of: one byte of flags, the command's number, its
// length, and its bytes. The flags put in small ids, addresses that exist and
// matching ports, which random bytes would not find.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "transport/base/check.h"
#include "verbs/rdmacm/commands.h"
#include "verbs/rdmacm/testing/fake_network.h"

namespace urnic::rdmacm {
namespace {

constexpr uint64_t kArena = 0x10000;  // where the program's memory is
constexpr size_t kArenaBytes = 4096;
constexpr size_t kValid = offsetof(rdma_ucm_conn_param, valid);

class ArenaMemory final : public UserMemory {
 public:
  bool Read(void* to, uint64_t from, size_t bytes) override {
    if (!Has(from, bytes)) return false;
    std::memcpy(to, &arena_[from - kArena], bytes);
    return true;
  }
  bool Write(uint64_t to, const void* from, size_t bytes) override {
    if (!Has(to, bytes)) return false;
    std::memcpy(&arena_[to - kArena], from, bytes);
    return true;
  }
  uint8_t* data() { return arena_.data(); }

 private:
  static bool Has(uint64_t address, size_t bytes) {
    return address >= kArena && bytes <= kArenaBytes &&
           address - kArena <= kArenaBytes - bytes;
  }
  std::vector<uint8_t> arena_ = std::vector<uint8_t>(kArenaBytes + 1);
};

struct Nobody final : EventChannel::Readiness {
  void SetReady(bool is_ready, bool) override { ready = is_ready; }
  bool ready = false;
};

struct TwoChannels final : ChannelFinder {
  EventChannel* Find(uint32_t fd) override {
    return fd < 2 ? channels[fd] : nullptr;
  }
  EventChannel* channels[2] = {};
};

// Puts valid values into a command, as the flags say.
void MakeValid(uint8_t flags, uint32_t command, std::span<uint8_t> body) {
  const auto put = [&](size_t at, auto value) {
    if (at + sizeof(value) <= body.size()) {
      std::memcpy(&body[at], &value, sizeof(value));
    }
  };
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(7000 + (flags & 1));
  address.sin_addr.s_addr = htonl(0x0a000001);
  const uint32_t id = flags >> 1 & 7;
  const uint64_t response = kArena + 2048;
  switch (command) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      put(offsetof(rdma_ucm_create_id, uid), uint64_t{1} + id);
      put(offsetof(rdma_ucm_create_id, response), response);
      put(offsetof(rdma_ucm_create_id, ps),
          static_cast<uint16_t>((flags & 1) != 0 ? RDMA_PS_TCP : RDMA_PS_UDP));
      break;
    case RDMA_USER_CM_CMD_BIND_IP:
      put(offsetof(rdma_ucm_bind_ip, addr), address);
      put(offsetof(rdma_ucm_bind_ip, id), id);
      break;
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      put(0, uint64_t{0});
      put(offsetof(rdma_ucm_resolve_ip, dst_addr), address);
      put(offsetof(rdma_ucm_resolve_ip, id), id);
      break;
    case RDMA_USER_CM_CMD_GET_EVENT:
      put(0, response);
      break;
    case RDMA_USER_CM_CMD_CONNECT:
      put(offsetof(rdma_ucm_connect, id), id);
      put(offsetof(rdma_ucm_connect, conn_param) + kValid, uint8_t{1});
      break;
    case RDMA_USER_CM_CMD_ACCEPT:
      put(offsetof(rdma_ucm_accept, id), id);
      put(offsetof(rdma_ucm_accept, conn_param) + kValid,
          static_cast<uint8_t>(flags & 1));
      break;
    case RDMA_USER_CM_CMD_LISTEN:
    case RDMA_USER_CM_CMD_REJECT:
    case RDMA_USER_CM_CMD_DISCONNECT:
    case RDMA_USER_CM_CMD_NOTIFY:
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
    case RDMA_USER_CM_CMD_BIND:
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
      put(0, id);
      break;
    default:
      put(0, response);
      put(8, id);
      break;
  }
}

void RunOne(std::span<const uint8_t> input) {
  FakeNetwork network;
  RnicInfo info;
  info.name = "fuzz";
  FakeRnic rnic(network, info,
                {{wire::Gid::FromIpv4(uint32_t{0x0a000001}), 3, 120}});
  Service service({&rnic}, NumberKey{{1, 2}});
  ArenaMemory memory;
  Nobody readiness[2];
  TwoChannels channels;
  for (int i = 0; i < 2; ++i) {
    channels.channels[i] = service.OpenChannel(readiness[i]);
  }
  while (input.size() >= 3) {
    const uint8_t flags = input[0];
    rdma_ucm_cmd_hdr header = {};
    header.cmd = input[1] % (RDMA_USER_CM_CMD_JOIN_MCAST + 2u);
    // Most commands are shorter. Missing bytes are zero.
    const size_t given = std::min<size_t>(input[2], input.size() - 3);
    header.in = (flags & 0x40) != 0 ? static_cast<uint16_t>(given) : 600;
    header.out = (flags & 0x40) != 0 ? input[2] : 1024;
    std::memset(memory.data(), 0, 2048);
    std::memcpy(memory.data(), &header, sizeof(header));
    std::memcpy(memory.data() + sizeof(header), &input[3], given);
    if ((flags & 0x80) != 0) {
      MakeValid(flags, header.cmd, {memory.data() + sizeof(header), header.in});
    }
    input = input.subspan(3 + given);
    EventChannel& channel = *channels.channels[flags >> 4 & 1];
    const int error = RunCommand(service, channel, memory, channels, kArena,
                                 sizeof(header) + header.in);
    URNIC_CHECK(error >= 0);
    // A channel is ready exactly while it has events.
    for (int i = 0; i < 2; ++i) {
      URNIC_CHECK(readiness[i].ready == !channels.channels[i]->empty());
    }
    if ((flags & 0x20) != 0) network.Deliver();
  }
  network.Advance(Duration::Seconds(100));
  for (EventChannel* channel : channels.channels) {
    service.CloseChannel(channel);
  }
  network.Deliver();
}

}  // namespace
}  // namespace urnic::rdmacm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size <= 4096) urnic::rdmacm::RunOne({data, size});
  return 0;
}
