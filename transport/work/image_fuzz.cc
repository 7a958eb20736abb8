// Images of queue pairs and connections in any state, with any members changed.
// Each is refused, or yields one whose invariants hold, then and after any
// further operations. The endpoints abort if the core touches a byte that it
// was not given.

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/support/cm_sink.h"
#include "tests/support/endpoint.h"
#include "tests/support/image_map.h"
#include "tests/support/unreliable_end.h"
#include "transport/base/check.h"
#include "transport/cm/image.h"
#include "transport/cm/image_fields.h"
#include "transport/rc/image_fields.h"
#include "transport/work/request.h"
#include "transport/work/timers.h"
#include "transport/work/unreliable_image.h"

namespace urnic {
namespace {

using testing::Bytes;
using testing::CmSink;
using testing::Endpoint;
using testing::FakeHost;
using testing::ImageMap;
using testing::Input;
using testing::UnreliableEnd;

constexpr uint32_t kAll = mem::kLocalWrite | mem::kRemoteWrite |
                          mem::kRemoteRead | mem::kRemoteAtomic;

// Changes some members, or bytes of the header, and corrects length and CRC.
void Alter(Input& in, const ImageMap& map, std::vector<uint8_t>& image) {
  for (uint32_t n = 1 + in.Below(4); n != 0; --n) {
    const auto& fields = map.fields();
    const auto& field = fields[in.Word() % fields.size()];
    uint64_t old = 0;
    std::memcpy(&old, image.data() + field.at, field.bytes);
    switch (in.Below(4)) {
      case 0:  // nearby
        ImageMap::Set(image, field, old + static_cast<int8_t>(in.Byte()));
        break;
      case 1:
        ImageMap::Set(image, field, in.Below(4));
        break;
      case 2:
        ImageMap::Set(image, field, uint64_t{in.Word()} << 32 | in.Word());
        break;
      default:
        ImageMap::Set(image, field, ~uint64_t{0} >> in.Below(64));
    }
  }
  if (in.Below(8) == 0) {  // truncated or longer
    image.resize((image.size() + 4 * in.Below(16)) & ~size_t{3});
    if (in.Below(2) == 0) image.resize(16 + (in.Word() % image.size() & ~3u));
    const auto length = static_cast<uint32_t>(image.size());
    std::memcpy(image.data() + 12, &length, 4);
    ImageMap::Seal(image);
  }
}

class RcImages {
 public:
  explicit RcImages(Input input) : in_(input) {
    for (int i = 0; i < 2; ++i) {
      hosts_[i].emplace(16384);
      keys_[i] = hosts_[i]->Register(1, 0, 16384, kAll);
      ends_[i].emplace(
          *hosts_[i],
          testing::EndpointOptions{.qpn = 0x11u * (i + 1), .sq_entries = 16});
      config_[i] = {.dest_qpn = 0x11u * (2 - i),
                    .mtu = 256,
                    .rq_psn = Psn(0xfffff0),
                    .sq_psn = Psn(0xfffff0),
                    .access = kAll,
                    .timeout = AckTimeout(8),
                    .max_rd_atomic = 4,
                    .max_dest_rd_atomic = 4,
                    .window_packets = 32};
      ends_[i]->Connect(config_[i]);
    }
  }

  void Run() {
    for (uint32_t n = in_.Below(12); n != 0; --n) Operate();
    const int i = in_.Below(2);
    std::vector<uint8_t> image = ends_[i]->Image(now_);
    Alter(in_, ImageMap(ends_[i]->qp(), QpService::kRc), image);
    const Duration shift = Duration::Microseconds(in_.Word());
    if (!ends_[i]->Become(image, now_, shift).ok()) return;
    ends_[i]->qp().CheckInvariants();
    for (uint32_t n = 24; n != 0; --n) Operate();
    ends_[i]->qp().Modify(QpState::kErr, config_[i]);
    Check();
  }

 private:
  void Operate() {
    const int i = in_.Below(2);
    Endpoint& end = *ends_[i];
    switch (in_.Below(8)) {
      case 0:
        Post(i);
        break;
      case 1:
        (void)end.PostRecv({.sges = {{hosts_[i]->address(0), 2048, keys_[i]}}});
        break;
      case 2:
        now_ = now_ + Duration::Microseconds(in_.Below(256) * 16);
        end.AdvanceTo(now_);
        break;
      default:
        Exchange(i);
    }
    Check();
  }
  void Post(int i) {
    const RequestKind& kind =
        kRequestKinds[in_.Below(std::size(kRequestKinds))];
    const uint32_t bytes = kind.fixed_length == kAnyLength
                               ? in_.Below(9) * 250
                               : static_cast<uint32_t>(kind.fixed_length);
    (void)end(i).PostSend({.opcode = kind.opcode,
                           .sges = {{hosts_[i]->address(0), bytes, keys_[i]}},
                           .remote_addr = hosts_[1 - i]->address(4096),
                           .rkey = keys_[1 - i]});
  }
  // Some of the packets arrive.
  void Exchange(int i) {
    std::vector<testing::Packet> packets =
        end(i).Transmit(now_, 1 + in_.Below(16));
    const uint32_t keep = in_.Byte();
    for (size_t n = 0; n < packets.size(); ++n) {
      if ((keep >> (n % 8) & 1) != 0) continue;
      (void)end(1 - i).Deliver(packets[n], now_);
    }
  }
  void Check() {
    for (auto& end : ends_) {
      end->Poll();
      end->qp().CheckInvariants();
      (void)end->TakeCompletions();
      (void)end->TakeEvent();
    }
  }
  Endpoint& end(int i) { return *ends_[i]; }

  Input in_;
  std::optional<FakeHost> hosts_[2];
  std::optional<Endpoint> ends_[2];
  QpConfig config_[2];
  uint32_t keys_[2];
  Time now_ = Time::FromNs(1'000'000'000);
};

template <typename Qp>
class UnreliableImages {
 public:
  static constexpr bool kDatagrams = std::is_same_v<Qp, ud::Qp>;

  explicit UnreliableImages(Input input) : in_(input) {
    config_.dest_qpn = 0x11;
    config_.qkey = 5;
    config_.mtu = 256;
    config_.rq_psn = config_.sq_psn = Psn(0xfffff0);
    config_.access = kAll;
    end_.emplace(0x11, config_);
  }

  void Run() {
    for (uint32_t n = in_.Below(12); n != 0; --n) Operate();
    std::vector<uint8_t> image = end_->Image();
    const QpService service = kDatagrams ? QpService::kUd : QpService::kUc;
    Alter(in_, ImageMap(AsUnreliableQp(), service), image);
    if (!end_->Become(image).ok()) return;
    for (uint32_t n = 24; n != 0; --n) Operate();
    end_->qp().Modify(QpState::kErr, config_);
    Check();
  }

 private:
  // The members that only UC has keep their values.
  const UnreliableQp& AsUnreliableQp() { return end_->qp(); }

  // The queue pair sends to itself.
  void Operate() {
    switch (in_.Below(4)) {
      case 0: {
        testing::SendWr wr{.opcode = URNIC_WR_SEND};
        wr.sges = {end_->Sge(0, in_.Below(4) * 250)};
        wr.remote_addr = uint64_t{0x11} << 32 | 1;
        wr.rkey = 5;
        (void)end_->rings().PostSend(wr);
        break;
      }
      case 1:
        (void)end_->rings().PostRecv({.sges = {end_->Sge(4096, 2048)}});
        break;
      default: {
        static constexpr uint8_t kIp[40] = {0x45};
        const std::vector<Bytes> packets = end_->Transmit(1 + in_.Below(4));
        if (in_.Below(4) != 0) end_->Receive(packets, kIp);
      }
    }
    Check();
  }
  void Check() {
    end_->Poll();
    end_->qp().CheckInvariants();
    end_->completed.clear();
    end_->received.clear();
    (void)end_->TakeEvent();
  }

  Input in_;
  QpConfig config_;
  std::optional<UnreliableEnd<Qp>> end_;
};

// Two managers that set up connections and end them.
class CmImages {
 public:
  explicit CmImages(Input input) : in_(input) {
    for (int i = 0; i < 2; ++i) {
      Start(i);
      URNIC_CHECK(managers_[i]->Listen(kService, 0, 0, listeners_[i]) == 0);
    }
  }

  void Run() {
    for (uint32_t n = in_.Below(24); n != 0; --n) Operate();
    const int i = in_.Below(2);
    cm::MovedConnection moved;
    for (const uint32_t id : managers_[i]->CommIds()) {
      if (!managers_[i]->Copy(id, moved)) std::abort();
      if (in_.Below(2) == 0) break;
    }
    const uint32_t id = moved.connection.local_comm_id;
    std::vector<uint8_t> image(cm::ExtractImage(*managers_[i], id, now_, {}));
    if (image.empty()) return;
    (void)cm::ExtractImage(*managers_[i], id, now_, image);
    Alter(in_, ImageMap(moved), image);
    if (in_.Below(4) != 0) URNIC_CHECK(managers_[i]->Forget(id) == 0);
    cm::Handle handle;
    if (!cm::InsertImage(image, now_, *managers_[i], handle).ok()) return;
    managers_[i]->CheckInvariants();
    for (uint32_t n = 24; n != 0; --n) Operate();
    End();
  }

 private:
  static constexpr uint64_t kService = 0x1061c06;

  void Start(int i) {
    cm::Config config;
    config.ca_guid = 0xca00 + i;
    config.first_communication_id = 0x5000u * (1 + i);
    config.max_connections = 16;
    config.max_half_open_per_source = 4;
    managers_[i].emplace(config);
  }
  net::PathQuery PathFrom(int i) {
    net::PathQuery path;
    path.remote = wire::Gid::FromIpv4(0x0a000002 - i);
    return path;
  }
  void Operate() {
    const int i = in_.Below(2);
    switch (in_.Below(8)) {
      case 0:
        Connect(i);
        break;
      case 1:
        now_ = std::max(now_, std::min(managers_[i]->NextDeadline(),
                                       now_ + Duration::Seconds(1)));
        managers_[i]->OnTimer(now_, sinks_[i]);
        break;
      case 2:
      case 3:
      case 4:
        Call(i);
        break;
      default:
        Deliver(i);
    }
    Check();
  }
  void Connect(int i) {
    cm::Handle handle;
    if (in_.Below(4) == 0) {
      cm::SidrRequestParams params;
      params.service_id = kService;
      params.mad_path = PathFrom(i);
      (void)managers_[i]->SidrRequest(params, 0, now_, sinks_[i], handle);
    } else {
      cm::ConnectParams params;
      params.service_id = kService;
      params.mad_path = PathFrom(i);
      params.qpn.value = in_.Below(8);
      (void)managers_[i]->Connect(params, 0, now_, sinks_[i], handle);
    }
    if (handle.valid()) handles_[i].push_back(handle);
  }
  void Call(int i) {
    if (handles_[i].empty()) return;
    cm::ConnectionManager& m = *managers_[i];
    CmSink& sink = sinks_[i];
    const cm::Handle h = handles_[i][in_.Byte() % handles_[i].size()];
    switch (in_.Below(8)) {
      case 0:
        (void)m.Reject(h, {}, now_, sink);
        break;
      case 1:
        (void)m.Destroy(h, now_, sink);
        break;
      case 2:
        (void)m.PrepareMra(h, 12);
        break;
      case 3:
        (void)m.Disconnect(h, {}, now_, sink);
        break;
      default: {  // the call that it waits for
        cm::AcceptParams params;
        params.qpn.value = in_.Below(8);
        (void)m.Accept(h, params, now_, sink);
        (void)m.SendRtu(h, {}, sink);
        (void)m.SendDrep(h, {}, now_, sink);
        (void)m.SidrReply(h, {}, sink);
      }
    }
  }
  void Deliver(int i) {
    if (sinks_[i].mads.empty()) return;
    const testing::SentMad mad = sinks_[i].mads.front();
    sinks_[i].mads.pop_front();
    (void)managers_[1 - i]->OnMad(mad.bytes, PathFrom(1 - i), now_,
                                  sinks_[1 - i]);
  }
  void Check() {
    for (int i = 0; i < 2; ++i) {
      managers_[i]->CheckInvariants();
      for (const testing::SeenEvent& seen : sinks_[i].events) {
        handles_[i].push_back(seen.event.handle);
      }
      sinks_[i].events.clear();
    }
  }
  // Every connection comes to its end.
  void End() {
    for (int i = 0; i < 2; ++i) {
      cm::ConnectionManager& m = *managers_[i];
      for (const cm::Handle h : handles_[i])
        (void)m.Destroy(h, now_, sinks_[i]);
      while (!m.NextDeadline().IsInfinite()) {
        m.OnTimer(m.NextDeadline(), sinks_[i]);
        m.CheckInvariants();
      }
    }
  }

  Input in_;
  std::optional<cm::ConnectionManager> managers_[2];
  CmSink sinks_[2];
  cm::Handle listeners_[2];
  std::vector<cm::Handle> handles_[2];
  Time now_ = Time::FromNs(1'000'000'000);
};

}  // namespace
}  // namespace urnic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using urnic::testing::Input;
  Input input(data, size);
  switch (input.Below(5)) {
    case 4:
      std::make_unique<urnic::CmImages>(input)->Run();
      break;
    case 0:
      urnic::UnreliableImages<urnic::uc::Qp>(input).Run();
      break;
    case 1:
      urnic::UnreliableImages<urnic::ud::Qp>(input).Run();
      break;
    default:
      urnic::RcImages(input).Run();
  }
  return 0;
}
