#include "ras/inputs/input_log.h"

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "transport/base/check.h"

namespace urnic {
namespace {

constexpr char kMagic[8] = {'u', 'R', 'N', 'I', 'C', 'i', 'n', 'p'};
constexpr uint32_t kVersion = 1;

struct LogHeader {
  char magic[8];
  uint32_t version;
  uint32_t layout;
  uint32_t qpn;
  uint32_t lost;  // 1: items at the end of the newer segment
};

struct ItemHeader {
  uint32_t body_bytes;
  uint8_t kind;
  uint8_t small;
  uint16_t medium;
  uint32_t large;
  uint32_t reserved;
};

constexpr size_t Padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// Takes a struct from the beginning of `bytes`; false: they are too few.
template <typename T>
bool Take(std::span<const uint8_t>& bytes, T& out) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&out, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return true;
}

absl::Status Damaged(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the log of inputs is damaged: ", what));
}

bool TakeItem(std::span<const uint8_t>& bytes, InputItem& out) {
  ItemHeader header;
  if (!Take(bytes, header) || bytes.size() < Padded(header.body_bytes))
    return false;
  out = {.kind = header.kind,
         .small = header.small,
         .medium = header.medium,
         .large = header.large,
         .body = bytes.first(header.body_bytes)};
  bytes = bytes.subspan(Padded(header.body_bytes));
  return true;
}

}  // namespace

InputLog::InputLog(uint32_t qpn, size_t bytes)
    : qpn_(qpn), half_bytes_(bytes / 2 & ~size_t{7}) {
  URNIC_CHECK(bytes >= kBytesMin && bytes <= kBytesMax);
  for (Segment* segment : {&older_, &newer_})
    segment->bytes = std::make_unique_for_overwrite<uint8_t[]>(half_bytes_);
}

void InputLog::BeginSegment(uint32_t layout, bool keeps_last) {
  layout_ = layout;
  if (keeps_last) std::swap(older_, newer_);
  newer_.used = 0;
  lost_ = 0;
  enough_ = half_bytes_ / 4 * 3;
  wants_segment_ = false;
}

void InputLog::EndBeginning() {
  if (newer_.used > half_bytes_ / 2) enough_ = half_bytes_;
  wants_segment_ = lost_ != 0;
}

void InputLog::Add(const InputItem& item, std::span<const uint8_t> second) {
  const size_t body = item.body.size() + second.size();
  const size_t bytes = sizeof(ItemHeader) + Padded(body);
  if (lost_ != 0 || bytes > half_bytes_ - newer_.used) {
    ++lost_;
    ++lost_ever_;
    wants_segment_ = true;
    return;
  }
  uint8_t* to = &newer_.bytes[newer_.used];
  const ItemHeader header = {.body_bytes = static_cast<uint32_t>(body),
                             .kind = item.kind,
                             .small = item.small,
                             .medium = item.medium,
                             .large = item.large,
                             .reserved = 0};
  std::memcpy(to, &header, sizeof(header));
  to += sizeof(header);
  for (const auto part : {item.body, second}) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  std::memset(to, 0, Padded(body) - body);
  newer_.used += bytes;
  // The rest is for what happens until a segment can begin.
  if (newer_.used > enough_) wants_segment_ = true;
}

void InputLog::AppendTo(std::string& out) const {
  LogHeader header = {.magic = {},
                      .version = kVersion,
                      .layout = layout_,
                      .qpn = qpn_,
                      .lost = lost_ != 0 ? 1u : 0u};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  out.append(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const Segment* segment : {&older_, &newer_}) {
    const uint64_t used = segment->used;
    out.append(reinterpret_cast<const char*>(&used), sizeof(used));
    out.append(reinterpret_cast<const char*>(segment->bytes.get()), used);
  }
}

absl::StatusOr<ParsedInputLog> TakeInputLog(std::span<const uint8_t>& bytes) {
  LogHeader header;
  if (!Take(bytes, header) ||
      std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return Damaged("it does not begin as one");
  }
  if (header.version != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("the log of inputs has version ", header.version,
                     ", and this program reads ", kVersion));
  }
  ParsedInputLog log;
  log.qpn = header.qpn;
  log.layout = header.layout;
  log.lost = header.lost != 0;
  for (int i = 0; i < 2; ++i) {
    uint64_t used = 0;
    if (!Take(bytes, used) || used > bytes.size())
      return Damaged("a segment is cut");
    std::span<const uint8_t> items = bytes.first(used);
    bytes = bytes.subspan(used);
    std::vector<InputItem> segment;
    while (!items.empty()) {
      if (!TakeItem(items, segment.emplace_back()))
        return Damaged("an item is cut");
    }
    if (!segment.empty()) log.segments.push_back(std::move(segment));
  }
  return log;
}

}  // namespace urnic
