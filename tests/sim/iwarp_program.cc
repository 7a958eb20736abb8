#include "tests/sim/iwarp_program.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

namespace urnic::sim {
namespace {

using State = IwarpGrant::State;

constexpr uint32_t kGrantAccess = mem::kLocalWrite | mem::kRemoteWrite |
                                  mem::kRemoteRead | mem::kRemoteAtomic;
// Between the parts of a list: bytes that nobody may write.
constexpr uint32_t kGap = 16;

}  // namespace

IwarpProgram::IwarpProgram(Random& random, IwarpEnd& self, IwarpFlow& requests,
                           IwarpFlow& served)
    : random_(random), self_(self), requests_(requests), served_(served) {
  mem::MrTable& mrs = self_.memory().host().mrs();
  for (size_t i = 0; i < grants_.size(); ++i) {
    grants_[i].window = i != 0;
    if (i != 0) grants_[i].key = mrs.AllocateWindow(IwarpMemory::kPd, true);
  }
}

IwarpProgram::~IwarpProgram() {
  testing::FakeHost& host = self_.memory().host();
  for (const IwarpGrant& grant : grants_) {
    if (grant.window) {
      (void)host.mrs().FreeWindow(grant.key);
    } else if (grant.key != 0) {
      host.Deregister(grant.key);
    }
  }
}

// --- Receives ----------------------------------------------------------------

void IwarpProgram::PostReceives() {
  while (posts_receives_ &&
         self_.posted_receives() - self_.first_receive() < 12 &&
         self_.memory().has_slot()) {
    IwarpReceive receive;
    receive.slot = self_.memory().TakeSlot(random_);
    const bool small = random_.OneIn(4);
    uint64_t at = self_.memory().at(receive.slot);
    const uint64_t parts = random_.Below(IwarpEnd::kMaxSge + 1);
    for (uint64_t i = 0; i < parts; ++i) {
      const auto bytes =
          static_cast<uint32_t>(random_.Below(small ? 100 : 4000));
      receive.sges.push_back({at, bytes, self_.memory().local_key()});
      receive.bytes += bytes;
      at += bytes + kGap;
    }
    if (!self_.PostReceive(receive)) {
      self_.memory().ReleaseSlot(receive.slot);
      return;
    }
  }
}

const IwarpReceive* IwarpProgram::NextReceive() const {
  const IwarpEnd& peer = peer_->self_;
  const uint64_t number = requests_.next_receive();
  // A peer in ERR has flushed its receives.
  if (number < peer.first_receive()) return nullptr;
  return number < peer.posted_receives() ? &peer.receive(number) : nullptr;
}

// --- Requests ----------------------------------------------------------------

void IwarpProgram::Act() {
  PostReceives();
  FollowGrants();
  for (uint64_t n = random_.Below(5); n != 0; --n) PostRandom();
  if (random_.OneIn(2)) ChangeMemory();
}

void IwarpProgram::Greet() {
  IwarpRequest request = New(URNIC_WR_RDMA_WRITE, 8);
  if (!GiveMemory(request)) return;
  const Target target = ChooseTarget(8, false);
  request.wr.rkey = target.key;
  request.wr.remote_addr = target.address;
  request.grant = target.grant;
  Post(std::move(request));
}

IwarpRequest IwarpProgram::New(uint8_t opcode, uint32_t bytes) {
  IwarpRequest request;
  request.wr.opcode = opcode;
  request.wr.flags = 0;
  if (!random_.OneIn(3)) request.wr.flags |= URNIC_SEND_SIGNALED;
  if (random_.OneIn(6)) request.wr.flags |= URNIC_SEND_FENCE;
  if (request.kind().takes_receive() && random_.OneIn(4)) {
    request.wr.flags |= URNIC_SEND_SOLICITED;
  }
  request.wr.imm_or_key = static_cast<uint32_t>(random_.Next());
  request.bytes = bytes;
  return request;
}

// Memory for its data or its answer. False: none is free.
bool IwarpProgram::GiveMemory(IwarpRequest& request) {
  IwarpMemory& memory = self_.memory();
  const bool sends = request.kind().gathers();
  if (sends && request.bytes <= IwarpEnd::kMaxInline && random_.OneIn(3)) {
    for (uint32_t i = 0; i < request.bytes; ++i) {
      request.data.push_back(random_.Byte());
    }
    // An empty list in the ring is not inline.
    request.wr.inline_data = request.data;
    return true;
  }
  if (!memory.has_slot()) return false;
  const size_t slot = memory.TakeSlot(random_);
  request.slots.push_back(slot);
  size_t at = slot;
  uint32_t left = request.bytes;
  const uint64_t parts = 1 + random_.Below(IwarpEnd::kMaxSge);
  for (uint64_t i = 1; i <= parts; ++i) {
    const auto bytes =
        i == parts ? left : static_cast<uint32_t>(random_.Below(left + 1));
    request.wr.sges.push_back({memory.at(at), bytes, memory.local_key()});
    for (uint8_t& byte : memory.host().bytes(at, sends ? bytes : 0)) {
      request.data.push_back(byte = random_.Byte());
    }
    left -= bytes;
    at += bytes + kGap;
  }
  return true;
}

void IwarpProgram::Post(IwarpRequest request) {
  const std::vector<size_t> slots = request.slots;
  if (requests_.Post(std::move(request))) return;
  for (const size_t slot : slots) self_.memory().ReleaseSlot(slot);
}

std::optional<uint8_t> IwarpProgram::ChooseOpcode() {
  static constexpr uint8_t kOpcodes[] = {
      URNIC_WR_RDMA_WRITE,
      URNIC_WR_RDMA_WRITE,
      URNIC_WR_SEND,
      URNIC_WR_SEND,
      URNIC_WR_RDMA_READ,
      URNIC_WR_RDMA_READ,
      URNIC_WR_SEND_WITH_IMM,
      URNIC_WR_RDMA_WRITE_WITH_IMM,
      URNIC_WR_SEND_WITH_INV,
      URNIC_WR_ATOMIC_CMP_AND_SWP,
      URNIC_WR_ATOMIC_FETCH_AND_ADD,
  };
  const uint8_t opcode = kOpcodes[random_.Below(std::size(kOpcodes))];
  const RequestKind& kind = *FindRequest(opcode);
  if (kind.answered() && max_answered_ == 0) return {};
  if (kind.takes_receive() && NextReceive() == nullptr) return {};
  if (!kind.with_imm) return opcode;
  const auto needed = kind.family == RequestFamily::kSend
                          ? rdmap::ImmediateData::kMerged
                          : rdmap::ImmediateData::kRfc7306;
  if (immediate_ < needed) return {};
  return opcode;
}

uint32_t IwarpProgram::ChooseLength(uint8_t opcode) {
  const RequestKind& kind = *FindRequest(opcode);
  if (kind.fixed_length > 0) return static_cast<uint32_t>(kind.fixed_length);
  static constexpr uint64_t kLimits[] = {1, 100, 100, 2000, 15000};
  auto bytes = static_cast<uint32_t>(
      random_.Below(kLimits[random_.Below(std::size(kLimits))]));
  if (kind.family == RequestFamily::kSend) {
    bytes = std::min(bytes, NextReceive()->bytes);
  }
  return bytes;
}

void IwarpProgram::PostRandom() {
  const auto opcode = ChooseOpcode();
  if (!opcode) return;
  IwarpRequest request = New(*opcode, ChooseLength(*opcode));
  if (!SetOperands(request) || !GiveMemory(request)) return;
  if (request.wr.opcode == URNIC_WR_SEND_WITH_INV) {
    IwarpGrant& grant = peer_->grants_[static_cast<size_t>(request.grant)];
    const size_t number = requests_.posted();
    Post(std::move(request));
    if (requests_.posted() == number) return;
    grant.state = State::kClosing;
    grant.by_peer = true;
    grant.request = number;
    return;
  }
  Post(std::move(request));
}

bool IwarpProgram::SetOperands(IwarpRequest& request) {
  testing::SendWr& wr = request.wr;
  if (wr.opcode == URNIC_WR_SEND_WITH_INV) return CloseKeyOfPeer(request);
  if (request.kind().family == RequestFamily::kSend) return true;
  const bool word = request.kind().family == RequestFamily::kAtomic;
  const Target target = ChooseTarget(request.bytes, word);
  wr.rkey = target.key;
  wr.remote_addr = target.address;
  request.grant = target.grant;
  wr.compare_add = random_.Next();
  wr.swap = random_.Next();
  // Half of the exchanges find what they expect, unless another is under way.
  if (word && random_.OneIn(2)) {
    IwarpMemory& memory = peer_->self_.memory();
    std::memcpy(&wr.compare_add,
                memory.host().bytes(memory.OffsetOf(target.address), 8).data(),
                8);
  }
  return true;
}

IwarpProgram::Target IwarpProgram::ChooseTarget(uint32_t bytes, bool word) {
  IwarpMemory& memory = peer_->self_.memory();
  const size_t from = word ? 0 : IwarpMemory::kWordBytes;
  const size_t end = word ? IwarpMemory::kWordBytes : IwarpMemory::kSharedBytes;
  const size_t offset = word ? random_.Below(end / 8) * 8
                             : from + random_.Below(end - from - bytes + 1);
  const size_t number = random_.Below(peer_->grants_.size());
  const IwarpGrant& grant = peer_->grants_[number];
  if (!word && grant.state == State::kOpen && bytes <= grant.bytes &&
      random_.OneIn(2)) {
    return {.key = grant.key,
            .address = memory.at(grant.offset +
                                 random_.Below(grant.bytes - bytes + 1)),
            .grant = static_cast<int>(number)};
  }
  return {.key = memory.shared_key(), .address = memory.at(offset)};
}

// --- Keys --------------------------------------------------------------------

// A fence: the answers of reads through the key come first.
bool IwarpProgram::CloseKeyOfPeer(IwarpRequest& request) {
  for (size_t i = 0; i < peer_->grants_.size(); ++i) {
    const IwarpGrant& grant = peer_->grants_[i];
    if (grant.state != State::kOpen || !random_.OneIn(3)) continue;
    request.wr.imm_or_key = grant.key;
    request.wr.flags |= URNIC_SEND_FENCE;
    request.grant = static_cast<int>(i);
    return true;
  }
  return false;
}

void IwarpProgram::FollowGrants() {
  for (size_t i = 0; i < grants_.size(); ++i) {
    IwarpGrant& grant = grants_[i];
    const bool over = grant.by_peer ? served_.was_received(grant.request)
                                    : requests_.has_completed(grant.request);
    if (grant.state == State::kOpening && over) grant.state = State::kOpen;
    if (grant.state == State::kClosing && over) grant.state = State::kShut;
    if (!random_.OneIn(4)) continue;
    if (grant.state == State::kShut) OpenGrant(grant);
    if (grant.state == State::kOpen) CloseGrant(grant, i);
  }
}

void IwarpProgram::OpenGrant(IwarpGrant& grant) {
  testing::FakeHost& host = self_.memory().host();
  constexpr size_t kFirst = IwarpMemory::kWordBytes;
  grant.bytes = static_cast<uint32_t>(1 + random_.Below(8000));
  grant.offset =
      kFirst + random_.Below(IwarpMemory::kSharedBytes - kFirst - grant.bytes);
  grant.by_peer = false;
  if (!grant.window) {
    if (grant.key != 0) host.Deregister(grant.key);
    grant.key = host.Register(IwarpMemory::kPd, grant.offset, grant.bytes,
                              kGrantAccess | mem::kRemoteInvalidate);
    grant.state = State::kOpen;
    return;
  }
  IwarpRequest request = New(URNIC_WR_BIND_MW, 0);
  request.wr.rkey = grant.key;
  grant.key = (grant.key & ~0xffu) | random_.Byte();
  request.wr.imm_or_key = grant.key;
  request.wr.remote_addr = self_.memory().at(grant.offset);
  request.wr.xrc_srqn = self_.memory().shared_key();
  request.wr.compare_add = grant.bytes;
  request.wr.swap = kGrantAccess & ~mem::kLocalWrite;
  grant.request = requests_.posted();
  Post(std::move(request));
  if (requests_.posted() != grant.request) grant.state = State::kOpening;
}

void IwarpProgram::CloseGrant(IwarpGrant& grant, size_t number) {
  if (!random_.OneIn(4) || served_.uses(static_cast<int>(number))) return;
  IwarpRequest request = New(URNIC_WR_LOCAL_INV, 0);
  request.wr.imm_or_key = grant.key;
  const size_t posted = requests_.posted();
  Post(std::move(request));
  if (requests_.posted() == posted) return;
  grant.state = State::kClosing;
  grant.by_peer = false;
  grant.request = posted;
}

// --- Memory and trouble ------------------------------------------------------

void IwarpProgram::ChangeMemory() {
  IwarpMemory& memory = self_.memory();
  const size_t bytes = 1 + random_.Below(4000);
  const size_t room =
      IwarpMemory::kSharedBytes - IwarpMemory::kWordBytes - bytes;
  std::vector<uint8_t> fresh(bytes);
  for (uint8_t& byte : fresh) byte = random_.Byte();
  memory.Store(IwarpMemory::kWordBytes + random_.Below(room), fresh);
}

bool IwarpProgram::MakeTrouble(IwarpTrouble trouble) {
  using enum IwarpTrouble;
  IwarpMemory& theirs = peer_->self_.memory();
  const bool send = trouble == kTooLong || trouble == kNoReceive;
  if (in_trouble_ || trouble == kNone) return false;
  if (trouble == kBrokenMemory) {
    constexpr size_t kPage = 4096;
    requests_.AllowFailure();
    served_.AllowFailure();
    theirs.host().Break(
        random_.Below(IwarpMemory::kSharedBytes / kPage) * kPage, kPage,
        random_.OneIn(2) ? testing::FakeHost::Damage::kReadOnly
                         : testing::FakeHost::Damage::kUnmapped);
    return in_trouble_ = true;
  }
  static constexpr uint8_t kTagged[] = {URNIC_WR_RDMA_WRITE, URNIC_WR_RDMA_READ,
                                        URNIC_WR_ATOMIC_FETCH_AND_ADD};
  uint8_t opcode = send ? uint8_t{URNIC_WR_SEND} : kTagged[random_.Below(3)];
  if (trouble == kUnaligned) opcode = URNIC_WR_ATOMIC_FETCH_AND_ADD;
  if (trouble == kUnsupported) opcode = URNIC_WR_ATOMIC_WRITE;
  if (trouble == kNoRights) opcode = URNIC_WR_RDMA_WRITE;
  if (FindRequest(opcode)->answered() && max_answered_ == 0) return false;
  const IwarpReceive* receive = NextReceive();
  if (trouble == kTooLong && receive == nullptr) return false;
  // Those who post none any more run out of them some time.
  if (trouble == kNoReceive) peer_->posts_receives_ = false;
  if (trouble == kNoReceive && receive != nullptr) return false;

  const bool fixed = FindRequest(opcode)->fixed_length > 0;
  auto bytes = static_cast<uint32_t>(fixed ? 8 : 1 + random_.Below(6000));
  if (trouble == kTooLong) {
    if (receive->bytes >= 15000) return false;
    bytes = receive->bytes + 1 + static_cast<uint32_t>(random_.Below(400));
  }
  IwarpRequest request = New(opcode, bytes);
  request.trouble = true;
  if (trouble == kTooLong) request.placeable = receive->bytes;
  if (!SetOperands(request) || !GiveMemory(request)) return false;
  request.grant = -1;
  request.wr.rkey = theirs.shared_key();
  switch (trouble) {
    case kBadKey:
      request.wr.rkey ^= 0x55;
      break;
    case kBeyondRegion:
      request.wr.remote_addr =
          theirs.at(IwarpMemory::kSharedBytes) - (fixed ? 0 : bytes - 1);
      request.placeable = fixed ? 0 : bytes - 1;
      break;
    case kNoRights:
      request.wr.rkey = theirs.read_key();
      break;
    case kUnaligned:
      request.wr.remote_addr += 1 + random_.Below(7);
      break;
    case kBadLocalKey:
      if (request.wr.sges.empty()) return false;
      request.wr.sges.front().lkey ^= 0x55;
      request.wr.sges.front().length += request.wr.sges.front().length == 0;
      break;
    default:
      break;
  }
  served_.AllowFailure();
  Post(std::move(request));
  return in_trouble_ = true;
}

}  // namespace urnic::sim
