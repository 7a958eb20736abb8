#include "verbs/rdmacm/id_facts.h"

#include <cstddef>

#include "ras/facts/facts.h"
#include "transport/wire/address_text.h"
#include "verbs/control/owner.h"

namespace urnic::rdmacm {
namespace {

// By IdState: those of enum rdma_cm_state that occur.
constexpr const char* kStateNames[] = {
    "IDLE",    "ADDR_BOUND", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_RESOLVED",
    "CONNECT", "DISCONNECT", "LISTEN",     "DESTROYING"};

const char* SpaceName(PortSpace space) {
  switch (space) {
    case PortSpace::kIb:
      return "IB";
    case PortSpace::kTcp:
      return "TCP";
    case PortSpace::kUdp:
      return "UDP";
  }
  return "-";
}

const char* TypeName(uint8_t qp_type) {
  switch (qp_type) {
    case kQpTypeRc:
      return "RC";
    case kQpTypeUc:
      return "UC";
    case kQpTypeUd:
      return "UD";
    case kQpTypeXrcInitiator:
      return "XRC_INI";
    case kQpTypeXrcTarget:
      return "XRC_TGT";
    default:
      return "-";
  }
}

void AddAddress(std::string_view name, const SocketAddress& address,
                FactWriter& facts) {
  if (address.is_ip())
    facts.Add(name, wire::SocketText(address.gid(), address.port()));
}

}  // namespace

const char* StateName(IdState state) {
  return kStateNames[static_cast<size_t>(state)];
}

void DescribeId(const Id& id, std::string_view link, std::string& out) {
  FactWriter facts("cm_id", out);
  facts.Add("link", link);
  facts.Add("cm-idn", id.serial);
  if (id.qpn != 0) facts.Add("lqpn", id.qpn);
  facts.Add("qp-type", TypeName(id.qp_type));
  facts.Add("state", StateName(id.state));
  facts.Add("ps", SpaceName(id.port_space));
  control::AddOwner(control::ThisProcess(), facts);
  AddAddress("src-addr", id.source, facts);
  AddAddress("dst-addr", id.destination, facts);
  facts.BeginDetails();
  // The number in the program: librdmacm's struct cma_id_private has it.
  if (id.number != Id::kNoNumber) facts.Add("handle", id.number);
  facts.Add("events-given", id.events_reported);
  facts.Add("multicast-groups", id.multicasts.size());
  if (id.state == IdState::kListen) {
    facts.Add("backlog-left", id.backlog_left);
    facts.Add("requests-waiting", id.parked.size());
  }
}

}  // namespace urnic::rdmacm
