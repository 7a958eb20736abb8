#include "verbs/control/object_facts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <span>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "datapath/engine/connection_table.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/iwarp_connection.h"
#include "datapath/engine/iwarp_qp.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_facts.h"
#include "datapath/engine/roce_qp.h"
#include "datapath/port/port.h"
#include "ras/facts/facts.h"
#include "ras/metrics/counters.h"
#include "transport/iwarp/tcp/image_fields.h"
#include "transport/mem/mr_table.h"
#include "transport/wire/address_text.h"
#include "transport/work/image_fields.h"
#include "verbs/control/address_handle.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/device_kind.h"
#include "verbs/control/gid_table.h"
#include "verbs/control/mailbox.h"
#include "verbs/control/mr.h"
#include "verbs/control/mw.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/qp.h"
#include "verbs/control/recovery.h"
#include "verbs/control/spin_lock.h"
#include "verbs/control/srq.h"
#include "verbs/control/wall_time.h"

namespace urnic::control {
namespace {

// By ObjectKind.
constexpr std::array<std::string_view, 10> kNames = {
    "dev", "link", "qp", "cq", "mr", "mw", "pd", "srq", "ah", "tcp"};

// By urnic_device_state.
constexpr const char* kDeviceStates[] = {"works", "fails", "failed"};

// By CompletionQueue::Arm.
constexpr const char* kArmNames[] = {"no", "solicited", "any"};

// How many objects are described at a time. Meanwhile no object can be created
// or destroyed, and the engine waits.
constexpr size_t kStep = 8;

// The longest image in a snapshot, in bytes. Most have less than 1000; only an
// iWARP connection with much data in flight has more, and a port keeps 256
// snapshots.
constexpr size_t kSnapshotImageMost = 4096;

// By QpService. Linux calls a queue pair of iWARP RC, too.
constexpr const char* kTypes[] = {"RC",      "UC", "UD", "XRC_INI",
                                  "XRC_TGT", "RC", "RUD"};

std::string LinkName(const Device& device) {
  return absl::StrCat(device.name(), "/", kPortNumber);
}

bool IsIwarp(const Device& device) {
  return HasService(device.kind(), QpService::kIwarp);
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

void AddOutage(const Recovery& recovery, FactWriter& facts) {
  constexpr int64_t kNsPerMs = 1'000'000;
  const auto outage = recovery.outage();
  if (!outage.has_value()) return;
  facts.Add("down-since", WallTimeText(outage->since));
  facts.Add("bound-ms", recovery.bound().ns() / kNsPerMs);
  if (outage->fails_in.has_value())
    facts.Add("fails-in-ms", outage->fails_in->ns() / kNsPerMs);
}

// Why the link is in its state: the text of the port, and what a failed device
// waits for; only the latter if the port is back.
std::string WhyOf(const PortInfo& info, const Recovery& recovery) {
  const std::string awaited = recovery.AwaitedText();
  if (awaited.empty()) return info.text;
  return recovery.outage().has_value() ? absl::StrCat(info.text, "; ", awaited)
                                       : awaited;
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
  facts.Add("why", WhyOf(info, device.open_nic().recovery()));
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  const urnic_mailbox& mailbox = *device.mailbox();
  facts.Add("device-state", kDeviceStates[StateIn(mailbox)]);
  facts.Add("device-failures", mailbox.failures);
  AddOutage(device.open_nic().recovery(), facts);
  facts.Add("rx-ring", info.rx_ring);
  facts.Add("tx-ring", info.tx_ring);
  AddCounters(device.port().counters(), facts);
  if (IsIwarp(device)) {
    Engine::ControlScope scope(device.engine());
    const ConnectionTable& table = device.engine().connections();
    facts.Add("tcp-listeners", table.listeners());
    facts.Add("tcp-half-open", table.half_open());
    facts.Add("tcp-time-wait", table.time_wait());
  }
}

void Describe(const Pd& pd, std::string& out) {
  FactWriter facts("pd", out);
  facts.Add("dev", pd.device().name());
  facts.Add("pdn", pd.id());
  facts.Add("users", pd.users());
  AddOwner(pd.owner(), facts);
}

void Describe(const Cq& cq, std::string& out) {
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

// Adds all facts, except for those that need the lock of posting threads.
void AddUnguarded(const Srq& srq, FactWriter& facts) {
  facts.Add("dev", srq.pd().device().name());
  facts.Add("srqn", srq.number());
  facts.Add("type", srq.is_xrc() ? "XRC" : "BASIC");
  facts.Add("pdn", srq.pd().id());
  if (srq.cq() != nullptr) facts.Add("cqn", srq.cq()->number());
  facts.Add("users", srq.users());
  AddOwner(srq.owner(), facts);
  facts.BeginDetails();
  facts.Add("max-sge", srq.max_sge());
  facts.Add("limit", srq.engine_end()->ring.limit());
}

void Describe(Srq& srq, std::string& out) {
  FactWriter facts("srq", out);
  AddUnguarded(srq, facts);
  OptionalLock lock(srq.posting().lock);
  facts.Add("max-wr", srq.posting().ring.entries());
  facts.Add("posted", srq.posting().ring.waiting());
}

void Describe(AddressHandle& ah, std::string& out) {
  FactWriter facts("ah", out);
  facts.Add("dev", ah.pd().device().name());
  facts.Add("ahn", ah.number());
  facts.Add("dst-addr", wire::IpText(ah.destination()));
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

// Describes a region or window from the engine's table, which needs no lock.
void DescribeMemory(const mem::MemoryRegion& memory, const Device& device,
                    std::string& out) {
  const bool is_window = memory.kind == mem::MemKind::kWindow1 ||
                         memory.kind == mem::MemKind::kWindow2;
  const bool is_null = memory.kind == mem::MemKind::kNull;
  FactWriter facts(is_window ? "mw" : "mr", out);
  facts.Add("dev", device.name());
  facts.Add(is_window ? "mwn" : "mrn", memory.key >> 8);
  facts.AddHex("rkey", memory.key);
  if (!is_window) facts.AddHex("lkey", memory.key);
  facts.AddHex("iova", memory.iova);
  facts.Add("mrlen", memory.length);
  facts.Add("pdn", is_window ? memory.domain : memory.pd % mem::kMaxPdId);
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.AddHex("addr", memory.host);
  facts.Add("access", is_null ? "null" : RightsText(memory.access));
  if (is_window) {
    facts.Add("bound", memory.invalidated == 0 ? "yes" : "no");
    facts.AddHex("region-key", memory.region);
  } else {
    facts.Add("windows", memory.windows);
  }
}

// Describes each key once. A retired key stands for the entry that it had.
void DescribeMemories(std::span<const uint32_t> keys, Device& device,
                      std::string& out) {
  std::set<const mem::MemoryRegion*> described;
  for (const uint32_t key : keys) {
    const mem::MemoryRegion* const memory =
        device.network().mrs().FindAnyVariant(MrKey{key});
    if (memory != nullptr && described.insert(memory).second)
      DescribeMemory(*memory, device, out);
  }
}

// Adds its image (transport/work/image.h), which commands decode as `urnic
// state` does.
void DescribeImage(const EngineQp& qp, Time now, std::string& out) {
  std::string image;
  qp.AppendImage(now, image);
  FactWriter facts("image", out);
  AddOwner(ThisProcess(), facts);
  facts.Add("bytes", image.size());
  if (image.size() <= kSnapshotImageMost)
    facts.Add("image", absl::BytesToHexString(image));
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

// Adds layers 2 to 4 of the packets to the peer.
void AddLayers(const net::Path& path, FactWriter& facts) {
  std::array<uint8_t, wire::HeaderTemplate::kMaxBytes> bytes;
  path.headers.Write(bytes.data(), 0);
  const auto& link = *reinterpret_cast<const wire::Ethernet*>(bytes.data());
  facts.Add("src-mac", wire::MacText(link.src));
  facts.Add("dst-mac", wire::MacText(link.dst));
  if (path.headers.is_tagged()) {
    facts.Add("vlan", path.headers.vlan_tci() & 0xfff);
    facts.Add("priority", path.headers.vlan_tci() >> 13);
  }
  const uint8_t* const at = &bytes[path.headers.ip_offset()];
  if (path.headers.framing() == wire::Framing::kIpv4) {
    const auto& ip = *reinterpret_cast<const wire::Ipv4*>(at);
    facts.Add("traffic-class", ip.tos);
    facts.Add("hop-limit", ip.ttl);
  } else {
    const auto& ip = *reinterpret_cast<const wire::Ipv6*>(at);
    facts.Add("traffic-class", ip.traffic_class());
    facts.Add("hop-limit", ip.hop_limit);
    facts.Add("flow-label", ip.flow_label());
  }
  if (path.headers.framing() != wire::Framing::kGrh) {
    const auto& udp = *reinterpret_cast<const wire::Udp*>(
        &bytes[path.headers.size() - sizeof(wire::Udp)]);
    facts.Add("udp-src-port", udp.src_port.value());
  }
  facts.Add("ip-mtu", path.mtu);
}

// Adds what the program has agreed on with the peer, and its time-outs.
void AddAgreed(const RoceQp& qp, FactWriter& facts) {
  if (qp.service() == QpService::kUd || qp.state() < QpState::kRtr) return;
  AddLayers(qp.path, facts);
  const QpConfig& config = qp.config();
  facts.Add("path-mtu", config.mtu);
  facts.AddHex("pkey", config.pkey);
  // The transition to RTS sets these.
  if (qp.service() == QpService::kUc || qp.state() < QpState::kRts) return;
  facts.Add("timeout-us", config.timeout.ns() / 1000);
  facts.Add("retry-cnt", config.retry_count);
  facts.Add("rnr-retry", config.rnr_retry);
  facts.Add("min-rnr-timer", config.min_rnr_timer);
}

void DescribePeer(const RoceQp& qp, FactWriter& facts) {
  const bool has_peer = qp.service() != QpService::kUd;
  const QpState state = qp.state();
  if (has_peer && state >= QpState::kRtr) {
    facts.Add("rqpn", qp.config().dest_qpn);
    facts.Add("src-addr", wire::IpText(qp.path.local));
    facts.Add("dst-addr", wire::IpText(qp.path.remote));
    facts.Add("rq-psn", qp.recv_psn().value());
  }
  if (state >= QpState::kRts) facts.Add("sq-psn", qp.send_psn().value());
  if (has_peer) facts.Add("path-mig-state", "MIGRATED");
}

// Adds what an engine's queue pair knows about its peer.
void DescribePeer(const EngineQp& qp, FactWriter& facts) {
  if (qp.is_roce_qp())
    return DescribePeer(static_cast<const RoceQp&>(qp), facts);
  if (qp.kind() != Flow::Kind::kIwarpQp) return;
  const IwarpConnection* connection =
      static_cast<const IwarpQp&>(qp).connection();
  if (connection == nullptr) return;
  const tcp::FourTuple& tuple = connection->tuple();
  facts.Add("src-addr", wire::SocketText(tuple.local, tuple.local_port));
  facts.Add("dst-addr", wire::SocketText(tuple.remote, tuple.remote_port));
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
  if (engine_qp.is_roce_qp())
    AddAgreed(static_cast<const RoceQp&>(engine_qp), facts);
  AddAccess(engine_qp.config(), facts);
  AddCaps(qp.caps(), facts);
}

void Describe(const IwarpListener& listener, const Device& device,
              std::string& out) {
  FactWriter facts("tcp", out);
  facts.Add("link", LinkName(device));
  facts.Add("state", "LISTEN");
  facts.Add("src-addr", wire::SocketText(listener.local(), listener.port()));
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  facts.Add("backlog", listener.config().backlog);
  facts.Add("unanswered", listener.unanswered());
}

void Describe(const IwarpConnection& connection, const Device& device, Time now,
              std::string& out) {
  const tcp::Connection& tcp = connection.endpoint().connection();
  const tcp::FourTuple& tuple = connection.tuple();
  FactWriter facts("tcp", out);
  facts.Add("link", LinkName(device));
  facts.Add("state", tcp::kStateNames[static_cast<size_t>(tcp.state())]);
  facts.Add("src-addr", wire::SocketText(tuple.local, tuple.local_port));
  facts.Add("dst-addr", wire::SocketText(tuple.remote, tuple.remote_port));
  if (connection.qp() != nullptr) facts.Add("lqpn", connection.qp()->qpn());
  if (tcp.ended() != tcp::End::kNone)
    facts.Add("end", tcp::kEndNames[static_cast<size_t>(tcp.ended())]);
  AddOwner(ThisProcess(), facts);
  facts.BeginDetails();
  DescribeTcp(connection, now, facts);
}

// Describes first the listeners, which are few, and then the connections.
std::optional<uint64_t> DescribeTcpOf(Device& device, uint64_t place,
                                      std::string& out) {
  if (!IsIwarp(device)) return std::nullopt;
  Engine::ControlScope scope(device.engine());
  const ConnectionTable& table = device.engine().connections();
  if (place == 0) {
    table.ForEachListener([&](const IwarpListener& listener) {
      Describe(listener, device, out);
    });
  }
  const Time now = device.engine().Now();
  return table.Visit(static_cast<uint32_t>(place), kStep,
                     [&](const IwarpConnection& connection) {
                       Describe(connection, device, now, out);
                     });
}

template <typename T>
std::optional<uint64_t> DescribeSome(Device& device,
                                     const ObjectTable<T>& objects,
                                     uint64_t serial, std::string& out) {
  // Taken once the table is locked: see ObjectTable's lock order.
  std::optional<Engine::ControlScope> scope;
  return objects.Visit(serial, kStep, [&](T& object) {
    if (!scope) scope.emplace(device.engine());
    if constexpr (std::is_same_v<T, Qp>) {
      if (!Qp::HasStartMark(&object)) return;  // the program has overwritten it
    }
    Describe(object, out);
  });
}

}  // namespace

std::optional<ObjectKind> ObjectKindOf(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<ObjectKind>(at - kNames.begin());
}

void DescribeWithQueues(Qp& qp, const Failure& failure, std::string& out) {
  Describe(qp, out);
  if (qp.send_cq() != nullptr) Describe(*qp.send_cq(), out);
  if (qp.recv_cq() != nullptr && qp.recv_cq() != qp.send_cq())
    Describe(*qp.recv_cq(), out);
  if (qp.srq() != nullptr) {
    FactWriter facts("srq", out);
    AddUnguarded(*qp.srq(), facts);
  }
  if (qp.pd() != nullptr) Describe(*qp.pd(), out);
  Device& device = qp.device();
  DescribeMemories(failure.keys, device, out);
  DescribeImage(qp.engine_qp(), device.engine().Now(), out);
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
    case ObjectKind::kTcp:
      return DescribeTcpOf(device, serial, out);
  }
  return std::nullopt;
}

}  // namespace urnic::control
