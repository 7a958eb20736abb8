#pragma once

// Two queue pairs of one device that talk to each other, made and used through
// libibverbs as a program would, for tests whose main() is provider_main.cc.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

namespace urnic {

inline constexpr int kGidIndexIpv4 = 3;
inline constexpr int kGidIndexIpv6 = 5;
inline constexpr unsigned kAllRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC;

// An open device: urnic0, or the last one, which is the same if there is one.
class OpenDevice {
 public:
  enum Which { kFirst, kLast };
  explicit OpenDevice(Which which = kFirst) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (list != nullptr && count > 0) {
      context_ = ibv_open_device(list[which == kFirst ? 0 : count - 1]);
      ibv_free_device_list(list);
    }
    if (context_ == nullptr) {
      ADD_FAILURE() << "cannot open the device: " << strerror(errno);
      std::abort();
    }
  }
  ~OpenDevice() {
    if (context_ != nullptr) {
      EXPECT_EQ(ibv_close_device(context_), 0);
    }
  }
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;
  ibv_context* get() const { return context_; }
  operator ibv_context*() const { return context_; }  // as programs write it

 private:
  ibv_context* context_ = nullptr;
};

// What queue pairs are made with, and how they are connected.
struct PairOptions {
  uint32_t depth = 64;  // of each queue
  uint32_t max_sge = 4;
  uint32_t max_inline = 64;
  int sq_sig_all = 1;
  int mtu = IBV_MTU_1024;  // ibv_mtu, or an invalid value
  int gid_index = kGidIndexIpv4;
  uint8_t timeout = 14;
  uint8_t retry_cnt = 7;
  uint8_t rnr_retry = 7;
  uint8_t min_rnr_timer = 1;
  uint8_t rd_atomic = 16;
  ibv_comp_channel* channel = nullptr;  // for ends on the channel's device
  ibv_pd* pd = nullptr;                 // nullptr: its own
  ibv_cq* cq = nullptr;                 // the same
  ibv_srq* srq = nullptr;               // receives come from it; with its pd
  ibv_qp_type type = IBV_QPT_RC;        // or UC
  uint64_t send_ops = 0;                // not 0: an extended queue pair
  ibv_rate static_rate = IBV_RATE_MAX;
};

// One end: its queue pair, its completion queue, a megabyte of memory.
class End {
 public:
  static constexpr size_t kBytes = (1 << 20) + 64;

  End(ibv_context* context, const PairOptions& options)
      : context_(context), options_(options), memory_(kBytes) {
    own_pd_ = options.pd == nullptr ? ibv_alloc_pd(context) : nullptr;
    pd_ = options.pd == nullptr ? own_pd_ : options.pd;
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), kAllRights);
    const bool on_channel =
        options.channel != nullptr && options.channel->context == context;
    if (options.cq == nullptr) {
      own_cq_ = ibv_create_cq(context, 2 * static_cast<int>(options.depth),
                              this, on_channel ? options.channel : nullptr, 0);
    }
    cq_ = options.cq == nullptr ? own_cq_ : options.cq;
    ibv_query_gid(context, 1, options.gid_index, &peer_gid_);
    ibv_qp_init_attr_ex init = {};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = init.cap.max_recv_wr = options.depth;
    init.cap.max_send_sge = init.cap.max_recv_sge = options.max_sge;
    init.cap.max_inline_data = options.max_inline;
    init.qp_type = options.type;
    init.srq = options.srq;
    init.sq_sig_all = options.sq_sig_all;
    init.pd = pd_;
    init.send_ops_flags = options.send_ops;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    if (options.send_ops != 0) {
      init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    }
    qp_ = ibv_create_qp_ex(context, &init);
    cap_ = init.cap;
    EXPECT_TRUE(mr_ != nullptr && cq_ != nullptr && qp_ != nullptr)
        << strerror(errno);
  }
  ~End() {
    if (qp_ != nullptr) {
      EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    }
    if (own_cq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_cq(own_cq_), 0);
    }
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    if (own_pd_ != nullptr) {
      EXPECT_EQ(ibv_dealloc_pd(own_pd_), 0);
    }
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  ibv_qp* qp() const { return qp_; }
  ibv_cq* cq() const { return cq_; }
  ibv_mr* mr() const { return mr_; }
  ibv_pd* pd() const { return pd_; }
  const ibv_qp_cap& cap() const { return cap_; }
  uint8_t* memory() { return memory_.data(); }
  uint64_t address(size_t offset = 0) {
    return reinterpret_cast<uint64_t>(memory_.data() + offset);
  }
  ibv_sge Sge(size_t offset, uint32_t bytes) {
    return {address(offset), bytes, mr_->lkey};
  }
  // Connect() looks for the queue pair on this device instead of its own.
  void set_peer(const End& peer) {
    ibv_query_gid(peer.context_, 1, options_.gid_index, &peer_gid_);
  }
  void set_peer(const ibv_gid& gid) { peer_gid_ = gid; }
  void DestroyQp() {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    qp_ = nullptr;
  }

  // RESET to INIT, RTR or RTS, connected to queue pair `dest_qpn` here.
  int ToInit() {
    ibv_qp_attr a = {};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (options_.type == IBV_QPT_RC) {
      a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    }
    return ibv_modify_qp(
        qp_, &a,
        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int ToRtr(uint32_t dest_qpn) {
    ibv_qp_attr a = {};
    a.qp_state = IBV_QPS_RTR;
    std::memcpy(&a.path_mtu, &options_.mtu, sizeof(a.path_mtu));
    a.dest_qp_num = dest_qpn;
    a.rq_psn = kPsn;
    a.max_dest_rd_atomic = options_.rd_atomic;
    a.min_rnr_timer = options_.min_rnr_timer;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.sgid_index = static_cast<uint8_t>(options_.gid_index);
    a.ah_attr.grh.dgid = peer_gid_;
    a.ah_attr.static_rate = static_cast<uint8_t>(options_.static_rate);
    constexpr int kReliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(
        qp_, &a,
        options_.type == IBV_QPT_RC ? kRtrMask : kRtrMask & ~kReliable);
  }
  int ToRts() {
    ibv_qp_attr a = {};
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = kPsn;
    a.timeout = options_.timeout;
    a.retry_cnt = options_.retry_cnt;
    a.rnr_retry = options_.rnr_retry;
    a.max_rd_atomic = options_.rd_atomic;
    return ibv_modify_qp(qp_, &a,
                         options_.type == IBV_QPT_RC
                             ? kRtsMask
                             : int{IBV_QP_STATE} | int{IBV_QP_SQ_PSN});
  }
  void Connect(uint32_t dest_qpn) {
    EXPECT_EQ(ToInit(), 0);
    EXPECT_EQ(ToRtr(dest_qpn), 0);
    EXPECT_EQ(ToRts(), 0);
  }
  int To(ibv_qp_state state, int mask = 0) {
    ibv_qp_attr a = {};
    a.qp_state = state;
    a.en_sqd_async_notify = 1;
    return ibv_modify_qp(qp_, &a, IBV_QP_STATE | mask);
  }
  ibv_qp_state State() {
    ibv_qp_attr a = {};
    ibv_qp_init_attr init = {};
    EXPECT_EQ(ibv_query_qp(qp_, &a, IBV_QP_STATE, &init), 0);
    return a.qp_state;
  }

  int PostRecv(uint64_t id, std::vector<ibv_sge> sges) {
    ibv_recv_wr wr = {};
    wr.wr_id = id;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &wr, &bad);
  }
  // Posts one request; `fill` sets what differs from a signaled SEND.
  int PostSend(std::vector<ibv_sge> sges,
               const std::function<void(ibv_send_wr&)>& fill = nullptr) {
    ibv_send_wr wr = {};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    if (fill) fill(wr);
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp_, &wr, &bad);
    if (error != 0) {
      EXPECT_EQ(bad, &wr);
    }
    return error;
  }

  // The next completion; fails after a minute.
  ibv_wc Poll() {
    ibv_wc wc = {};
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      const int n = ibv_poll_cq(cq_, 1, &wc);
      if (n == 1) return wc;
      if (n < 0 || std::chrono::steady_clock::now() > end) break;
    }
    ADD_FAILURE() << "no completion";
    wc.status = IBV_WC_GENERAL_ERR;
    return wc;
  }
  // Whether no completion comes within a moment.
  bool Quiet() {
    ibv_wc wc;
    for (int i = 0; i < 1000; ++i) {
      if (ibv_poll_cq(cq_, 1, &wc) != 0) return false;
    }
    return true;
  }

  static constexpr int kRtrMask =
      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  static constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT |
                                  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

 private:
  // The PSN wraps within a few packets.
  static constexpr uint32_t kPsn = 0xfffff0;

  ibv_context* context_;
  ibv_gid peer_gid_ = {};
  PairOptions options_;
  std::vector<uint8_t> memory_;
  ibv_pd* own_pd_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_cq* own_cq_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_qp_cap cap_ = {};
};

// Two connected ends, of one device or of two.
struct Pair {
  explicit Pair(ibv_context* context, const PairOptions& options = {})
      : Pair(context, context, options) {}
  Pair(ibv_context* context_a, ibv_context* context_b,
       const PairOptions& options)
      : a(context_a, options), b(context_b, options) {
    a.set_peer(b);
    b.set_peer(a);
    a.Connect(b.qp()->qp_num);
    b.Connect(a.qp()->qp_num);
  }
  End a;
  End b;
};

// Sets the remote side of an RDMA or atomic request.
inline void Target(ibv_send_wr& wr, End& end, size_t offset) {
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
      wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = end.address(offset);
    wr.wr.atomic.rkey = end.mr()->rkey;
  } else {
    wr.wr.rdma.remote_addr = end.address(offset);
    wr.wr.rdma.rkey = end.mr()->rkey;
  }
}

}  // namespace urnic
