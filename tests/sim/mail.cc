#include "tests/sim/mail.h"

#include <algorithm>
#include <cstring>

#include "datapath/engine/engine.h"
#include "datapath/engine/network.h"
#include "datapath/engine/qp_table.h"

namespace urnic::sim {

namespace {

constexpr uint32_t kMailQkey = 0x1234;
constexpr uint64_t kMailIova = 0x80000000;
constexpr uint32_t kMailCqEntries = 64;

}  // namespace

Mail::Mail(World& world, const std::vector<EngineHost*>& hosts, bool whole,
           uint64_t seed)
    : whole_(whole) {
  Random random(seed);
  for (EngineHost* host : hosts) {
    boxes_.push_back(
        std::make_unique<Mailbox>(world, *this, *host, boxes(), random.Next()));
  }
}

void Mail::Start() {
  for (const auto& box : boxes_) box->Start();
}

bool Mail::over() const {
  return std::all_of(boxes_.begin(), boxes_.end(),
                     [](const auto& box) { return box->done(); }) &&
         (!whole_ || received() == expected);
}

uint64_t Mail::received() const {
  uint64_t count = 0;
  for (const auto& box : boxes_) count += box->received();
  return count;
}

Mailbox::Mailbox(World& world, Mail& mail, EngineHost& host, uint32_t number,
                 uint64_t seed)
    : world_(world),
      mail_(mail),
      host_(host),
      number_(number),
      random_(seed),
      rings_(kSlots, 1, 0, kSlots, 1),
      ring_(kMailCqEntries),
      cq_(ring_.data(), &indices_, kMailCqEntries, this, nullptr),
      memory_(2 * kSlots * kSlotBytes) {
  host_.WithToken([&] {
    key_ = host_.network().mrs().Register(
        EngineHost::kPd, reinterpret_cast<uint64_t>(memory_.data()), kMailIova,
        memory_.size(), mem::kLocalWrite);
    EngineQpConfig config;
    config.service = QpService::kUd;
    config.limits = {
        .pd = EngineHost::kPd, .max_sge_send = 1, .max_sge_recv = 1};
    config.sq = rings_.sq().view();
    config.rq = rings_.rq().view();
    config.send_cq = config.recv_cq = &cq_;
    auto qp = host_.engine().qps().Create(config);
    Require(qp.ok(), "no queue pair");
    qp_ = *qp;
    QpConfig ready;
    ready.qkey = kMailQkey;
    for (auto state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      host_.engine().qps().Modify(*qp_, state, ready);
    }
    cq_.ArmFor(CompletionQueue::kArmedAny);
  });
  for (uint64_t slot = 0; slot < kSlots; ++slot) PostReceive(slot);
}

Mailbox::~Mailbox() {
  host_.WithToken([&] {
    host_.engine().qps().Destroy(qp_);
    host_.engine().ForgetCq(cq_);
  });
}

void Mailbox::Start() {
  world_.After(
      Duration::Microseconds(1 + static_cast<int64_t>(random_.Below(5000))),
      [this] { Write(); });
}

void Mailbox::PostReceive(uint64_t slot) {
  Require(rings_.PostRecv(
              {.wr_id = slot,
               .sges = {{kMailIova + slot * kSlotBytes, kSlotBytes, key_}}}),
          "the receive ring is full");
}

void Mailbox::Write() {
  if (sent_.size() == kLetters) return;
  const auto to = static_cast<uint32_t>(random_.Below(mail_.boxes()));
  if (handles_.contains(to)) {
    Post(to);
    return Start();
  }
  host_.Later([this, to] {
    host_.Ask(
        mail_.box(to).host().gid(), Duration::Seconds(1),
        [this, to](net::PathStatus status, const net::Path& path) {
          if (status == net::PathStatus::kFound && !handles_.contains(to)) {
            handles_[to] =
                host_.network().CreateAh(path, EngineHost::kPd, world_.now());
          }
          Start();
        });
  });
}

void Mailbox::Post(uint32_t to) {
  const auto index = static_cast<uint32_t>(sent_.size());
  const Letter letter = {
      .to = to, .bytes = static_cast<uint32_t>(8 + random_.Below(900))};
  const size_t offset = (kSlots + index) * size_t{kSlotBytes};
  std::memcpy(&memory_[offset], &number_, 4);
  std::memcpy(&memory_[offset + 4], &index, 4);
  for (uint32_t i = 8; i < letter.bytes; ++i) {
    memory_[offset + i] = ByteOf(number_, index, i);
  }
  sent_.push_back(letter);
  ++mail_.expected;
  testing::SendWr wr;
  wr.wr_id = 1000 + index;
  wr.sges = {{kMailIova + offset, letter.bytes, key_}};
  wr.remote_addr = handles_[to] | uint64_t{mail_.box(to).qpn()} << 32;
  wr.rkey = kMailQkey;
  Require(rings_.PostSend(wr), "the send ring is full");
  host_.engine().Doorbell(*qp_);
}

void Mailbox::OnCompletionEvent(CompletionQueue&) {
  world_.After(Duration::Nanoseconds(300), [this] { Read(); });
}

void Mailbox::Read() {
  while (indices_.consumer != indices_.producer) {
    const urnic_cqe cqe = ring_[indices_.consumer++ % kMailCqEntries];
    Require(cqe.status == URNIC_WC_SUCCESS, "a datagram has failed");
    if (cqe.opcode >= URNIC_WC_RECV) {
      OnReceived(cqe);
      PostReceive(cqe.wr_id);
    } else {
      Require(cqe.wr_id == 1000 + completed_++,
              "datagrams complete out of order");
    }
  }
  host_.WithToken([&] { cq_.ArmFor(CompletionQueue::kArmedAny); });
}

void Mailbox::OnReceived(const urnic_cqe& cqe) {
  const uint8_t* data = &memory_[cqe.wr_id * kSlotBytes + kHeaderBytes];
  uint32_t from = 0;
  uint32_t index = 0;
  std::memcpy(&from, data, 4);
  std::memcpy(&index, data + 4, 4);
  Require(from < mail_.boxes() && index < mail_.box(from).sent_.size(),
          "a datagram that nobody has sent");
  Mailbox& sender = mail_.box(from);
  Letter& letter = sender.sent_[index];
  Require(letter.to == number_ && cqe.src_qp == sender.qpn() &&
              cqe.byte_len == letter.bytes + kHeaderBytes,
          "a datagram for somebody else, or a part of one");
  for (uint32_t i = 8; i < letter.bytes; ++i) {
    Require(data[i] == ByteOf(from, index, i), "a datagram with other bytes");
  }
  Require(++letter.times == 1 || !mail_.whole(), "a datagram comes twice");
  ++received_;
}

}  // namespace urnic::sim
