#include "verbs/control/capture_commands.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datapath/engine/engine.h"
#include "ras/capture/capture.h"
#include "ras/capture/pcapng.h"
#include "transport/net/addresses.h"
#include "transport/net/route_table.h"
#include "transport/wire/frame.h"
#include "verbs/control/answer.h"
#include "verbs/control/control_protocol.h"
#include "verbs/control/device_routes.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/wall_time.h"

namespace urnic::control {
namespace {

// How long a capture waits for its reader. The reader may have to wait itself,
// while the program answers other clients.
constexpr Duration kPatience =
    Duration::Seconds(2 * URNIC_CONTROL_TIMEOUT_SECONDS);

// The most bytes in one answer. The reader asks again for more, and the program
// answers other clients in between.
constexpr size_t kAnswerBytes = size_t{4} << 20;

// The number of bytes that are copied at a time, while the engine waits.
constexpr size_t kStepBytes = size_t{64} << 10;

// Sets `config` from "SNAP [lqpn QPN] [peer PREFIX]". Returns the mistake;
// empty: there is none.
std::string ParseConfig(const std::vector<std::string>& words,
                        Capture::Config& config) {
  std::optional<uint32_t> qpn;
  std::optional<net::Route> peer;
  if (words.empty() || words.size() % 2 == 0 ||
      !absl::SimpleAtoi(words[0], &config.snap_bytes) ||
      config.snap_bytes == 0 || config.snap_bytes > Capture::kSnapMax) {
    return absl::StrCat("capture start needs a length from 1 to ",
                        Capture::kSnapMax,
                        ", then pairs of a name and a value");
  }
  for (size_t i = 1; i != words.size(); i += 2) {
    const std::string& value = words[i + 1];
    uint32_t number = 0;
    if (words[i] == "lqpn" && absl::SimpleAtoi(value, &number)) {
      qpn = number;
    } else if (const auto prefix = ParseRoute(value);
               words[i] == "peer" && prefix.ok()) {
      peer = *prefix;
    } else {
      return absl::StrCat("\"", words[i], " ", value,
                          "\" is unknown to a capture; lqpn takes a number, "
                          "peer an address or a prefix");
    }
  }
  if (!qpn && !peer) return "";
  config.wants = [qpn, peer](const CapturedFrame& frame) {
    if (qpn && frame.qpn != *qpn) return false;
    if (!peer) return true;
    wire::FrameView view;
    (void)wire::ParseFrame(frame.bytes.data(), frame.bytes.size(), view);
    return net::SamePrefix(view.src, peer->prefix, peer->prefix_bits) ||
           net::SamePrefix(view.dst, peer->prefix, peer->prefix_bits);
  };
  return "";
}

std::string Start(OpenNic& nic, const std::vector<std::string>& words) {
  Capture::Config config;
  if (const std::string why = ParseConfig(words, config); !why.empty())
    return RefusedAnswer(why);
  Engine::ControlScope scope(nic.engine());
  Capture& capture = nic.engine().capture();
  const Time now = nic.engine().Now();
  if (capture.IsUnderWay(now))
    return RefusedAnswer("another urnic capture is using this port");
  capture.Start(std::move(config), now + kPatience);
  return "ok\n";
}

std::string CommentOf(const CapturedFrame& frame) {
  std::string comment = frame.verdict == nullptr ? "" : frame.verdict;
  if (frame.qpn != 0)
    absl::StrAppend(&comment, comment.empty() ? "" : ", ", "qp ", frame.qpn);
  return comment;
}

enum class Left { kNothing, kMore, kNoCapture };

// Appends some of the frames.
Left TakeSome(OpenNic& nic, std::string& out) {
  Engine::ControlScope scope(nic.engine());
  Capture& capture = nic.engine().capture();
  const Time now = nic.engine().Now();
  if (!capture.IsUnderWay(now)) return Left::kNoCapture;
  capture.Extend(now + kPatience);
  const size_t enough = out.size() + kStepBytes;
  Left left = Left::kNothing;
  capture.Take([&](const CapturedFrame& frame) {
    if (out.size() >= enough) {
      left = Left::kMore;
      return false;
    }
    pcapng::AppendPacket({.at_ns = WallTimeOf(frame.at),
                          .outbound = frame.outbound,
                          .frame_bytes = frame.frame_bytes,
                          .bytes = frame.bytes,
                          .comment = CommentOf(frame)},
                         out);
    return true;
  });
  return left;
}

std::string Read(OpenNic& nic) {
  std::string frames;
  Left left = Left::kMore;
  while (left == Left::kMore && frames.size() < kAnswerBytes)
    left = TakeSome(nic, frames);
  if (left == Left::kNoCapture)
    return RefusedAnswer("no capture is under way; one that nobody reads ends");
  return absl::StrCat("ok\n", frames);
}

std::string Stop(OpenNic& nic) {
  Engine::ControlScope scope(nic.engine());
  const uint64_t lost = nic.engine().capture().lost();
  nic.engine().capture().Stop();
  return absl::StrCat("ok\n", lost, "\n");
}

}  // namespace

std::string AnswerCapture(OpenNic& nic, const std::string& request) {
  std::vector<std::string> words = absl::StrSplit(request, ' ');
  const std::string verb = words.front();
  words.erase(words.begin());
  if (verb == "start") return Start(nic, words);
  if (verb == "read" && words.empty()) return Read(nic);
  if (verb == "stop" && words.empty()) return Stop(nic);
  return RefusedAnswer("unknown capture request; use start, read or stop");
}

}  // namespace urnic::control
