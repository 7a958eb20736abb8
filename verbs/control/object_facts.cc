#include "verbs/control/object_facts.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "datapath/engine/iwarp_connection.h"
#include "datapath/engine/iwarp_qp.h"
#include "datapath/engine/qp_facts.h"
#include "datapath/engine/roce_qp.h"
#include "ras/errors/error_code.h"
#include "ras/facts/facts.h"
#include "ras/history/history.h"
#include "ras/metrics/counters.h"
#include "transport/iwarp/tcp/image_fields.h"
#include "transport/mem/mr_table.h"
#include "transport/work/image_fields.h"
#include "verbs/control/address_handle.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/failure_text.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/mr.h"
#include "verbs/control/mw.h"
#include "verbs/control/qp.h"
#include "verbs/control/spin_lock.h"
#include "verbs/control/srq.h"

namespace urnic::control {
namespace {

// By ObjectKind.
constexpr std::array<std::string_view, 11> kNames = {
    "dev", "link", "qp", "cq", "mr", "mw", "pd", "srq", "ah", "event", "error"};

// By CompletionQueue::Arm.
constexpr const char* kArmNames[] = {"no", "solicited", "any"};

// How many objects are described while nobody may make or destroy one, and
// while the engine waits.
constexpr size_t kStep = 32;

// By QpService. Linux calls a queue pair of iWARP RC, too.
constexpr const char* kTypes[] = {"RC", "UC", "UD", "XRC_INI", "XRC_TGT", "RC"};

std::string LinkName(const Device& device) {
  return absl::StrCat(device.name(), "/", kPortNumber);
}

bool IsIwarp(const Device& device) {
  return HasService(device.kind(), QpService::kIwarp);
}

void AddOwner(const Owner& owner, FactWriter& facts) {
  facts.Add("pid", owner.pid);
  facts.Add("comm", owner.program);
}

std::string GuidText(const uint8_t (&guid)[8]) {
  std::string text;
  for (size_t i = 0; i < sizeof(guid); i += 2) {
    absl::StrAppend(&text, i == 0 ? "" : ":",
                    absl::Hex(guid[i], absl::kZeroPad2),
                    absl::Hex(guid[i + 1], absl::kZeroPad2));
  }
  return text;
}

void Describe(Device& device, std::string& out) {
  FactWriter facts("dev", out);
  facts.Add("dev", device.name());
  facts.Add("node-type", IsIwarp(device) ? "rnic" : "ca");
  facts.Add("transport", device.kind().transport);
  facts.Add("fw", URNIC_FW_VERSION);
  facts.Add("node-guid", GuidText(device.identity().node_guid));
  facts.Add("sys-image-guid", GuidText(device.identity().sys_image_guid));
  facts.Add("port", device.identity().dev);
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.Add("pds", device.pds().size());
  facts.Add("mrs", device.mrs().size());
  facts.Add("mws", device.mws().size());
  facts.Add("cqs", device.cqs().size());
  facts.Add("qps", device.qps().size());
  facts.Add("srqs", device.srqs().size());
  facts.Add("ahs", device.ahs().size());
}

void DescribeLink(Device& device, std::string& out) {
  const PortAttributes port = device.QueryPort();
  const PortInfo info = device.port().info();
  FactWriter facts("link", out);
  facts.Add("link", LinkName(device));
  facts.Add("state", port.active ? "ACTIVE" : "DOWN");
  facts.Add("physical-state", port.active ? "LINK_UP" : "DISABLED");
  facts.Add("port", device.identity().dev);
  facts.Add("active-mtu", device.mtu_max());
  facts.Add("why", info.text);
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.Add("rx-ring", info.rx_ring);
  facts.Add("tx-ring", info.tx_ring);
  AddCounters(device.port().counters(), facts);
}

void Describe(Pd& pd, std::string& out) {
  FactWriter facts("pd", out);
  facts.Add("dev", pd.device().name());
  facts.Add("pdn", pd.id());
  facts.Add("users", pd.users());
  AddOwner(pd.owner(), facts);
}

void Describe(Cq& cq, std::string& out) {
  FactWriter facts("cq", out);
  facts.Add("dev", cq.device().name());
  facts.Add("cqn", cq.number());
  facts.Add("cqe", cq.entries());
  facts.Add("users", cq.users());
  AddOwner(cq.owner(), facts);
  facts.BeginDetails();
  const CompletionQueue& queue = *cq.engine_end();
  facts.Add("unread", queue.unread());
  facts.Add("armed", kArmNames[queue.armed()]);
  facts.Add("overflowed", queue.overflowed() ? "yes" : "no");
  facts.Add("period-ns", queue.period().ns());
}

void Describe(Srq& srq, std::string& out) {
  FactWriter facts("srq", out);
  facts.Add("dev", srq.pd().device().name());
  facts.Add("srqn", srq.number());
  facts.Add("type", srq.is_xrc() ? "XRC" : "BASIC");
  facts.Add("pdn", srq.pd().id());
  if (srq.cq() != nullptr) facts.Add("cqn", srq.cq()->number());
  facts.Add("users", srq.users());
  AddOwner(srq.owner(), facts);
  facts.BeginDetails();
  OptionalLock lock(srq.posting().lock);
  facts.Add("max-wr", srq.posting().ring.entries());
  facts.Add("max-sge", srq.max_sge());
  facts.Add("posted", srq.posting().ring.waiting());
  facts.Add("limit", srq.engine_end()->ring.limit());
}

void Describe(AddressHandle& ah, std::string& out) {
  FactWriter facts("ah", out);
  facts.Add("dev", ah.pd().device().name());
  facts.Add("ahn", ah.number());
  facts.Add("dst-addr", IpText(ah.destination()));
  facts.Add("pdn", ah.pd().id());
  AddOwner(ah.owner(), facts);
}

std::string RightsText(uint32_t access) {
  constexpr struct {
    uint32_t right;
    const char* name;
  } kRights[] = {
      {mem::kLocalWrite, "local-write"},
      {mem::kRemoteWrite, "remote-write"},
      {mem::kRemoteRead, "remote-read"},
      {mem::kRemoteAtomic, "remote-atomic"},
      {kAccessMwBind, "mw-bind"},
      {kAccessZeroBased, "zero-based"},
      {kAccessOnDemand, "on-demand"},
      {kAccessFlushGlobal, "flush-global"},
      {mem::kRelaxedOrdering, "relaxed-ordering"},
  };
  std::string text;
  for (const auto& [right, name] : kRights) {
    if ((access & right) != 0)
      absl::StrAppend(&text, text.empty() ? "" : ",", name);
  }
  return text.empty() ? "local-read" : text;
}

void Describe(Mr& mr, std::string& out) {
  const MrRequest& request = mr.request();
  FactWriter facts("mr", out);
  facts.Add("dev", mr.pd().device().name());
  facts.Add("mrn", mr.key() >> 8);
  // Only root and the owner may ask: see ControlSocket.
  facts.AddHex("rkey", mr.key());
  facts.AddHex("lkey", mr.key());
  facts.AddHex("iova", request.iova);
  facts.Add("mrlen", request.bytes);
  facts.Add("pdn", mr.pd().id());
  AddOwner(mr.owner(), facts);
  facts.BeginDetails();
  facts.AddHex("addr", request.address);
  facts.Add("access", request.bytes == 0 ? "null" : RightsText(request.access));
  const mem::MemoryRegion* region =
      mr.pd().device().network().mrs().Find(MrKey{mr.key()});
  if (region != nullptr) facts.Add("windows", region->windows);
}

void Describe(Mw& mw, std::string& out) {
  FactWriter facts("mw", out);
  facts.Add("dev", mw.pd().device().name());
  facts.Add("mwn", mw.key() >> 8);
  facts.Add("type", mw.type() == Mw::Type::k1 ? 1 : 2);
  facts.Add("pdn", mw.pd().id());
  AddOwner(mw.owner(), facts);
}

void AddAccess(const QpConfig& config, FactWriter& facts) {
  facts.Add("access", RightsText(config.access));
  facts.Add("max-rd-atomic", config.max_rd_atomic);
  facts.Add("max-dest-rd-atomic", config.max_dest_rd_atomic);
}

void AddCaps(const QpCaps& caps, FactWriter& facts) {
  facts.Add("max-send-wr", caps.max_send_wr);
  facts.Add("max-recv-wr", caps.max_recv_wr);
  facts.Add("max-send-sge", caps.max_send_sge);
  facts.Add("max-recv-sge", caps.max_recv_sge);
  facts.Add("max-inline", caps.max_inline_data);
}

void DescribePeer(const RoceQp& qp, FactWriter& facts) {
  const bool has_peer = qp.service() != QpService::kUd;
  const QpState state = qp.state();
  if (has_peer && state >= QpState::kRtr) {
    facts.Add("rqpn", qp.config().dest_qpn);
    facts.Add("src-addr", IpText(qp.path.local));
    facts.Add("dst-addr", IpText(qp.path.remote));
    facts.Add("rq-psn", qp.recv_psn().value());
  }
  if (state >= QpState::kRts) facts.Add("sq-psn", qp.send_psn().value());
  if (has_peer) facts.Add("path-mig-state", "MIGRATED");
}

// What an engine's queue pair knows of the other side.
void DescribePeer(const EngineQp& qp, FactWriter& facts) {
  if (qp.is_roce_qp())
    return DescribePeer(static_cast<const RoceQp&>(qp), facts);
  const IwarpConnection* connection =
      static_cast<const IwarpQp&>(qp).connection();
  if (connection == nullptr) return;
  const tcp::FourTuple& tuple = connection->tuple();
  facts.Add("src-addr", SocketText(tuple.local, tuple.local_port));
  facts.Add("dst-addr", SocketText(tuple.remote, tuple.remote_port));
}

void Describe(Qp& qp, std::string& out) {
  FactWriter facts("qp", out);
  const EngineQp& engine_qp = qp.engine_qp();
  facts.Add("link", LinkName(qp.device()));
  facts.Add("lqpn", qp.qpn());
  facts.Add("type", kTypes[static_cast<size_t>(qp.service())]);
  facts.Add("state", kQpStateNames[static_cast<size_t>(StateOf(engine_qp))]);
  DescribePeer(engine_qp, facts);
  if (qp.pd() != nullptr) facts.Add("pdn", qp.pd()->id());
  if (qp.xrcd() != nullptr) facts.Add("xrcdn", qp.xrcd()->id());
  if (qp.send_cq() != nullptr) facts.Add("scqn", qp.send_cq()->number());
  if (qp.recv_cq() != nullptr) facts.Add("rcqn", qp.recv_cq()->number());
  if (qp.srq() != nullptr) facts.Add("srqn", qp.srq()->number());
  AddOwner(qp.owner(), facts);
  facts.BeginDetails();
  engine_qp.DescribeWork(qp.device().engine().Now(), facts);
  AddAccess(engine_qp.config(), facts);
  AddCaps(qp.caps(), facts);
}

void Describe(const Happening& happening, const Device& device, Time now,
              std::string& out) {
  const HistoryWords& words = WordsOf(happening.event);
  FactWriter facts("event", out);
  facts.Add("link", LinkName(device));
  facts.Add("lqpn", happening.qpn);
  facts.Add("age-us", (now - happening.at).ns() / 1000);
  facts.Add("event", words.name);
  switch (happening.event) {
    case HistoryEvent::kState:
      facts.Add(words.a, kQpStateNames[happening.a]);
      facts.Add(words.b, kQpStateNames[happening.b]);
      break;
    case HistoryEvent::kConnectionEnded:
      facts.Add(words.a, tcp::kEndNames[happening.a]);
      facts.Add(words.b, happening.b);
      break;
    case HistoryEvent::kTerminateSent:
    case HistoryEvent::kTerminateReceived:
      facts.AddHex(words.a, happening.a);
      break;
    case HistoryEvent::kRequestFailed:
      facts.Add(words.a, kCompletionStatusNames[happening.a]);
      if (happening.b != 0) facts.Add(words.b, kRxVerdictNames[happening.b]);
      break;
    default:
      facts.Add(words.a, happening.a);
      if (!words.b.empty()) facts.Add(words.b, happening.b);
  }
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.Add("what", words.text);
}

void Describe(const Failure& failure, const Device& device, Time now,
              std::string& out) {
  const ErrorWords& words = WordsOf(failure.code);
  FactWriter facts("error", out);
  facts.Add("link", LinkName(device));
  if (failure.qpn != 0) facts.Add("lqpn", failure.qpn);
  if (failure.cqn != 0) facts.Add("cqn", failure.cqn);
  if (failure.srqn != 0) facts.Add("srqn", failure.srqn);
  facts.Add("age-us", (now - failure.at).ns() / 1000);
  facts.Add("code", ErrorName(failure.code));
  facts.Add("severity", NameOf(words.severity));
  if (failure.has_peer) facts.Add("peer", PeerText(failure));
  facts.Add("what", words.text);
  const std::string why = WhyText(failure);
  if (!why.empty()) facts.Add("why", why);
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  if (failure.has_request) {
    facts.Add("wc-status", kCompletionStatusNames[failure.status]);
    facts.Add("wr-id", failure.wr_id);
  }
  facts.Add("cause", words.cause);
  facts.Add("action", words.action);
}

// `ring`: a History or Failures. Numbers of RoCE and iWARP are different
// spaces, with one ring.
template <typename Ring>
std::optional<uint64_t> DescribeRing(Device& device, const Ring& ring,
                                     uint64_t number, std::string& out) {
  Engine::ControlScope scope(device.engine());
  const Time now = device.engine().Now();
  const bool iwarp = IsIwarp(device);
  return ring.Visit(number, kStep, [&](const auto& entry) {
    if (entry.iwarp == iwarp) Describe(entry, device, now, out);
  });
}

template <typename T>
std::optional<uint64_t> DescribeSome(Device& device,
                                     const ObjectTable<T>& objects,
                                     uint64_t serial, std::string& out) {
  return objects.Visit(serial, kStep, [&](T& object) {
    Engine::ControlScope scope(device.engine());
    Describe(object, out);
  });
}

}  // namespace

std::optional<ObjectKind> ObjectKindOf(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<ObjectKind>(at - kNames.begin());
}

std::optional<uint64_t> DescribeObjects(Device& device, ObjectKind what,
                                        uint64_t serial, std::string& out) {
  switch (what) {
    case ObjectKind::kDev:
      Describe(device, out);
      return std::nullopt;
    case ObjectKind::kLink:
      DescribeLink(device, out);
      return std::nullopt;
    case ObjectKind::kQp:
      return DescribeSome(device, device.qps(), serial, out);
    case ObjectKind::kCq:
      return DescribeSome(device, device.cqs(), serial, out);
    case ObjectKind::kMr:
      return DescribeSome(device, device.mrs(), serial, out);
    case ObjectKind::kMw:
      return DescribeSome(device, device.mws(), serial, out);
    case ObjectKind::kPd:
      return DescribeSome(device, device.pds(), serial, out);
    case ObjectKind::kSrq:
      return DescribeSome(device, device.srqs(), serial, out);
    case ObjectKind::kAh:
      return DescribeSome(device, device.ahs(), serial, out);
    case ObjectKind::kEvent:
      return DescribeRing(device, device.engine().history(), serial, out);
    case ObjectKind::kError:
      return DescribeRing(device, device.engine().failures(), serial, out);
  }
  return std::nullopt;
}

}  // namespace urnic::control
