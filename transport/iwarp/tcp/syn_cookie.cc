#include "transport/iwarp/tcp/syn_cookie.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace urnic::tcp {
namespace {

// The MSS of common links, ascending. The largest one that the peer's MSS
// allows is used, or the first one, because no path is smaller.
constexpr uint16_t kMss[] = {64,   160,  216,  256,  384,  472,  536,  984,
                             1220, 1380, 1440, 1460, 4036, 4056, 8940, 8960};
static_assert(std::size(kMss) == 16);

constexpr uint32_t kPeriodMask = 15;
constexpr uint32_t kPeriodShift = 28;
constexpr uint32_t kMssMask = 15;
constexpr uint32_t kMssShift = 24;
constexpr uint32_t kNameMask = 0x00ff0000;
constexpr uint32_t kProofMask = 0x0000ffff;

constexpr uint32_t kOptionMask = 0x7f;
constexpr uint32_t kShiftMask = 0x0f;
constexpr uint32_t kNoShift = 15;
constexpr uint32_t kSack = 0x10;
constexpr uint32_t kEcn = 0x20;
constexpr uint32_t kUrnic = 0x40;
// Marks in the hash that there are no timestamps, and so no options.
constexpr uint32_t kNoOptions = 0x80;

uint32_t MssIndex(uint16_t mss) {
  const auto* const above =
      std::upper_bound(std::begin(kMss), std::end(kMss), mss);
  return above == kMss ? 0 : static_cast<uint32_t>(above - kMss - 1);
}

uint32_t OptionBits(const Agreed& agreed) {
  if (!agreed.timestamps) return kNoOptions;
  const uint32_t shift =
      agreed.window_shift.has_value()
          ? std::min<uint32_t>(*agreed.window_shift, wire::kTcpMaxWindowShift)
          : kNoShift;
  return shift | (agreed.sack ? kSack : 0) | (agreed.ecn ? kEcn : 0) |
         (agreed.urnic ? kUrnic : 0);
}

Agreed Decode(uint32_t mss_index, uint32_t options) {
  Agreed agreed;
  agreed.mss = kMss[mss_index];
  if (options == kNoOptions) return agreed;
  agreed.timestamps = true;
  agreed.sack = (options & kSack) != 0;
  agreed.ecn = (options & kEcn) != 0;
  agreed.urnic = (options & kUrnic) != 0;
  const uint32_t shift = options & kShiftMask;
  if (shift != kNoShift) agreed.window_shift = static_cast<uint8_t>(shift);
  return agreed;
}

uint64_t PeriodOf(Time now) {
  return static_cast<uint64_t>(now.ns() / SynCookies::kPeriod.ns());
}

}  // namespace

uint32_t SynCookies::Encode(const FourTuple& tuple, SeqNum irs,
                            const Content& content) const {
  const std::array<uint64_t, 5> ends = tuple.words();
  std::array<uint64_t, 7> words = {ends[0],
                                   ends[1],
                                   ends[2],
                                   ends[3],
                                   ends[4],
                                   content.period,
                                   content.mss_index << 8 | content.options};
  const auto name = static_cast<uint32_t>(SipHash(key_, words));
  words[6] |= uint64_t{irs.value()} << 32 | 1u << 31;
  const auto proof = static_cast<uint32_t>(SipHash(key_, words));
  return static_cast<uint32_t>(content.period & kPeriodMask) << kPeriodShift |
         content.mss_index << kMssShift | (name & kNameMask) |
         (proof & kProofMask);
}

//= RFC 4987 3.6, RFC 4987 A: a SYN cookie has a keyed hash, a coarse time and
//= the MSS; a timestamp carries the other options
SynCookies::Cookie SynCookies::Make(const FourTuple& tuple, SeqNum irs,
                                    const Agreed& wanted, uint32_t timestamp,
                                    Time now) {
  last_period_ = PeriodOf(now);
  made_ = true;
  const Content content = {last_period_, MssIndex(wanted.mss),
                           OptionBits(wanted)};
  const uint32_t options = content.options;
  Cookie cookie;
  cookie.isn = SeqNum(Encode(tuple, irs, content));
  cookie.agreed = Decode(content.mss_index, options);
  // Not later than the clock: what the connection sends next must not look
  // older to the peer.
  cookie.timestamp = (timestamp & ~kOptionMask) | (options & kOptionMask);
  if (static_cast<int32_t>(cookie.timestamp - timestamp) > 0) {
    cookie.timestamp -= kOptionMask + 1;
  }
  return cookie;
}

std::optional<SynCookies::Content> SynCookies::ContentOf(
    const wire::TcpSegment& ack, Time now) const {
  const uint64_t period = PeriodOf(now);
  if (!made_ || period - last_period_ > 1) return std::nullopt;
  const uint32_t cookie = ack.ack.value() - 1;
  const uint64_t age = (period - (cookie >> kPeriodShift)) & kPeriodMask;
  if (age > 1) return std::nullopt;
  Content content;
  content.period = period - age;
  content.mss_index = cookie >> kMssShift & kMssMask;
  content.options = ack.options.timestamps.has_value()
                        ? ack.options.timestamps->echo & kOptionMask
                        : kNoOptions;
  return content;
}

std::optional<Agreed> SynCookies::Check(const FourTuple& tuple,
                                        const wire::TcpSegment& ack,
                                        Time now) const {
  const std::optional<Content> content = ContentOf(ack, now);
  if (!content) return std::nullopt;
  const SeqNum irs = ack.seq + UINT32_MAX;
  if (Encode(tuple, irs, *content) + 1 != ack.ack.value()) return std::nullopt;
  return Decode(content->mss_index, content->options);
}

bool SynCookies::MayFollow(const FourTuple& tuple, const wire::TcpSegment& ack,
                           Time now) const {
  const std::optional<Content> content = ContentOf(ack, now);
  if (!content) return false;
  const uint32_t cookie = ack.ack.value() - 1;
  return ((Encode(tuple, SeqNum(), *content) ^ cookie) & ~kProofMask) == 0;
}

}  // namespace urnic::tcp
