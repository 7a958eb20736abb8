#include "transport/wire/tcp.h"

#include <algorithm>

#include "transport/wire/appender.h"
#include "transport/wire/checksum.h"
#include "transport/wire/reader.h"

namespace urnic::wire {
namespace {

constexpr uint8_t kEndOfList = 0;
constexpr uint8_t kNoOperation = 1;
constexpr uint8_t kMss = 2;
constexpr uint8_t kWindowScale = 3;
constexpr uint8_t kSackPermitted = 4;
constexpr uint8_t kSack = 5;
constexpr uint8_t kTimestamps = 8;
constexpr uint8_t kExperiment1 = 253;
constexpr uint8_t kExperiment2 = 254;

struct OptionHead {
  uint8_t kind = 0;
  uint8_t bytes = 0;  // with this head
};
static_assert(sizeof(OptionHead) == 2);

struct MssOption {
  OptionHead head{kMss, 4};
  Be<uint16_t> mss;
};
static_assert(sizeof(MssOption) == 4);

struct WindowScaleOption {
  OptionHead head{kWindowScale, 3};
  uint8_t shift = 0;
};
static_assert(sizeof(WindowScaleOption) == 3);

struct TimestampsOption {
  OptionHead head{kTimestamps, 10};
  Be<uint32_t> value;
  Be<uint32_t> echo;
};
static_assert(sizeof(TimestampsOption) == 10);

struct SackRange {
  Be<uint32_t> begin;
  Be<uint32_t> end;
};
static_assert(sizeof(SackRange) == 8);

struct ExperimentOption {
  OptionHead head{kExperiment1, 4};
  Be<uint16_t> id;
};
static_assert(sizeof(ExperimentOption) == 4);

// REQUIRES: `body` ends within the header, so it holds at most four ranges.
void ParseSack(Reader body, TcpOptions& out) {
  if (body.rest().empty() || body.rest().size() % sizeof(SackRange) != 0) {
    return;
  }
  out.sack_count = 0;
  while (const SackRange* range = body.Take<SackRange>()) {
    out.sack[out.sack_count++] = {SeqNum(range->begin.value()),
                                  SeqNum(range->end.value())};
  }
}

// An option of a known kind but another size is ignored like one of unknown
// kind. `option`: with its head.
void ParseOption(std::span<const uint8_t> option, TcpOptions& out) {
  Reader reader(option);
  const auto has_size_of = [&option](const auto& header) {
    return option.size() == sizeof(header);
  };
  switch (option[0]) {
    case kMss:
      if (!has_size_of(MssOption())) return;
      out.mss = reader.Take<MssOption>()->mss.value();
      return;
    case kWindowScale:
      if (!has_size_of(WindowScaleOption())) return;
      out.window_shift = reader.Take<WindowScaleOption>()->shift;
      return;
    case kSackPermitted:
      if (has_size_of(OptionHead())) out.sack_permitted = true;
      return;
    case kSack:
      return ParseSack(Reader(option.subspan(sizeof(OptionHead))), out);
    case kTimestamps: {
      if (!has_size_of(TimestampsOption())) return;
      const auto& stamps = *reader.Take<TimestampsOption>();
      out.timestamps = {stamps.value.value(), stamps.echo.value()};
      return;
    }
    case kExperiment1:
    case kExperiment2:
      if (!has_size_of(ExperimentOption())) return;
      out.urnic |= reader.Take<ExperimentOption>()->id.value() == kUrnicExId;
      return;
    default:
      return;
  }
}

void ParseOptions(std::span<const uint8_t> rest, TcpOptions& out) {
  while (!rest.empty() && rest[0] != kEndOfList) {
    if (rest[0] == kNoOperation) {
      rest = rest.subspan(1);
      continue;
    }
    if (rest.size() < sizeof(OptionHead)) return;
    const size_t bytes = rest[1];
    if (bytes < sizeof(OptionHead) || bytes > rest.size()) return;
    ParseOption(rest.first(bytes), out);
    rest = rest.subspan(bytes);
  }
}

// The options before the SACK blocks, with their padding.
uint32_t FixedOptionBytes(const TcpOptions& options) {
  return (options.mss ? 4u : 0u) +
         (options.timestamps       ? 12u
          : options.sack_permitted ? 4u
                                   : 0u) +
         (options.window_shift ? 4u : 0u) + (options.urnic ? 4u : 0u);
}

// How many SACK blocks find room: the first ones.
size_t SackBlocksThatFit(const TcpOptions& options) {
  constexpr uint32_t kPaddedHead = 4;
  const uint32_t room = kTcpMaxOptionBytes - FixedOptionBytes(options);
  return std::min<size_t>(options.sack_count,
                          (room - kPaddedHead) / sizeof(SackRange));
}

void AppendPadding(size_t bytes, Appender& out) {
  for (; bytes > 0; --bytes) out.Append(kNoOperation);
}

// In the order of Linux, and padded in front as there. Middleboxes know it.
void AppendOptions(const TcpOptions& options, Appender& out) {
  if (options.mss) {
    out.Append(MssOption{.mss = Be<uint16_t>(*options.mss)});
  }
  const bool two_more =
      options.sack_permitted != options.timestamps.has_value();
  if (two_more) AppendPadding(2, out);
  if (options.sack_permitted) out.Append(OptionHead{kSackPermitted, 2});
  if (options.timestamps) {
    out.Append(
        TimestampsOption{.value = Be<uint32_t>(options.timestamps->value),
                         .echo = Be<uint32_t>(options.timestamps->echo)});
  }
  if (options.window_shift) {
    AppendPadding(1, out);
    out.Append(WindowScaleOption{.shift = *options.window_shift});
  }
  if (options.urnic) {
    out.Append(ExperimentOption{.id = Be<uint16_t>(kUrnicExId)});
  }
  const size_t blocks = SackBlocksThatFit(options);
  if (blocks == 0) return;
  AppendPadding(2, out);
  out.Append(OptionHead{
      kSack,
      static_cast<uint8_t>(sizeof(OptionHead) + blocks * sizeof(SackRange))});
  for (const SackBlock& block : options.sacks().first(blocks)) {
    out.Append(SackRange{Be<uint32_t>(block.begin.value()),
                         Be<uint32_t>(block.end.value())});
  }
}

}  // namespace

namespace {

// A kernel that leaves the checksum to an offload stores the sum of the pseudo
// header in its place.
bool IsUnfinished(const FrameView& view, const Tcp& tcp) {
  const uint16_t checksum_of_pseudo_header =
      Ipv6PseudoSum(view.src, view.dst, kIpProtocolTcp,
                    view.payload_span().size())
          .Finish();
  return tcp.checksum.value() ==
         static_cast<uint16_t>(~checksum_of_pseudo_header);
}

}  // namespace

RxVerdict ParseTcp(const FrameView& view, bool checksum_verified,
                   TcpSegment& out) {
  const std::span<const uint8_t> segment = view.payload_span();
  Reader reader(segment);
  const Tcp* tcp = reader.Take<Tcp>();
  if (tcp == nullptr) return RxVerdict::kTruncated;
  const uint32_t header_bytes = tcp->header_bytes();
  if (header_bytes < sizeof(Tcp) || header_bytes > segment.size()) {
    return RxVerdict::kBadTcpHeader;
  }
  if (!checksum_verified &&
      TcpChecksum(view.src, view.dst, segment.first(header_bytes),
                  segment.subspan(header_bytes)) != 0) {
    return IsUnfinished(view, *tcp) ? RxVerdict::kTcpUnfinished
                                    : RxVerdict::kBadTcpChecksum;
  }
  out = TcpSegment();
  out.src_port = tcp->src_port.value();
  out.dst_port = tcp->dst_port.value();
  out.seq = SeqNum(tcp->seq.value());
  out.ack = SeqNum(tcp->ack.value());
  out.flags = tcp->flags;
  out.window = tcp->window.value();
  out.urgent = tcp->urgent.value();
  ParseOptions(segment.first(header_bytes).subspan(sizeof(Tcp)), out.options);
  out.payload = segment.subspan(header_bytes);
  out.congestion_experienced = view.congestion_experienced();
  return RxVerdict::kAccept;
}

uint32_t TcpHeaderBytes(const TcpOptions& options) {
  const size_t blocks = SackBlocksThatFit(options);
  return static_cast<uint32_t>(
      sizeof(Tcp) + FixedOptionBytes(options) +
      (blocks == 0 ? 0 : 4 + blocks * sizeof(SackRange)));
}

uint32_t WriteTcpHeader(const TcpFields& fields, uint8_t* out) {
  const uint32_t bytes = TcpHeaderBytes(fields.options);
  Tcp tcp;
  tcp.src_port = Be<uint16_t>(fields.src_port);
  tcp.dst_port = Be<uint16_t>(fields.dst_port);
  tcp.seq = Be<uint32_t>(fields.seq.value());
  tcp.ack = Be<uint32_t>(fields.ack.value());
  tcp.offset_reserved = static_cast<uint8_t>(bytes / 4 << 4);
  tcp.flags = fields.flags;
  tcp.window = Be<uint16_t>(fields.window);
  tcp.urgent = Be<uint16_t>(fields.urgent);
  Appender appender(out);
  appender.Append(tcp);
  AppendOptions(fields.options, appender);
  return bytes;
}

uint16_t TcpPseudoSum(const Gid& src, const Gid& dst, size_t segment_bytes) {
  return static_cast<uint16_t>(
      ~Ipv6PseudoSum(src, dst, kIpProtocolTcp, segment_bytes).Finish());
}

uint16_t TcpChecksum(const Gid& src, const Gid& dst,
                     std::span<const uint8_t> header,
                     std::span<const uint8_t> payload) {
  // Also right for IPv4: the prefix of a mapped address is 0xffff, which counts
  // as zero in a ones-complement sum, and the other fields of both pseudo
  // headers are the same numbers.
  return Ipv6PseudoSum(src, dst, kIpProtocolTcp, header.size() + payload.size())
      .Add(header)
      .Add(payload)
      .Finish();
}

}  // namespace urnic::wire
