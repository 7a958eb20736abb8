#include "tests/sim/replay_items.h"

#include <bit>
#include <iterator>
#include <vector>

#include "transport/wire/pretty.h"
#include "transport/work/image_fields.h"

namespace urnic::sim {

using rc::Input;

bool IsValid(const InputItem& item) {
  const auto is_status = [](uint8_t status) {
    return status < std::size(kCompletionStatusNames) &&
           kCompletionStatusNames[status] != nullptr;
  };
  switch (KindOfItem(item)) {
    case Input::kPacket:
      return item.large <= wire::kRoceMaxBytes &&
             item.body.size() <= item.large;
    case Input::kRequest:
      return item.body.size() >= sizeof(urnic_sq_wqe);
    case Input::kReceive:
      return item.body.size() >= sizeof(urnic_rq_wqe);
    case Input::kModify:
      return item.small <= static_cast<uint8_t>(QpState::kErr) &&
             item.small != static_cast<uint8_t>(QpState::kSqe);
    case Input::kReplaySlots:
      return item.large == 0 || (item.large <= rc::kReplaySlots &&
                                 std::has_single_bit(item.large));
    case Input::kVerdict:
      return item.small < kRxVerdictCount;
    case Input::kSent:
      return item.As<rc::SentNow>().header_bytes <= kMaxHeaderBytes;
    case Input::kSendDone:
      return is_status(item.As<SendCompletion>().status);
    case Input::kReceiveDone:
      return is_status(item.As<RecvCompletion>().status);
    case Input::kResult:
      return item.As<rc::ResultNow>().state <= QpState::kErr;
    default:
      return item.kind >= static_cast<uint8_t>(Input::kImage) &&
             item.kind <= static_cast<uint8_t>(Input::kResult);
  }
}

std::string TextOf(const rc::SentNow& sent) {
  std::vector<uint8_t> bytes(sent.headers, sent.headers + sent.header_bytes);
  bytes.resize(bytes.size() + sent.payload_bytes + sent.pad_bytes +
               wire::kIcrcBytes);
  wire::RocePacket packet;
  if (wire::ParseRoce(bytes.data(), static_cast<uint32_t>(bytes.size()),
                      packet) != RxVerdict::kAccept) {
    return "malformed";
  }
  return wire::Pretty(packet);
}

std::string TextOf(const SendCompletion& done) {
  return absl::StrCat("send 0x", absl::Hex(done.wr_id), " ",
                      kCompletionStatusNames[done.status]);
}
std::string TextOf(const RecvCompletion& done) {
  return absl::StrCat("receive 0x", absl::Hex(done.wr_id), " ",
                      kCompletionStatusNames[done.status], ", ", done.byte_len,
                      " bytes");
}
std::string TextOf(uint8_t verdict) {
  return verdict < kRxVerdictCount ? kRxVerdictNames[verdict] : "?";
}

bool Equal(const rc::SentNow& a, const rc::SentNow& b) {
  return a.payload_bytes == b.payload_bytes &&
         a.header_bytes == b.header_bytes && a.pad_bytes == b.pad_bytes &&
         a.from_responder == b.from_responder &&
         std::equal(a.headers, a.headers + a.header_bytes, b.headers);
}
bool Equal(const SendCompletion& a, const SendCompletion& b) {
  return a.wr_id == b.wr_id && a.status == b.status && a.opcode == b.opcode &&
         a.byte_len == b.byte_len;
}
bool Equal(const RecvCompletion& a, const RecvCompletion& b) {
  return a.wr_id == b.wr_id && a.status == b.status && a.opcode == b.opcode &&
         a.byte_len == b.byte_len && a.imm_or_key == b.imm_or_key;
}

}  // namespace urnic::sim
