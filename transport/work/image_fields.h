#pragma once

// The lists of members that the images of all services share.

#include "transport/base/mutation.h"
#include "transport/work/image_codec.h"
#include "transport/work/recv_queue.h"
#include "transport/work/refused_access.h"
#include "transport/work/types.h"

namespace urnic {

// Whether completions can have this status (enum urnic_wc_status).
constexpr bool IsCompletionStatus(uint8_t status) {
  return status <= URNIC_WC_RNR_RETRY_EXC_ERR;
}

inline constexpr const char* kCompletionStatusNames[] = {
    "SUCCESS",        "LOC_LEN_ERR",      "LOC_QP_OP_ERR",  nullptr,
    "LOC_PROT_ERR",   "WR_FLUSH_ERR",     "MW_BIND_ERR",    "BAD_RESP_ERR",
    "LOC_ACCESS_ERR", "REM_INV_REQ_ERR",  "REM_ACCESS_ERR", "REM_OP_ERR",
    "RETRY_EXC_ERR",  "RNR_RETRY_EXC_ERR"};
static_assert(std::size(kCompletionStatusNames) ==
              URNIC_WC_RNR_RETRY_EXC_ERR + 1);

// Indexed by the values of QpState and QpEvent.
inline constexpr const char* kQpStateNames[] = {"RESET", "INIT", "RTR", "RTS",
                                                "SQD",   "SQE",  "ERR"};
inline constexpr const char* kQpEventNames[] = {"none",
                                                "QP_FATAL",
                                                "QP_REQ_ERR",
                                                "QP_ACCESS_ERR",
                                                "COMM_EST",
                                                "SQ_DRAINED",
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                "QP_LAST_WQE_REACHED"};
static_assert(std::size(kQpEventNames) ==
              static_cast<size_t>(QpEvent::kLastWqeReached) + 1);

constexpr bool IsQpEvent(QpEvent event) {
  return event <= QpEvent::kSqDrained || event == QpEvent::kLastWqeReached;
}

template <>
struct FieldsOf<RemoteRange> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, address, length, key);
    f.Hex("address", address);
    f("length", length);
    f("key", key);
  }
};

template <>
struct FieldsOf<QpLimits> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, qpn, pd, max_sge_send, max_sge_recv, max_inline,
                  sq_sig_all, xrc);
    f.Hex("qpn", qpn, 6);
    f("pd", pd);
    f("max_sge_send", max_sge_send);
    f("max_sge_recv", max_sge_recv);
    f("max_inline", max_inline);
    f("sq_sig_all", sq_sig_all);
    f("xrc", xrc);
    f.Require(max_sge_send <= URNIC_MAX_SGE, "max_sge_send", max_sge_send,
              "is more than the limit");
    f.Require(max_sge_recv <= URNIC_MAX_SGE, "max_sge_recv", max_sge_recv,
              "is more than the limit");
    f.Require(max_inline <= URNIC_MAX_INLINE, "max_inline", max_inline,
              "is more than the limit");
  }
};

template <>
struct FieldsOf<ImageShape> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, service, limits, sq_entries, replay_slots,
                  shared_receives);
    f.Elsewhere(service);  // in the header
    f.Group("limits", limits);
    f("sq_entries", sq_entries);
    f("replay_slots", replay_slots);
    f("shared_receives", shared_receives);
    f.Require(
        sq_entries <= URNIC_MAX_QP_WR && (sq_entries & (sq_entries - 1)) == 0,
        "sq_entries", sq_entries, "is not a ring size");
    f.Require(replay_slots <= URNIC_MAX_RD_ATOMIC, "replay_slots", replay_slots,
              "is more than the limit");
  }
};

template <>
struct FieldsOf<QpConfig> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, dest_qpn, qkey, mtu, rq_psn, sq_psn, access, timeout,
                  pkey, retry_count, rnr_retry, min_rnr_timer, max_rd_atomic,
                  max_dest_rd_atomic, longer_windows, window_packets,
                  window_bytes, bits_per_second);
    f.Hex("dest_qpn", dest_qpn, 6);
    f.Hex("pkey", pkey);
    f.Hex("qkey", qkey);
    f("mtu", mtu);
    f("rq_psn", rq_psn);
    f("sq_psn", sq_psn);
    f.Hex("access", access);
    f("timeout", timeout);
    f("retry_count", retry_count);
    f("rnr_retry", rnr_retry);
    f("min_rnr_timer", min_rnr_timer);
    f("max_rd_atomic", max_rd_atomic);
    f("max_dest_rd_atomic", max_dest_rd_atomic);
    f("window_packets", window_packets);
    f("window_bytes", window_bytes);
    f("longer_windows", longer_windows);
    f("bits_per_second", bits_per_second);
    f.Require(dest_qpn <= 0xffffff, "dest_qpn", dest_qpn, "is not a QPN");
    f.Require(mtu >= 256 && mtu <= 4096 && (mtu & (mtu - 1)) == 0, "mtu", mtu,
              "is not a path MTU");
  }
};

template <>
struct FieldsOf<urnic_sge> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, addr, length, lkey);
    f.Hex("addr", addr);
    f("length", length);
    f.Hex("lkey", lkey);
  }
};

// The ring of a single queue pair. A shared ring is not part of an image.
template <>
struct FieldsOf<RecvRing> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, view, max_sge, pd, head, published, limit,
                  limit_reached);
    f("head", head);
    f("limit", limit);
    f("limit_reached", limit_reached);
    f.Elsewhere(view, max_sge, pd, published);
  }

  // False: the program's index of the ring is impossible.
  static bool Attach(RecvRing& ring) {
    if (ring.view_.entries() == 0) return ring.head_ == 0;
    if (ring.view_.Posted(ring.head_) == UINT32_MAX) return false;
    ring.published_ = ring.head_;
    ring.view_.PublishConsumer(ring.head_);
    return true;
  }
};

// The request that is being filled is no longer in the ring, so the image
// carries it with its list. The cursor is found again.
template <>
struct FieldsOf<RecvQueue> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, ring, sges, wr_id, num_sge, taken, shared, cursor);
    f("taken", taken);
    f("wr_id", wr_id);
    f("num_sge", num_sge);
    f.Elsewhere(ring, sges, shared, cursor);
    const uint32_t most = ring == nullptr ? 0 : ring->max_sge();
    if (!f.Require(num_sge <= most || !taken, "num_sge", num_sge,
                   "is more than a receive can have")) {
      return;
    }
    for (uint32_t i = 0; taken && i < num_sge; ++i) {
      MUTATION_SKIPS(images_forget_receives)
      f.Element("receive", sges[i]);
    }
    if (!shared) f.Element("receive_ring", *ring);
  }

  static bool Attach(RecvQueue& queue) {
    return queue.shared_ || FieldsOf<RecvRing>::Attach(*queue.ring_);
  }
};

// Reads a shape, except the service. `wanted` is that of the queue pair.
inline void ReadSizes(ImageReader& reader, const ImageShape& wanted) {
  ImageShape found;
  reader.Element("shape", found);
  const QpLimits& a = found.limits;
  const QpLimits& b = wanted.limits;
  reader.Require(a.qpn == b.qpn, "qpn", a.qpn, "belongs to another queue pair");
  reader.Require(a.pd == b.pd, "pd", a.pd, "belongs to another domain");
  reader.Require(a.max_sge_send == b.max_sge_send, "max_sge_send",
                 a.max_sge_send, "differs from this queue pair's");
  reader.Require(a.max_sge_recv == b.max_sge_recv, "max_sge_recv",
                 a.max_sge_recv, "differs from this queue pair's");
  reader.Require(a.max_inline == b.max_inline, "max_inline", a.max_inline,
                 "differs from this queue pair's");
  reader.Require(a.sq_sig_all == b.sq_sig_all, "sq_sig_all", a.sq_sig_all,
                 "differs from this queue pair's");
  reader.Require(a.xrc == b.xrc, "xrc", a.xrc,
                 "differs from this queue pair's");
  reader.Require(found.sq_entries == wanted.sq_entries, "sq_entries",
                 found.sq_entries, "differs from this queue pair's");
  reader.Require(found.shared_receives == wanted.shared_receives,
                 "shared_receives", found.shared_receives,
                 "differs from this queue pair's");
  reader.Require(found.replay_slots <= wanted.replay_slots, "replay_slots",
                 found.replay_slots, "does not fit");
}

// The first step of reading an image of any service.
inline void ReadShape(ImageReader& reader, const ImageShape& wanted) {
  ReadSizes(reader, wanted);
  const QpService service = reader.service();
  reader.Require(service == wanted.service, "service",
                 static_cast<uint64_t>(service),
                 "differs from this queue pair's");
}

}  // namespace urnic
