// A verbs program that outlives its peers. Unlike perftest, which ends with its
// connection, it keeps its device open and connects again and again. The
// end-to-end tests kill the other side, pull the cable, and check its output.
//
//   urnic run .. -- echo_peer server TCP_PORT
//   urnic run .. -- echo_peer client TCP_PORT ADDRESS BYTES COUNT
//   urnic run .. -- echo_peer sleeping-server TCP_PORT
//   urnic run .. -- echo_peer sleeping-client TCP_PORT ADDRESS
//
// The client makes a reliable connection, sends COUNT messages of BYTES, each
// of which must come back unchanged, disconnects, and starts over, until
// SIGTERM. Each attempt prints a line on both sides: "ok COUNT" or "failed
// WHY". The sleeping variants exchange one message, print "asleep", and then
// wait for the event of another, with the connection open, until SIGTERM.

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kGidIndex = 3;         // the first IPv4 address, as RoCEv2
constexpr uint8_t kAckTimeout = 12;  // 16.8 ms
constexpr uint8_t kRetries = 5;
constexpr auto kPatience = std::chrono::seconds(3);

struct Hello {
  ibv_gid gid;
  uint32_t qpn;
  uint32_t psn;
  uint32_t bytes;
  uint32_t count;
};

volatile sig_atomic_t g_stop = 0;

// Ends this attempt with the reason; the program goes on.
using Lost = std::runtime_error;

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void SendAll(int fd, const Hello& hello) {
  if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
    throw Lost("TCP send");
}

Hello ReceiveAll(int fd) {
  Hello hello;
  pollfd readable = {fd, POLLIN, 0};
  if (poll(&readable, 1, 3000) != 1 ||
      recv(fd, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello))
    throw Lost("TCP receive");
  return hello;
}

// One reliable connection and its buffers: the upper half receives.
class Connection {
 public:
  Connection(ibv_context* context, ibv_pd* pd, uint32_t bytes)
      : context_(context), buffer_(2 * size_t{bytes}), bytes_(bytes) {
    mr_ =
        ibv_reg_mr(pd, buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE);
    if (mr_ == nullptr && errno == EBUSY) throw Lost("the device recovers");
    channel_ = ibv_create_comp_channel(context);
    if (mr_ == nullptr || channel_ == nullptr)
      Die("ibv_reg_mr or ibv_create_comp_channel");
    cq_ = ibv_create_cq(context, 8, nullptr, channel_, 0);
    if (cq_ == nullptr) Die("ibv_create_cq");
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 2,
                .max_recv_wr = 2,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd, &init);
    if (qp_ == nullptr) Die("ibv_create_qp");
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    Modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                           IBV_QP_ACCESS_FLAGS);
  }
  ~Connection() {
    ibv_destroy_qp(qp_);
    ibv_destroy_cq(cq_);
    ibv_destroy_comp_channel(channel_);
    ibv_dereg_mr(mr_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void Exchange(int fd, bool server, uint32_t count) {
    Hello mine = {.gid = {},
                  .qpn = qp_->qp_num,
                  .psn = qp_->qp_num * 0x9e37 & 0xffffff,
                  .bytes = bytes_,
                  .count = count};
    if (ibv_query_gid(context_, 1, kGidIndex, &mine.gid) != 0)
      Die("ibv_query_gid");
    // The server read the client's hello before it created this object.
    if (!server) SendAll(fd, mine);
    const Hello theirs = server ? peer_ : ReceiveAll(fd);
    PostReceive();
    Connect(mine.psn, theirs);
    if (server) SendAll(fd, mine);
  }
  void set_peer(const Hello& peer) { peer_ = peer; }

  void PostReceive() {
    ibv_sge sge = {Address(bytes_), bytes_, mr_->lkey};
    ibv_recv_wr request = {};
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad;
    if (ibv_post_recv(qp_, &request, &bad) != 0) throw Lost("ibv_post_recv");
  }

  void PostSend() {
    ibv_sge sge = {Address(0), bytes_, mr_->lkey};
    ibv_send_wr request = {};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad;
    if (ibv_post_send(qp_, &request, &bad) != 0) throw Lost("ibv_post_send");
  }

  // Waits until `sent` messages in total have been acknowledged and `received`
  // have arrived. The two kinds of completion come in any order.
  void Await(uint32_t sent, uint32_t received) {
    const auto deadline = Clock::now() + kPatience;
    while (sent_ < sent || received_ < received) {
      ibv_wc done;
      const int got = ibv_poll_cq(cq_, 1, &done);
      if (got < 0) throw Lost("ibv_poll_cq");
      if (g_stop != 0) throw Lost("stopped");
      if (got == 0 && Clock::now() > deadline) throw Lost("silence");
      if (got == 0) continue;
      if (done.status != IBV_WC_SUCCESS)
        throw Lost(ibv_wc_status_str(done.status));
      ++((done.opcode & IBV_WC_RECV) != 0 ? received_ : sent_);
    }
  }

  // Blocks in the event channel until a signal, or until an unexpected event.
  void Sleep() {
    if (ibv_req_notify_cq(cq_, 0) != 0) throw Lost("ibv_req_notify_cq");
    Say("asleep");
    ibv_cq* cq;
    void* owner;
    while (g_stop == 0) {
      if (ibv_get_cq_event(channel_, &cq, &owner) != 0) continue;
      ibv_ack_cq_events(cq, 1);
      throw Lost("an event nobody sent");
    }
  }

  uint8_t* out() { return buffer_.data(); }
  uint8_t* in() { return buffer_.data() + bytes_; }

 private:
  uint64_t Address(size_t offset) const {
    return reinterpret_cast<uintptr_t>(buffer_.data() + offset);
  }

  void Connect(uint32_t psn, const Hello& peer) {
    ibv_qp_attr a = {};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer.qpn;
    a.rq_psn = peer.psn;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 12;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.dgid = peer.gid;
    a.ah_attr.grh.sgid_index = kGidIndex;
    a.ah_attr.grh.hop_limit = 64;
    Modify(a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                  IBV_QP_MIN_RNR_TIMER);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = kAckTimeout;
    a.retry_cnt = kRetries;
    a.rnr_retry = 7;
    a.sq_psn = psn;
    a.max_rd_atomic = 1;
    Modify(a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  void Modify(ibv_qp_attr& attributes, int mask) {
    const int error = ibv_modify_qp(qp_, &attributes, mask);
    if (error != 0)
      throw Lost(std::string("ibv_modify_qp: ") + std::strerror(error));
  }

  ibv_context* const context_;
  std::vector<uint8_t> buffer_;
  const uint32_t bytes_;
  Hello peer_ = {};
  ibv_mr* mr_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  uint32_t sent_ = 0;
  uint32_t received_ = 0;
};

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
};

Device OpenDevice() {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) Die("ibv_get_device_list");
  Device device;
  device.context = ibv_open_device(list[0]);
  if (device.context == nullptr) Die("ibv_open_device");
  device.pd = ibv_alloc_pd(device.context);
  if (device.pd == nullptr) Die("ibv_alloc_pd");
  ibv_free_device_list(list);
  return device;
}

void CloseDevice(const Device& device) {
  if (ibv_dealloc_pd(device.pd) != 0) Die("ibv_dealloc_pd");
  if (ibv_close_device(device.context) != 0) Die("ibv_close_device");
}

// Runs one attempt and prints its result.
template <typename Attempt>
void Report(Attempt&& attempt) {
  try {
    Say("ok " + std::to_string(attempt()));
  } catch (const Lost& why) {
    Say(std::string("failed ") + why.what());
  }
}

uint32_t ServeOne(const Device& device, int fd, bool sleeping) {
  const Hello hello = ReceiveAll(fd);
  if (hello.bytes == 0 || hello.bytes > 1u << 24) throw Lost("bad hello");
  Connection connection(device.context, device.pd, hello.bytes);
  connection.set_peer(hello);
  connection.Exchange(fd, /*server=*/true, hello.count);
  for (uint32_t i = 0; i < hello.count; ++i) {
    connection.Await(i, i + 1);
    std::memcpy(connection.out(), connection.in(), hello.bytes);
    connection.PostReceive();
    connection.PostSend();
  }
  connection.Await(hello.count, hello.count);
  if (sleeping) connection.Sleep();
  return hello.count;
}

uint32_t AskOne(const Device& device, int fd, uint32_t bytes, uint32_t count,
                bool sleeping) {
  Connection connection(device.context, device.pd, bytes);
  connection.Exchange(fd, /*server=*/false, count);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t at = 0; at < bytes; ++at) {
      connection.out()[at] = static_cast<uint8_t>(at * 7 + i);
    }
    connection.PostSend();
    connection.Await(i + 1, i + 1);
    if (std::memcmp(connection.in(), connection.out(), bytes) != 0) {
      Say("WRONG DATA");
      std::exit(1);
    }
    if (i + 1 < count) connection.PostReceive();
  }
  if (sleeping) connection.Sleep();
  return count;
}

void Serve(uint16_t port, bool sleeping) {
  const Device device = OpenDevice();
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  here.sin_port = htons(port);
  if (bind(listener, reinterpret_cast<sockaddr*>(&here), sizeof(here)) != 0 ||
      listen(listener, 4) != 0) {
    Die("bind or listen");
  }
  while (g_stop == 0) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    Report([&] { return ServeOne(device, fd, sleeping); });
    close(fd);
  }
  CloseDevice(device);
}

void Ask(uint16_t port, const char* address, uint32_t bytes, uint32_t count,
         bool sleeping) {
  const Device device = OpenDevice();
  sockaddr_in there = {};
  there.sin_family = AF_INET;
  there.sin_port = htons(port);
  if (inet_pton(AF_INET, address, &there.sin_addr) != 1) Die(address);
  while (g_stop == 0) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // Connecting to an absent host must end soon.
    const timeval limit = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    Report([&] {
      if (connect(fd, reinterpret_cast<sockaddr*>(&there), sizeof(there)) != 0)
        throw Lost("TCP connect");
      return AskOne(device, fd, bytes, count, sleeping);
    });
    close(fd);
    usleep(50'000);
  }
  CloseDevice(device);
}

}  // namespace

int main(int argc, char** argv) {
  // Without SA_RESTART, so that accept() and connect() return.
  struct sigaction stop = {};
  stop.sa_handler = [](int) { g_stop = 1; };
  sigaction(SIGTERM, &stop, nullptr);
  const std::string role = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) {
    return static_cast<uint32_t>(std::atoi(argv[i]));
  };
  const bool sleeping = role.rfind("sleeping-", 0) == 0;
  if (argc == 3 && (role == "server" || role == "sleeping-server")) {
    Serve(static_cast<uint16_t>(number(2)), sleeping);
    return 0;
  }
  if (argc == 6 && role == "client") {
    Ask(static_cast<uint16_t>(number(2)), argv[3], number(4), number(5), false);
    return 0;
  }
  if (argc == 4 && role == "sleeping-client") {
    Ask(static_cast<uint16_t>(number(2)), argv[3], 8, 1, true);
    return 0;
  }
  std::fprintf(stderr,
               "usage: echo_peer server TCP_PORT\n"
               "       echo_peer client TCP_PORT ADDRESS BYTES COUNT\n"
               "       echo_peer sleeping-server TCP_PORT\n"
               "       echo_peer sleeping-client TCP_PORT ADDRESS\n");
  return 2;
}
