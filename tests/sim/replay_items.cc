#include "tests/sim/replay_items.h"

#include <iterator>

#include "transport/work/image_fields.h"

namespace urnic::sim {
namespace {

// Of a ring.
constexpr uint32_t kReceivesMost = 1u << 16;

bool IsStatus(uint8_t status) {
  return status < std::size(kCompletionStatusNames) &&
         kCompletionStatusNames[status] != nullptr;
}

}  // namespace

bool IsTargetState(uint8_t state) {
  return state <= static_cast<uint8_t>(QpState::kErr) &&
         state != static_cast<uint8_t>(QpState::kSqe);
}

bool IsValid(const InputItem& item) {
  switch (KindOfItem(item)) {
    case WorkInput::kKey: {
      const auto region = item.As<mem::MemoryRegion>();
      return region.key != 0 && region.kind <= mem::MemKind::kWindow2;
    }
    case WorkInput::kRequest:
      return item.body.size() >= sizeof(urnic_sq_wqe);
    case WorkInput::kReceive:
      return item.body.size() >= sizeof(urnic_rq_wqe) &&
             item.large < kReceivesMost;
    case WorkInput::kVerdict:
      return item.small < kRxVerdictCount;
    case WorkInput::kSendDone:
      return IsStatus(item.As<SendCompletion>().status);
    case WorkInput::kReceiveDone:
      return IsStatus(item.As<RecvCompletion>().status);
    case WorkInput::kResult:
      return item.As<ResultNow>().state <= QpState::kErr;
    default:
      return item.kind >= static_cast<uint8_t>(WorkInput::kImage);
  }
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

bool Equal(const SendCompletion& a, const SendCompletion& b) {
  return a.wr_id == b.wr_id && a.status == b.status && a.opcode == b.opcode &&
         a.byte_len == b.byte_len;
}
bool Equal(const RecvCompletion& a, const RecvCompletion& b) {
  return a.wr_id == b.wr_id && a.status == b.status && a.opcode == b.opcode &&
         a.byte_len == b.byte_len && a.imm_or_key == b.imm_or_key;
}

}  // namespace urnic::sim
