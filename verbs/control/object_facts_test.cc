// The answers to `urnic show` about the objects of a loopback device.

#include "verbs/control/object_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "datapath/engine/engine.h"
#include "ras/errors/refusal.h"
#include "ras/facts/facts.h"
#include "transport/mem/mr_table.h"
#include "verbs/control/address_handle.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/mr.h"
#include "verbs/control/mw.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"
#include "verbs/control/ring_facts.h"
#include "verbs/control/srq.h"
#include "verbs/control/testing/loop_device.h"

namespace urnic::control {
namespace {

class ObjectFactsTest : public LoopDeviceTest {
 protected:
  ObjectFactsTest() {
    device_ = OpenDevice();
    pd_ = *Pd::Create(*device_);
    cq_ = *Cq::Create(*device_, {.entries = 10});
  }

  std::shared_ptr<Qp> MakeQp(QpService service) {
    QpRequest request;
    request.service = service;
    request.send_cq = request.recv_cq = cq_.get();
    request.pd = pd_.get();
    request.caps = {.max_send_wr = 4, .max_recv_wr = 4};
    return *Qp::Create(*device_, request);
  }

  // Returns the attributes that it was given.
  static QpAttributes MoveToInit(Qp& qp) {
    QpAttributes a;
    a.qp_state = QpState::kInit;
    a.port_num = 1;
    EXPECT_TRUE(
        qp.Modify(a, kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags).ok());
    return a;
  }

  // Its peer is queue pair 77 of this port.
  static void MoveToRtr(Qp& qp) {
    QpAttributes a = MoveToInit(qp);
    a.qp_state = QpState::kRtr;
    a.path_mtu = 3;
    a.dest_qp_num = 77;
    a.rq_psn = 1000;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.sgid_index = 3;
    a.ah_attr.dgid = wire::Gid::FromIpv4(0x0a090001u);
    a.max_rd_atomic = a.max_dest_rd_atomic = 1;
    ASSERT_TRUE(qp.Modify(a, kQpState | kQpAv | kQpPathMtu | kQpDestQpn |
                                 kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer)
                    .ok());
  }

  std::vector<Facts> All(ObjectKind what) {
    return Parsed([&](uint64_t number, std::string& out) {
      return device_->open_nic().Describe("urnic0", what, number, out);
    });
  }
  std::vector<Facts> Events() {
    return Parsed([&](uint64_t number, std::string& out) {
      return DescribeEvents(device_->open_nic(), number, out);
    });
  }
  std::vector<Facts> Errors() {
    return Parsed([&](uint64_t number, std::string& out) {
      return DescribeErrors(device_->open_nic(), number, out);
    });
  }

  template <typename F>
  static std::vector<Facts> Parsed(const F& describe) {
    std::string lines;
    std::optional<uint64_t> next = 0;
    while (next.has_value()) next = describe(*next, lines);
    std::vector<Facts> objects;
    for (size_t at = 0; at < lines.size();) {
      const size_t end = lines.find('\n', at);
      objects.push_back(*ParseFacts(lines.substr(at, end - at)));
      at = end + 1;
    }
    return objects;
  }
  // A fact of the only object of a kind. "-": it has no such fact.
  std::string Of(ObjectKind what, const std::string& name) {
    return Of(All(what), name);
  }
  static std::string Of(const std::vector<Facts>& objects,
                        const std::string& name) {
    EXPECT_EQ(objects.size(), 1u);
    const std::string* value =
        objects.empty() ? nullptr : objects.front().Find(name);
    return value == nullptr ? "-" : *value;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Pd> pd_;
  std::unique_ptr<Cq> cq_;
};

TEST_F(ObjectFactsTest, EveryKindHasAName) {
  EXPECT_EQ(ObjectKindOf("dev"), ObjectKind::kDev);
  EXPECT_EQ(ObjectKindOf("qp"), ObjectKind::kQp);
  EXPECT_EQ(ObjectKindOf("ah"), ObjectKind::kAh);
  EXPECT_FALSE(ObjectKindOf("QP").has_value());
  EXPECT_FALSE(ObjectKindOf("").has_value());
}

TEST_F(ObjectFactsTest, ADeviceCountsItsObjects) {
  EXPECT_EQ(Of(ObjectKind::kDev, "dev"), "urnic0");
  EXPECT_EQ(Of(ObjectKind::kDev, "pds"), "1");
  EXPECT_EQ(Of(ObjectKind::kDev, "qps"), "0");
  EXPECT_EQ(Of(ObjectKind::kDev, "pid"), std::to_string(getpid()));
  EXPECT_EQ(Of(ObjectKind::kLink, "state"), "ACTIVE");
  EXPECT_EQ(Of(ObjectKind::kLink, "rx-packets"), "0");
}

TEST_F(ObjectFactsTest, AQueuePairNamesWhatItUses) {
  const auto qp = MakeQp(QpService::kRc);
  EXPECT_EQ(Of(ObjectKind::kQp, "link"), "urnic0/1");
  EXPECT_EQ(Of(ObjectKind::kQp, "lqpn"), std::to_string(qp->qpn()));
  EXPECT_EQ(Of(ObjectKind::kQp, "type"), "RC");
  EXPECT_EQ(Of(ObjectKind::kQp, "state"), "RESET");
  EXPECT_EQ(Of(ObjectKind::kQp, "pdn"), Of(ObjectKind::kPd, "pdn"));
  EXPECT_EQ(Of(ObjectKind::kQp, "scqn"), Of(ObjectKind::kCq, "cqn"));
  EXPECT_EQ(Of(ObjectKind::kQp, "max-send-wr"),
            std::to_string(qp->caps().max_send_wr));
  // It has no peer yet.
  EXPECT_EQ(Of(ObjectKind::kQp, "rqpn"), "-");
  EXPECT_EQ(Of(ObjectKind::kQp, "dst-addr"), "-");
  EXPECT_EQ(Of(ObjectKind::kCq, "users"), "2");
}

TEST_F(ObjectFactsTest, AConnectedQueuePairNamesItsPeer) {
  const auto qp = MakeQp(QpService::kRc);
  MoveToRtr(*qp);
  EXPECT_EQ(Of(ObjectKind::kQp, "state"), "RTR");
  EXPECT_EQ(Of(ObjectKind::kQp, "rqpn"), "77");
  EXPECT_EQ(Of(ObjectKind::kQp, "dst-addr"), "10.9.0.1");
  EXPECT_EQ(Of(ObjectKind::kQp, "rq-psn"), "1000");
  EXPECT_EQ(Of(ObjectKind::kQp, "sq-psn"), "-");
  EXPECT_EQ(Of(ObjectKind::kQp, "unacked-packets"), "0");
  EXPECT_EQ(Of(ObjectKind::kQp, "sequence-naks"), "0");
  // Each layer of the packets to the peer.
  EXPECT_EQ(Of(ObjectKind::kQp, "src-mac"), Of(ObjectKind::kQp, "dst-mac"));
  EXPECT_EQ(Of(ObjectKind::kQp, "vlan"), "-");
  EXPECT_EQ(Of(ObjectKind::kQp, "hop-limit"), "64");
  EXPECT_NE(Of(ObjectKind::kQp, "udp-src-port"), "-");
  EXPECT_EQ(Of(ObjectKind::kQp, "flow-label"), "-") << "IPv6 has them";
  EXPECT_EQ(Of(ObjectKind::kQp, "path-mtu"), "1024");
  EXPECT_EQ(Of(ObjectKind::kQp, "pkey"), "0xffff");
  EXPECT_EQ(Of(ObjectKind::kQp, "retry-cnt"), "-") << "RTS sets it";
}

TEST_F(ObjectFactsTest, MemoryNamesItsKeyAndRights) {
  char memory[100];
  const auto address = reinterpret_cast<uint64_t>(memory);
  const auto mr = *Mr::Register(
      *pd_, {address, 100, address, mem::kLocalWrite | mem::kRemoteRead});
  const auto mw = *Mw::Create(*pd_, Mw::Type::k2);
  EXPECT_EQ(Of(ObjectKind::kMr, "mrlen"), "100");
  EXPECT_EQ(Of(ObjectKind::kMr, "access"), "local-write,remote-read");
  EXPECT_EQ(Of(ObjectKind::kMr, "mrn"), std::to_string(mr->key() >> 8));
  EXPECT_EQ(Of(ObjectKind::kMw, "type"), "2");
  // Both use the domain.
  EXPECT_EQ(Of(ObjectKind::kPd, "users"), "2");
}

TEST_F(ObjectFactsTest, QueuesAndHandlesOfDatagrams) {
  const auto srq = *Srq::Create(*pd_, {.max_wr = 5, .max_sge = 2});
  AddressVector to;
  to.is_global = 1;
  to.port_num = 1;
  to.sgid_index = 3;
  to.dgid = wire::Gid::FromIpv4(0x0a090001u);
  const auto ah = *AddressHandle::Create(*pd_, to);
  const auto qp = MakeQp(QpService::kUd);
  EXPECT_EQ(Of(ObjectKind::kSrq, "type"), "BASIC");
  EXPECT_EQ(Of(ObjectKind::kSrq, "max-sge"), "2");
  EXPECT_EQ(Of(ObjectKind::kSrq, "posted"), "0");
  EXPECT_EQ(Of(ObjectKind::kAh, "dst-addr"), "10.9.0.1");
  EXPECT_EQ(Of(ObjectKind::kQp, "type"), "UD");
}

TEST_F(ObjectFactsTest, EventsNameTheirQueuePair) {
  const auto qp = MakeQp(QpService::kRc);
  (void)MoveToInit(*qp);
  EXPECT_EQ(Of(Events(), "lqpn"), std::to_string(qp->qpn()));
  EXPECT_EQ(Of(Events(), "event"), "state");
  EXPECT_EQ(Of(Events(), "from"), "RESET");
  EXPECT_EQ(Of(Events(), "to"), "INIT");
}

TEST_F(ObjectFactsTest, AFailureSaysWithWhomAndWhy) {
  const auto qp = MakeQp(QpService::kRc);
  MoveToRtr(*qp);
  {
    Engine::ControlScope scope(device_->engine());
    Failure failure = FailureOf(ErrorCode::kRetriesExceeded, qp->engine_qp());
    failure.has_request = true;
    failure.status = URNIC_WC_RETRY_EXC_ERR;
    failure.wr_id = 4711;
    failure.timeout = Duration::Milliseconds(67);
    failure.psn = 5;
    failure.retries = 7;
    device_->engine().failures().Add(failure);
  }
  EXPECT_EQ(Of(Errors(), "lqpn"), std::to_string(qp->qpn()));
  EXPECT_EQ(Of(Errors(), "code"), "URN1001");
  EXPECT_EQ(Of(Errors(), "severity"), "error");
  EXPECT_EQ(Of(Errors(), "peer"), "qp 77 of 10.9.0.1");
  EXPECT_EQ(Of(Errors(), "wr-id"), "4711");
  EXPECT_EQ(Of(Errors(), "why"),
            "8 time-outs of 67 ms passed, and PSN 5 was not acknowledged; its "
            "host has never acknowledged anything; so far the queue pair had 0 "
            "sequence NAKs, 0 RNR NAKs and 0 time-outs");
}

TEST_F(ObjectFactsTest, TheNewestFailuresAreKept) {
  {
    Engine::ControlScope scope(device_->engine());
    for (uint32_t i = 1; i <= Failures::kEntries + 3; ++i) {
      device_->engine().failures().Add(
          {.code = ErrorCode::kCqOverflow, .cqn = i});
    }
  }
  const auto all = Errors();
  ASSERT_EQ(all.size(), Failures::kEntries);
  EXPECT_EQ(*all.front().Find("cqn"), "4");
  EXPECT_EQ(*all.back().Find("cqn"), std::to_string(Failures::kEntries + 3));
  EXPECT_EQ(all.back().Find("lqpn"), nullptr);
}

TEST_F(ObjectFactsTest, ARefusedCallIsAnError) {
  CqRequest request{.entries = 0};
  for (int i = 0; i < 3; ++i)
    device_->NoteRefusal(Cq::Create(*device_, request).status());
  EXPECT_EQ(Of(Errors(), "code"), "URN2001");
  EXPECT_EQ(Of(Errors(), "why"),
            "create_cq: cqe 0 is out of range: 1 to 4194304");
  EXPECT_EQ(Of(Errors(), "times"), "3");
  EXPECT_EQ(Of(Errors(), "link"), "urnic0/1");
}

TEST_F(ObjectFactsTest, WhatIsDestroyedIsGone) {
  MakeQp(QpService::kRc).reset();
  EXPECT_TRUE(All(ObjectKind::kQp).empty());
  EXPECT_TRUE(All(ObjectKind::kMr).empty());
}

// More than one step of a visit, in the order in which they were made.
TEST_F(ObjectFactsTest, ManyObjectsAreAllThere) {
  std::vector<std::shared_ptr<Qp>> qps;
  for (int i = 0; i < 200; ++i) qps.push_back(MakeQp(QpService::kRc));
  const auto all = All(ObjectKind::kQp);
  ASSERT_EQ(all.size(), qps.size());
  for (size_t i = 0; i < qps.size(); ++i) {
    EXPECT_EQ(*all[i].Find("lqpn"), std::to_string(qps[i]->qpn()));
  }
}

// Objects come and go while others look. ThreadSanitizer judges.
TEST_F(ObjectFactsTest, AnErrorHasOneTimeAndTheirOrderIsThatOfTime) {
  for (int i = 0; i < 20; ++i) {
    device_->NoteRefusal(
        Refusal(ErrorCode::kNoPlace, "call " + std::to_string(i)));
  }
  const auto times = [this] {
    std::vector<std::string> all;
    for (const Facts& error : Errors()) all.push_back(*error.Find("at"));
    return all;
  };
  const auto first = times();
  EXPECT_EQ(first.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(first));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(times(), first);
}

TEST_F(ObjectFactsTest, ObjectsComeAndGoMeanwhile) {
  std::atomic<bool> done = false;
  std::thread maker([&] {
    char memory[64];
    const auto address = reinterpret_cast<uint64_t>(memory);
    for (int i = 0; i < 300; ++i) {
      const auto qp = MakeQp(QpService::kRc);
      const auto cq = *Cq::Create(*device_, {.entries = 10});
      const auto mr = *Mr::Register(*pd_, {address, 64, address, 0});
      const auto other = *Pd::Create(*device_);
      ASSERT_TRUE(
          mr->Reregister(Mr::kTranslation, *pd_, {address, 32, address, 0})
              .ok());
      ASSERT_TRUE(cq->Resize(20).ok());
    }
    done = true;
  });
  while (!done) {
    for (const ObjectKind what :
         {ObjectKind::kQp, ObjectKind::kCq, ObjectKind::kMr, ObjectKind::kPd}) {
      for (const Facts& object : All(what)) {
        EXPECT_NE(object.Find("pid"), nullptr);
      }
    }
  }
  maker.join();
}

}  // namespace
}  // namespace urnic::control
