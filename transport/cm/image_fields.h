#pragma once

// The lists of members of a connection's image.

#include "transport/base/mutation.h"
#include "transport/cm/connection.h"
#include "transport/work/image_codec.h"

namespace urnic {

namespace cm {
// By the values of State.
inline constexpr const char* kStateNames[] = {
    "IDLE",         "LISTEN",       "REQ_SENT",      "REQ_RCVD",
    "MRA_REQ_SENT", "MRA_REQ_RCVD", "REP_SENT",      "REP_RCVD",
    "MRA_REP_SENT", "MRA_REP_RCVD", "ESTABLISHED",   "DREQ_SENT",
    "DREQ_RCVD",    "TIMEWAIT",     "SIDR_REQ_SENT", "SIDR_REQ_RCVD"};
}  // namespace cm

template <>
struct FieldsOf<net::PathQuery> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, local, remote, traffic_class, hop_limit, flow_label,
                  udp_src_port, roce_v1, pkey, service_level);
    f.Bytes("local", std::span(local.bytes));
    f.Bytes("remote", std::span(remote.bytes));
    f("traffic_class", traffic_class);
    f("hop_limit", hop_limit);
    f("flow_label", flow_label);
    f("udp_src_port", udp_src_port);
    f("roce_v1", roce_v1);
    f.Hex("pkey", pkey);
    f("service_level", service_level);
    f.Require(flow_label < 1u << 20, "flow_label", flow_label,
              "has more than 20 bits");
    f.Require(service_level < 16, "service_level", service_level,
              "has more than 4 bits");
  }
};

template <>
struct FieldsOf<cm::Connection> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, state, orphan, passive, alternate_path, has_local_qpn,
                  service, user, service_id, local_comm_id, remote_comm_id,
                  remote_ca_guid, transaction_id, mad_path, path, packet_rate,
                  mtu_code, local_qpn, remote_qpn, send_psn, receive_psn,
                  responder_resources, initiator_depth, ack_timeout_code,
                  retry_count, rnr_retry_count, deadline, max_cm_retries,
                  retries_left, retries_withheld, timeout, repeat_after,
                  sent_attribute, sent);
    f("state", state, cm::State::kSidrReqReceived, cm::kStateNames);
    MUTATION(cm_images_forget_orphans, f("orphan", orphan),
             f.Elsewhere(orphan));
    f("passive", passive);
    f("alternate_path", alternate_path);
    f("has_local_qpn", has_local_qpn);
    static constexpr const char* kServices[] = {"RC", "UC", nullptr, "XRC"};
    f("service", service, cm::Service::kXrc, kServices);
    f("user", user);
    f.Hex("service_id", service_id);
    f.Hex("local_comm_id", local_comm_id);
    f.Hex("remote_comm_id", remote_comm_id);
    f.Hex("remote_ca_guid", remote_ca_guid);
    f.Hex("transaction_id", transaction_id);
    f.Group("mad_path", mad_path);
    f.Group("path", path);
    f("packet_rate", packet_rate);
    f("mtu_code", mtu_code);
    f("local_qpn", local_qpn);
    f("remote_qpn", remote_qpn);
    f("send_psn", send_psn);
    f("receive_psn", receive_psn);
    f("responder_resources", responder_resources);
    f("initiator_depth", initiator_depth);
    f("ack_timeout_code", ack_timeout_code);
    f("retry_count", retry_count);
    f("rnr_retry_count", rnr_retry_count);
    f.Deadline("deadline", deadline);
    f("max_cm_retries", max_cm_retries);
    MUTATION(cm_images_forget_tries, f("retries_left", retries_left),
             f.Elsewhere(retries_left));
    f("retries_withheld", retries_withheld);
    f("timeout", timeout);
    f("repeat_after", repeat_after);
    f.Hex("sent_attribute", sent_attribute);
    f.Bytes("sent", std::span(sent));
  }
  // The conditions between members.
  static void Check(ImageReader& f, const cm::Connection& c);
};

template <>
struct FieldsOf<cm::MovedConnection> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, ca_guid, answered, displaced, connection);
    f.Hex("ca_guid", ca_guid);
    MUTATION(cm_images_forget_who_has_answered, f("answered", answered),
             f.Elsewhere(answered));
    f("displaced", displaced);
    f.Group("connection", connection);
  }
};

}  // namespace urnic
