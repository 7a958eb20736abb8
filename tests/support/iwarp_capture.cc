#include "tests/support/iwarp_capture.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>

#include "transport/wire/frame.h"
#include "transport/wire/mpa.h"
#include "transport/wire/tcp.h"

namespace urnic::testing {
namespace {

using Bytes = std::vector<uint8_t>;

// One direction of a connection.
struct Stream {
  size_t connection = 0;
  bool from_initiator = false;
  SeqNum next;
  Bytes bytes;  // received, but not yet a unit
  bool set_up = false;
};

// Source, destination and their ports.
using StreamKey =
    std::tuple<std::array<uint8_t, 16>, std::array<uint8_t, 16>, int, int>;

// False: a hole.
bool Append(const wire::TcpSegment& segment, Stream& stream) {
  const SeqNum first = segment.seq + (segment.Has(wire::kTcpSyn) ? 1 : 0);
  if (first - stream.next > 0) return false;
  const size_t known = std::min<size_t>(
      static_cast<size_t>(stream.next - first), segment.payload.size());
  const auto fresh = segment.payload.subspan(known);
  stream.bytes.insert(stream.bytes.end(), fresh.begin(), fresh.end());
  stream.next = stream.next + static_cast<uint32_t>(fresh.size());
  return true;
}

// The first unit of the stream; a unit without bytes if it is not complete yet,
// none if the stream cannot be MPA.
std::optional<IwarpUnit> TakeUnit(Stream& stream) {
  IwarpUnit unit;
  unit.connection = stream.connection;
  unit.from_initiator = stream.from_initiator;
  size_t bytes = 0;
  if (stream.set_up) {
    wire::FpduHeader header;
    if (stream.bytes.size() < sizeof(header)) return unit;
    std::memcpy(&header, stream.bytes.data(), sizeof(header));
    bytes = wire::FpduBytes(header.ulpdu_bytes.value());
  } else {
    wire::MpaFrame frame;
    if (stream.bytes.size() < sizeof(frame)) return unit;
    std::memcpy(&frame, stream.bytes.data(), sizeof(frame));
    const bool request = frame.is_request();
    if (request != stream.from_initiator) return std::nullopt;
    if (!request && !frame.is_reply()) return std::nullopt;
    if ((frame.flags & wire::kMpaMarkers) != 0) return std::nullopt;
    unit.kind = request ? IwarpUnit::Kind::kRequest : IwarpUnit::Kind::kReply;
    bytes = sizeof(frame) + frame.private_data_bytes.value();
  }
  if (stream.bytes.size() < bytes) return unit;
  const auto end = stream.bytes.begin() + static_cast<ptrdiff_t>(bytes);
  unit.bytes.assign(stream.bytes.begin(), end);
  stream.bytes.erase(stream.bytes.begin(), end);
  stream.set_up = true;
  return unit;
}

}  // namespace

Bytes IwarpUnit::ulpdu() const {
  wire::FpduHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto first = bytes.begin() + sizeof(header);
  return Bytes(first, first + header.ulpdu_bytes.value());
}

IwarpCapture ReadIwarpCapture(const PcapFile& file) {
  IwarpCapture capture;
  capture.error = file.error;
  std::map<StreamKey, Stream> streams;
  size_t connections = 0;
  for (size_t i = 0; i < file.frames.size() && capture.error.empty(); ++i) {
    wire::FrameView view;
    wire::TcpSegment segment;
    const Bytes& frame = file.frames[i];
    if (wire::ParseFrame(frame.data(), frame.size(), view) != RxVerdict::kTcp ||
        wire::ParseTcp(view, /*checksum_verified=*/true, segment) !=
            RxVerdict::kAccept) {
      continue;
    }
    const StreamKey key = {view.src.bytes, view.dst.bytes, segment.src_port,
                           segment.dst_port};
    const StreamKey opposite = {view.dst.bytes, view.src.bytes,
                                segment.dst_port, segment.src_port};
    Stream& stream = streams[key];
    const std::string where = "frame " + std::to_string(i + 1);
    if (segment.Has(wire::kTcpSyn)) {
      stream = Stream();
      stream.from_initiator = !segment.Has(wire::kTcpAck);
      stream.connection =
          stream.from_initiator ? connections++ : streams[opposite].connection;
      stream.next = segment.seq + 1;
    }
    if (segment.payload.empty()) continue;
    if (!Append(segment, stream)) capture.error = where + ": after a hole";
    for (;;) {
      std::optional<IwarpUnit> unit = TakeUnit(stream);
      if (!unit) capture.error = where + ": not MPA";
      if (!unit || unit->bytes.empty()) break;
      unit->frame = i;
      capture.units.push_back(std::move(*unit));
    }
  }
  return capture;
}

}  // namespace urnic::testing
