// Any list of operations on two windows that face each other, and on their
// rings, contexts and registrations. Packets are delivered in bursts, lost,
// duplicated, altered or made up, mostly with the right job, key and context;
// a program writes any bytes to its rings. The rules are in
// tests/fuzz/rud_watched_end.h.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/rud_watched_end.h"

namespace urnic::rud {
namespace {

using testing::Input;
using testing::RudEnd;
using End = testing::RudWatchedEnd;
using wire::Be;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kJob = End::kJob;
constexpr uint32_t kKey = End::kKey;
constexpr size_t kInFlightMax = 128;
constexpr int kOperationMax = 400;
constexpr uint16_t kStrides[] = {8, 16, 64, 1000, 1024, 1025, 0, 65535};

class Fuzzer {
 public:
  explicit Fuzzer(Input input) : in_(input), ends_{End(1), End(2)} {
    for (size_t i = 0; i < 2; ++i) {
      // Each is its own peer, too, for third parties.
      ends_[i].rnic().peers = {{1, PeerOf(ends_[1 - i])},
                               {2, PeerOf(ends_[i])}};
    }
  }

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) {
      const uint8_t what = in_.Byte();
      Operate(what & 1, what >> 1);
      for (End& end : ends_) {
        end.Watch();
        end.CheckContexts();
      }
    }
    for (size_t i = 0; i < 2; ++i) ends_[i].Drain(ends_[1 - i].address());
  }

 private:
  static RudEnd::Peer PeerOf(End& end) {
    return {end.address(), end.rnic().config().window.number};
  }

  void Operate(size_t i, uint8_t what) {
    End& end = ends_[i];
    switch (what % 20) {
      case 0:
      case 1:
        return Transmit(i);
      case 2:
      case 3:
      case 4:
        return Deliver(i, what >= 60);
      case 5:
      case 6:
        return Invent(i);
      case 7:
        if (!wire_[i].empty())
          wire_[i].erase(wire_[i].begin() + in_.Byte() % wire_[i].size());
        return;
      case 8:
        return Alter(i);
      case 9:
      case 10:
      case 11:
        return Post(i);
      case 12:
        return Scribble(end);
      case 16:
      case 17:
        return PostAgain(i);
      case 18:
      case 19:
        return Settle();
      case 13:
        (void)end.rnic().Poll();
        return;
      default:
        return Control(end);
    }
  }

  void Transmit(size_t i) {
    const uint32_t most = 1 + in_.Below(kBurstMax);
    for (auto& sent : ends_[i].Transmit(ends_[1 - i].address(), most)) {
      std::vector<Bytes>& wire = wire_[sent.peer == 2 ? i : 1 - i];
      if (wire.size() < kInFlightMax) wire.push_back(std::move(sent.bytes));
    }
  }

  // `keep`: a duplicate may follow.
  void Deliver(size_t i, bool keep) {
    std::vector<Bytes>& wire = wire_[i];
    const uint8_t how = in_.Byte();
    if ((how & 0x40) != 0) std::reverse(wire.begin(), wire.end());
    const size_t count = std::min<size_t>(wire.size(), 1 + how % kBurstMax);
    const auto end = wire.begin() + static_cast<int64_t>(count);
    const std::vector<Bytes> burst(wire.begin(), end);
    if (!keep) wire.erase(wire.begin(), end);
    ends_[i].Receive(burst, ends_[1 - i].address(), (how & 0x80) != 0);
  }

  void Repair(size_t i, Bytes& packet) {
    const size_t body = packet.size() - wire::kRudCrcBytes;
    wire::Crc32c crc =
        wire::RudCrcOfAddresses(ends_[1 - i].address(), ends_[i].address());
    crc.Add(std::span(packet).first(body)).Store(&packet[body]);
  }
  void Alter(size_t i) {
    if (wire_[i].empty()) return;
    Bytes& packet = wire_[i][in_.Byte() % wire_[i].size()];
    packet[in_.Byte() % std::min<size_t>(packet.size(), 104)] = in_.Byte();
    if (in_.Below(8) != 0) Repair(i, packet);
  }

  ContextId PickContext(End& end) {
    const uint8_t which = in_.Byte();
    if ((which & 0xe0) == 0xe0 && !end.former().empty())
      return end.former()[which % end.former().size()];
    if (which == 0xdf || end.owned().empty()) return {in_.Byte(), in_.Word()};
    return end.owned()[which % end.owned().size()];
  }
  uint64_t PickTid() {
    const uint8_t tid = in_.Byte();
    if (tid == 0xff) return ~uint64_t{0};
    return uint64_t{tid} >> 3 << 8 | (tid & 7);
  }
  Pvo PickPvo(End& end) {
    const uint8_t which = in_.Byte();
    if (which == 0xff) return end.stale();
    if (which == 0xfe) return {uint64_t{in_.Word()} << 32};
    if (end.registrations().empty()) return {};
    const End::Registration& one =
        end.registrations()[(which >> 4) % end.registrations().size()];
    // Near the end of it, or anywhere.
    if ((which & 15) >= 12)
      return {one.pvo.value + (one.end - one.begin) - (which & 3) * 8u};
    return {one.pvo.value + (which & 15u) * 900};
  }
  uint32_t PickBytes() {
    static constexpr uint32_t kBytes[] = {0,  1,  8,   9,    20,   32,
                                          33, 64, 500, 1024, 1025, 4096};
    return kBytes[in_.Below(std::size(kBytes))];
  }
  uint16_t PickStride() { return kStrides[in_.Below(std::size(kStrides))]; }
  // Mostly all that the transfer has.
  uint64_t PickPackets(uint32_t bytes, uint16_t stride) {
    const uint8_t mask = in_.Byte();
    const uint32_t packets = stride == 0 ? 1 : wire::RudPackets(bytes, stride);
    const uint64_t all = wire::RudAllPackets(std::clamp(packets, 1u, 64u));
    if (mask == 0xff) return ~uint64_t{0};
    return (mask & 1) == 0 ? all : all & mask;
  }

  void Post(size_t i) {
    End& end = ends_[i];
    End& other = ends_[1 - i];
    if (!end.rnic().CanPost()) return;
    urnic_rud_send c = {};
    const uint8_t what = in_.Byte();
    c.opcode = 1 + (what & 3);
    c.flags = (what >> 2 & 3) == 3 ? 3 : what >> 2 & 1;
    c.notify = c.opcode == URNIC_RUD_WRITE || c.opcode == URNIC_RUD_READ
                   ? what >> 4 & 3
                   : 0;
    if ((what & 0xc0) == 0xc0) c.flags = in_.Byte();
    if ((what & 0x0f) == 0x0f) BeThirdRead(c, end, what >> 4 & 7);
    if ((what & 0x0f) == 0x0e) BeOnCounter(c);
    if ((what & 0x0f) == 0x0d) {
      c.opcode = URNIC_RUD_CANCEL;
      c.flags = c.notify = 0;
    }
    if ((what & 0xc0) == 0x80) AddCondition(c);
    lists_[i].clear();
    c.path = in_.Below(4);
    c.window = other.rnic().config().window.number;
    c.context = PickContext(other).value();
    c.local_context = PickContext(end).value();
    c.tid = PickTid();
    c.local_pvo = PickPvo(end).value;
    c.remote_pvo = PickPvo(other).value;
    c.bytes = PickBytes();
    c.stride = PickStride();
    c.packets = PickPackets(c.bytes, c.stride);
    if ((what & 0x0f) == 0x0c) BeList(c, lists_[i], other);
    last_[i] = c;
    end.rnic().Post(c, lists_[i]);
  }
  // Mostly one that is well-formed.
  void BeList(urnic_rud_send& c, Bytes& list, End& other) {
    const uint8_t how = in_.Byte();
    for (uint32_t n = how == 0xff ? 70 : 1 + (how & 7); n != 0; --n) {
      const uint8_t bytes = 1 + in_.Below(4);
      wire::RudListEntry entry;
      entry.pvo = Be<uint64_t>(PickPvo(other).value);
      entry.bytes = Be<uint16_t>(bytes);
      const auto* raw = reinterpret_cast<const uint8_t*>(&entry);
      list.insert(list.end(), raw, raw + sizeof(entry));
      list.insert(list.end(), bytes, n);
    }
    if ((how & 0xf0) == 0xe0) list.pop_back();
    c.opcode = URNIC_RUD_WRITE;
    c.flags = URNIC_RUD_SLOT_DATA | URNIC_RUD_LIST;
    c.notify = how >> 3 & 3;
    c.remote_pvo = (how & 0xf0) == 0xd0 ? 1 : 0;
    c.bytes = static_cast<uint32_t>(list.size());
    c.stride = static_cast<uint16_t>(c.bytes);
    c.packets = 1;
  }
  // The other end is told to send to one of the two.
  void BeThirdRead(urnic_rud_send& c, End& end, uint8_t notify) {
    const uint8_t to = in_.Below(4);
    c.opcode = URNIC_RUD_THIRD_READ;
    c.flags = 0;
    c.notify = notify;
    c.target_peer = to == 3 ? 7 : 1 + (to & 1);
    End& target = c.target_peer == 2 ? end : Other(end);
    c.target_window = target.rnic().config().window.number;
    c.target_context = PickContext(target).value();
  }
  void BeOnCounter(urnic_rud_send& c) {
    const uint8_t how = in_.Byte();
    c.opcode = URNIC_RUD_SET_COUNTER + (how & 3);
    c.flags = (how & 0xc0) == 0xc0 ? URNIC_RUD_TO_FIFO : 0;
    c.notify = 0;
    c.counter = how >> 2 & 3;
    c.value = how >> 4 & 3;
  }
  void AddCondition(urnic_rud_send& c) {
    const uint8_t how = in_.Byte();
    c.condition = how == 0xff ? URNIC_RUD_COUNTERS : how & 3;
    c.value = how >> 2 & 7;
    c.counter = how >> 5 & 3;
    if ((how & 0x80) != 0) c.flags |= URNIC_RUD_COUNT_ONLY;
  }
  End& Other(const End& end) { return ends_[&end == &ends_[0] ? 1 : 0]; }
  // Another attempt, as of an upper layer after a time-out: the same, or a
  // question for its state.
  void PostAgain(size_t i) {
    if (!ends_[i].rnic().CanPost()) return;
    const uint8_t how = in_.Byte();
    last_[i].tid += how & 3;
    last_[i].path = how >> 2 & 3;
    urnic_rud_send c = last_[i];
    if (how >= 0xc0) {
      c.opcode = URNIC_RUD_ASK_STATE;
      c.flags = c.notify = 0;
    }
    ends_[i].rnic().Post(c, lists_[i]);
  }
  // The network and the engines are fast.
  void Settle() {
    for (size_t i = 0; i < 2; ++i) {
      for (auto& sent : ends_[i].Transmit(ends_[1 - i].address(), kBurstMax)) {
        ends_[sent.peer == 2 ? i : 1 - i].Receive({std::move(sent.bytes)},
                                                  ends_[i].address(), false);
      }
    }
  }

  // What a hostile program does to its own rings.
  void Scribble(End& end) {
    const uint8_t how = in_.Byte();
    const auto jump = static_cast<int8_t>(in_.Byte());
    switch (how % 5) {
      case 0:
        end.rnic().send_indices().producer += static_cast<uint32_t>(jump);
        return;
      case 1:
        end.rnic().receive_indices().consumer += static_cast<uint32_t>(jump);
        return;
      case 2:
        end.rnic().send_indices().consumer += static_cast<uint32_t>(jump);
        return;
      case 3: {
        auto bytes =
            std::as_writable_bytes(std::span(end.rnic().rings().receives));
        bytes[in_.Byte() % bytes.size()] = std::byte(jump);
        return;
      }
      default: {
        auto bytes =
            std::as_writable_bytes(std::span(end.rnic().rings().sends));
        bytes[in_.Word() % bytes.size()] = std::byte(jump);
      }
    }
  }

  // A packet that nobody has sent, with a right CRC.
  void Invent(size_t i) {
    End& end = ends_[i];
    End& other = ends_[1 - i];
    wire::RudBase base;
    const uint8_t what = in_.Byte();
    const auto type = static_cast<wire::RudType>(1 + (what & 7));
    base.SetType(type);
    base.notify = what >> 3 & 7;
    base.flags = (what & 0xe0) == 0xe0 ? in_.Byte() : 0;
    base.path = in_.Below(4);
    const uint8_t wrong = in_.Byte();
    base.job = Be<uint32_t>(wrong == 1 ? kJob + 1 : kJob);
    base.key = Be<uint32_t>(wrong == 2 ? kKey + 1 : kKey);
    base.window = Be<uint32_t>(end.rnic().config().window.number);
    base.source_window = Be<uint32_t>(other.rnic().config().window.number);
    body_.clear();
    const uint32_t payload = AddBody(end, other, type);
    const bool is_payload = type == wire::RudType::kCompletion;
    base.payload_bytes = Be<uint16_t>(
        static_cast<uint16_t>(is_payload ? body_.size() : payload));
    Bytes packet(reinterpret_cast<const uint8_t*>(&base),
                 reinterpret_cast<const uint8_t*>(&base + 1));
    packet.insert(packet.end(), body_.begin(), body_.end());
    packet.resize(packet.size() + payload + wire::kRudCrcBytes, 0xab);
    Repair(i, packet);
    if (wire_[i].size() < kInFlightMax) wire_[i].push_back(std::move(packet));
  }
  template <typename Header>
  void Add(const Header& header) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
    body_.insert(body_.end(), bytes, bytes + sizeof(header));
  }
  // What follows the base header; the bytes of payload behind that.
  uint32_t AddBody(End& end, End& other, wire::RudType type) {
    if (type == wire::RudType::kFifo) {
      Add(wire::RudTag());
      return PickBytes();
    }
    if (type == wire::RudType::kCompletion) {
      for (uint32_t n = 1 + in_.Below(3); n != 0; --n) {
        wire::RudCompletion done;
        done.source = ToWire(PickContext(end));
        done.tid = Be<uint64_t>(PickTid());
        Add(done);
      }
      return 0;
    }
    wire::RudTransfer transfer;
    transfer.context = ToWire(PickContext(end));
    transfer.tid = Be<uint64_t>(PickTid());
    Add(transfer);
    uint32_t payload = 0;
    if (type == wire::RudType::kData || type == wire::RudType::kThirdData) {
      payload = AddData(end, other);
    } else if (type == wire::RudType::kNotice) {
      wire::RudNotice notice;
      notice.sender = ToWire(PickContext(other));
      notice.reason = in_.Below(2);
      notice.arrived = Be<uint64_t>(in_.Byte());
      Add(notice);
    } else if (type == wire::RudType::kStateRequest) {
      Add(ToWire(PickContext(other)));
    } else {
      AddRead(end, other);
    }
    if (type == wire::RudType::kThirdData ||
        type == wire::RudType::kThirdReadRequest) {
      wire::RudThird third;
      const uint8_t which = in_.Below(4);
      third.address = which == 3 ? wire::Gid() : end.address();
      third.window = Be<uint32_t>(1 + (which & 1));
      third.context = ToWire(PickContext(ends_[which & 1]));
      Add(third);
    }
    return payload;
  }
  uint32_t AddData(End& end, End& other) {
    wire::RudData data;
    const uint32_t total = PickBytes();
    const uint16_t stride = PickStride();
    const uint8_t number = in_.Byte() % 8;
    const uint32_t offset = uint32_t{number} * stride;
    data.pvo = Be<uint64_t>(PickPvo(end).value + offset);
    data.total = Be<uint32_t>(total);
    data.offset = Be<uint32_t>(offset);
    data.stride = Be<uint16_t>(stride);
    data.number = number;
    data.source = ToWire(PickContext(other));
    Add(data);
    return offset <= total ? wire::RudPayloadOf(total, stride, number) : 0;
  }
  void AddRead(End& end, End& other) {
    wire::RudRead read;
    read.source_pvo = Be<uint64_t>(PickPvo(end).value);
    read.target_pvo = Be<uint64_t>(PickPvo(other).value);
    const uint32_t total = PickBytes();
    const uint16_t stride = PickStride();
    read.total = Be<uint32_t>(total);
    read.stride = Be<uint16_t>(stride);
    read.target = ToWire(PickContext(other));
    read.packets = Be<uint64_t>(PickPackets(total, stride));
    Add(read);
  }

  void Control(End& end) {
    const uint8_t what = in_.Byte();
    const uint8_t which = in_.Byte();
    switch (what % 8) {
      case 0:
      case 1:
        return end.Acquire();
      case 2:
        if (!end.owned().empty()) end.Release(which % end.owned().size());
        return;
      case 3:
        if (what == 3) end.Recover();
        return;
      case 4:
      case 5: {
        const uint64_t offset = uint64_t{which} * 40;
        return end.Register(offset, 1 + in_.Below(200) * 10,
                            what >> 4 & End::kAll,
                            (what & 8) != 0 && what > 240 ? kJob + 1 : kJob);
      }
      case 6:
        if (!end.registrations().empty())
          end.Deregister(which % end.registrations().size());
        return;
      default:
        return end.FaultAfter(1 + which % 4);
    }
  }

  Input in_;
  End ends_[2];
  std::vector<Bytes> wire_[2];   // to each end
  Bytes body_;                   // of a packet that is made up
  urnic_rud_send last_[2] = {};  // that each has posted
  Bytes lists_[2];               // and what it has put in the slot
};

}  // namespace
}  // namespace urnic::rud

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urnic::rud::Fuzzer(urnic::testing::Input(data, size)).Run();
  return 0;
}
