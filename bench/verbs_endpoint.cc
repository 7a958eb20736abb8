#include "bench/verbs_endpoint.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace urnic::bench {

void Die(const std::string& what) {
  if (errno != 0) {
    std::fprintf(stderr, "verbs_bench: %s: %s\n", what.c_str(),
                 std::strerror(errno));
  } else {
    std::fprintf(stderr, "verbs_bench: %s\n", what.c_str());
  }
  std::exit(1);
}

int64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

namespace {

ibv_context* OpenDevice(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0)
    Die("no RDMA device; run this under `urnic run`");
  for (int i = 0; i < count; ++i) {
    if (!name.empty() && name != ibv_get_device_name(list[i])) continue;
    ibv_context* context = ibv_open_device(list[i]);
    if (context == nullptr) Die("ibv_open_device");
    ibv_free_device_list(list);
    return context;
  }
  errno = 0;
  Die("no device named " + name);
}

ibv_mtu MtuOf(uint32_t bytes, ibv_context* context) {
  ibv_port_attr port;
  if (ibv_query_port(context, 1, &port) != 0) Die("ibv_query_port");
  ibv_mtu mtu = IBV_MTU_256;
  while (mtu < port.active_mtu && (128u << (mtu + 1)) <= bytes) {
    mtu = static_cast<ibv_mtu>(mtu + 1);
  }
  return mtu;
}

sockaddr_un SocketAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    Die(path);
  }
  std::strcpy(address.sun_path, path.c_str());
  return address;
}

int Listen(const std::string& path) {
  const sockaddr_un address = SocketAddress(path);
  unlink(path.c_str());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 ||
      bind(listener, reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0 ||
      listen(listener, 1) != 0) {
    Die("listen at " + path);
  }
  const int peer = accept(listener, nullptr, nullptr);
  if (peer < 0) Die("accept");
  close(listener);
  unlink(path.c_str());
  return peer;
}

int ConnectTo(const std::string& path) {
  const sockaddr_un address = SocketAddress(path);
  const int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (int i = 0; i < 1000; ++i) {
    if (connect(peer, reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) == 0) {
      return peer;
    }
    usleep(10000);
  }
  Die("connect to " + path);
}

ibv_cq* MakeCq(ibv_context* context, uint32_t entries, bool single_threaded) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = entries;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq* const cq = single_threaded
                         ? ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr))
                         : ibv_create_cq(context, static_cast<int>(entries),
                                         nullptr, nullptr, 0);
  if (cq == nullptr) Die("ibv_create_cq");
  return cq;
}

}  // namespace

ibv_qp* MakeQp(ibv_pd* pd, ibv_cq* cq, uint32_t depth) {
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap.max_send_wr = depth;
  attr.cap.max_recv_wr = depth;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd, &attr);
  if (qp == nullptr) Die("ibv_create_qp");
  ibv_qp_attr init = {};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC;
  if (ibv_modify_qp(qp, &init,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                        IBV_QP_ACCESS_FLAGS) != 0) {
    Die("ibv_modify_qp to INIT");
  }
  return qp;
}

Endpoint::Endpoint(ibv_context* context, const BenchOptions& options)
    : options_(options),
      context_(context),
      half_((std::max<size_t>(options.size, 64) + 63) & ~size_t{63}),
      mtu_(MtuOf(options.mtu, context)) {
  pd_ = ibv_alloc_pd(context);
  if (pd_ == nullptr) Die("ibv_alloc_pd");
  if (options.thread_domain) {
    ibv_td_init_attr td = {};
    ibv_parent_domain_init_attr attr = {};
    attr.pd = pd_;
    attr.td = ibv_alloc_td(context, &td);
    if (attr.td == nullptr) Die("ibv_alloc_td");
    pd_ = ibv_alloc_parent_domain(context, &attr);
    if (pd_ == nullptr) Die("ibv_alloc_parent_domain");
  }
  memory_ = new (std::align_val_t(4096)) uint8_t[2 * half_ + 64]();
  mr_ = ibv_reg_mr(pd_, memory_, 2 * half_ + 64,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  if (mr_ == nullptr) Die("ibv_reg_mr");
  cq_ = MakeCq(context, 2 * options.depth, options.thread_domain);
  qp_ = MakeQp(pd_, cq_, options.depth);
}

Address Endpoint::address() const {
  Address mine = {};
  mine.memory = reinterpret_cast<uint64_t>(memory_);
  mine.rkey = mr_->rkey;
  mine.qpn = qp_->qp_num;
  if (ibv_query_gid(context_, 1, static_cast<int>(options_.gid_index),
                    &mine.gid) != 0) {
    Die("ibv_query_gid " + std::to_string(options_.gid_index));
  }
  return mine;
}

void Endpoint::Connect(const Address& peer) {
  peer_ = peer;
  ConnectMore(qp_, peer.qpn);
}

void Endpoint::ConnectMore(ibv_qp* qp, uint32_t qpn) const {
  ibv_qp_attr rtr = {};
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = mtu_;
  rtr.dest_qp_num = qpn;
  rtr.rq_psn = PsnOf(qpn);
  rtr.max_dest_rd_atomic = 16;
  rtr.min_rnr_timer = 12;
  rtr.ah_attr.is_global = 1;
  rtr.ah_attr.port_num = 1;
  rtr.ah_attr.grh.dgid = peer_.gid;
  rtr.ah_attr.grh.sgid_index = static_cast<uint8_t>(options_.gid_index);
  rtr.ah_attr.grh.hop_limit = 64;
  if (ibv_modify_qp(qp, &rtr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                        IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) !=
      0) {
    Die("ibv_modify_qp to RTR");
  }
  ibv_qp_attr rts = {};
  rts.qp_state = IBV_QPS_RTS;
  rts.sq_psn = PsnOf(qp->qp_num);
  rts.timeout = 18;  // 1 s: on a shared machine a CPU may be away
  rts.retry_cnt = 7;
  rts.rnr_retry = 7;
  rts.max_rd_atomic = 16;
  if (ibv_modify_qp(qp, &rts,
                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                        IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    Die("ibv_modify_qp to RTS");
  }
}

void Endpoint::Post(ibv_wr_opcode opcode, uint32_t bytes, size_t local,
                    size_t remote, uint64_t add) {
  ibv_sge sge = {reinterpret_cast<uint64_t>(memory_) + local, bytes, mr_->lkey};
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = peer_.memory + remote;
    wr.wr.atomic.rkey = peer_.rkey;
    wr.wr.atomic.compare_add = add;
  } else {
    wr.wr.rdma.remote_addr = peer_.memory + remote;
    wr.wr.rdma.rkey = peer_.rkey;
  }
  ibv_send_wr* bad = nullptr;
  errno = ibv_post_send(qp_, &wr, &bad);
  if (errno != 0) Die("ibv_post_send");
}

void Endpoint::PostWrite(uint32_t bytes, size_t from, size_t to) {
  Post(IBV_WR_RDMA_WRITE, bytes, from, to);
}
void Endpoint::PostRead(uint32_t bytes, size_t from, size_t to) {
  Post(IBV_WR_RDMA_READ, bytes, to, from);
}
void Endpoint::PostFetchAdd(uint64_t add, size_t result, size_t target) {
  Post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, result, target, add);
}
void Endpoint::PostSend(uint32_t bytes, size_t from) {
  Post(IBV_WR_SEND, bytes, from, 0);
}

void Endpoint::PostRecv(uint32_t bytes, size_t to) {
  ibv_sge sge = {reinterpret_cast<uint64_t>(memory_) + to, bytes, mr_->lkey};
  ibv_recv_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  errno = ibv_post_recv(qp_, &wr, &bad);
  if (errno != 0) Die("ibv_post_recv");
}

bool Endpoint::Poll(ibv_wc* wc) {
  const int found = ibv_poll_cq(cq_, 1, wc);
  if (found < 0) Die("ibv_poll_cq");
  if (found == 0) return false;
  if (wc->status != IBV_WC_SUCCESS) {
    errno = 0;
    Die(std::string("completion: ") + ibv_wc_status_str(wc->status));
  }
  return true;
}

ibv_wc Endpoint::Await(int count) {
  ibv_wc wc;
  while (count > 0) {
    if (Poll(&wc)) --count;
  }
  return wc;
}

Pair::Pair(const BenchOptions& options) : server_(!options.server.empty()) {
  ibv_context* context = OpenDevice(options.device);
  here_ = std::make_unique<Endpoint>(context, options);
  if (options.server.empty() && options.client.empty()) {
    other_ = std::make_unique<Endpoint>(context, options);
    here_->Connect(other_->address());
    other_->Connect(here_->address());
    return;
  }
  socket_ = server_ ? Listen(options.server) : ConnectTo(options.client);
  const Address mine = here_->address();
  Address theirs;
  Exchange(&mine, &theirs, sizeof(mine));
  here_->Connect(theirs);
  Barrier();
}

void Pair::Exchange(const void* mine, void* theirs, size_t bytes) {
  // One after the other: both may send more than the socket holds.
  const auto send = [&] {
    return write(socket_, mine, bytes) == static_cast<ssize_t>(bytes);
  };
  const auto receive = [&] {
    return recv(socket_, theirs, bytes, MSG_WAITALL) ==
           static_cast<ssize_t>(bytes);
  };
  if (server_ ? !receive() || !send() : !send() || !receive()) {
    Die("the peer went away");
  }
}

void Pair::Barrier(bool poll) {
  if (in_one_process()) return;
  char mine = 1;
  char theirs = 0;
  if (!poll) return Exchange(&mine, &theirs, 1);
  if (write(socket_, &mine, 1) != 1) Die("the peer went away");
  ibv_wc wc;
  for (;;) {
    // So rarely that the cost of the system call does not matter.
    for (int i = 0; i < 10000; ++i) ibv_poll_cq(here_->cq(), 1, &wc);
    const ssize_t n = recv(socket_, &theirs, 1, MSG_DONTWAIT);
    if (n == 1) return;
    if (n == 0 || errno != EAGAIN) Die("the peer went away");
  }
}

}  // namespace urnic::bench
