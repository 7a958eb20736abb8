// Completion events and asynchronous events.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "verbs/provider/testing/asleep.h"
#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

bool Readable(int fd, int timeout_ms) {
  pollfd p = {fd, POLLIN, 0};
  return poll(&p, 1, timeout_ms) == 1;
}

class EventTest : public testing::Test {
 protected:
  EventTest() : channel_(ibv_create_comp_channel(device_)) {}
  ~EventTest() override {
    pair_.reset();
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
  }
  void Make() {
    PairOptions options;
    options.channel = channel_;
    pair_ = std::make_unique<Pair>(device_, options);
  }
  End& a() { return pair_->a; }
  End& b() { return pair_->b; }
  void Send(bool solicited = false) {
    EXPECT_EQ(b().PostRecv(0, {b().Sge(0, 8)}), 0);
    EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                           [&](ibv_send_wr& wr) {
                             if (solicited) wr.send_flags |= IBV_SEND_SOLICITED;
                           }),
              0);
  }
  // The completion queue that the next event is about.
  ibv_cq* GetEvent(bool acknowledge = true) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &context), 0);
    EXPECT_EQ(context, cq == a().cq() ? &a() : &b());
    if (acknowledge) ibv_ack_cq_events(cq, 1);
    return cq;
  }
  ibv_event_type GetAsync(ibv_qp* qp) {
    ibv_async_event event = {};
    EXPECT_EQ(ibv_get_async_event(device_, &event), 0);
    EXPECT_EQ(event.element.qp, qp);
    ibv_ack_async_event(&event);
    return event.event_type;
  }

  OpenDevice device_;
  ibv_comp_channel* channel_;
  std::unique_ptr<Pair> pair_;
};

//= IBTA 11.4.2.2
TEST_F(EventTest, AnArmedQueueWakesASleeper) {
  Make();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
    Send();
    ASSERT_EQ(GetEvent(), b().cq());
    EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  }
  EXPECT_FALSE(Readable(channel_->fd, 0)) << "one event per arming";
}

// UCX finds a queue empty, arms it and sleeps. As on NICs, completions that
// arrive in between raise an event.
TEST_F(EventTest, UnreadCompletionsFromBeforeTheArmingWakeASleeperToo) {
  Make();
  for (int i = 0; i < 3; ++i) {
    Send();
    EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  }
  for (int left = 3; left > 0; --left) {
    ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
    ASSERT_TRUE(Readable(channel_->fd, 30000)) << left << " are unread";
    ASSERT_EQ(GetEvent(), b().cq());
    EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  }
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  EXPECT_FALSE(Readable(channel_->fd, 0)) << "the queue is empty";
}

TEST_F(EventTest, ACompletionThatRaisedAnEventRaisesNoSecondOne) {
  // The order in the manual page: get the event, arm, then read all.
  Make();
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  Send();
  ASSERT_EQ(GetEvent(), b().cq());
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  EXPECT_FALSE(Readable(channel_->fd, 0));
  EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  Send();
  EXPECT_EQ(GetEvent(), b().cq()) << "it was armed all the same";
}

TEST_F(EventTest, DataMovesWithoutPolling) {
  // Both sides sleep, so the helper thread does everything.
  Make();
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(a().cq(), 0), 0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  EXPECT_EQ(b().PostRecv(0, {b().Sge(0, 8)}), 0);
  const ibv_cq* first = GetEvent();
  const ibv_cq* second = GetEvent();
  EXPECT_NE(first, second);
}

TEST_F(EventTest, AQueueThatIsNotArmedStaysSilent) {
  Make();
  Send();
  EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(Readable(channel_->fd, 10));
}

//= IBTA 11.4.2.2
TEST_F(EventTest, SolicitedOnlyWaitsForSolicitedOnes) {
  Make();
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 1), 0);
  Send();
  EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  EXPECT_FALSE(Readable(channel_->fd, 10));
  Send(/*solicited=*/true);
  EXPECT_EQ(GetEvent(), b().cq());
  // An error counts as solicited.
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 1), 0);
  EXPECT_EQ(b().PostRecv(0, {}), 0);
  EXPECT_EQ(b().To(IBV_QPS_ERR), 0);
  EXPECT_EQ(GetEvent(), b().cq());
}

TEST_F(EventTest, SolicitedOnlyCountsUnreadSolicitedOnes) {
  Make();
  Send();
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 1), 0);
  EXPECT_FALSE(Readable(channel_->fd, 0));
  EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  Send(/*solicited=*/true);
  EXPECT_EQ(GetEvent(), b().cq());
  Send();
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 1), 0);
  EXPECT_EQ(GetEvent(), b().cq()) << "the solicited one is unread";
}

// As UCX waits on a channel: edge-triggered, and all is read on each edge.
TEST_F(EventTest, ChannelsWorkWithEdgeTriggeredEpoll) {
  Make();
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event want = {EPOLLIN | EPOLLET, {}};
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel_->fd, &want), 0);
  epoll_event got;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(a().cq(), 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
    Send();
    for (int events = 0; events < 2;) {
      ASSERT_EQ(epoll_wait(epoll, &got, 1, 30000), 1) << events << " seen";
      ibv_cq* cq;
      void* context;
      while (ibv_get_cq_event(channel_, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        ++events;
      }
    }
    EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(b().Poll().status, IBV_WC_SUCCESS);
  }
  close(epoll);
}

TEST_F(EventTest, ChannelsWorkWithEpollAndWithoutBlocking) {
  Make();
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq;
  void* context;
  EXPECT_EQ(ibv_get_cq_event(channel_, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event want = {EPOLLIN, {}};
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, channel_->fd, &want), 0);
  epoll_event got;
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  Send();
  EXPECT_EQ(epoll_wait(epoll, &got, 1, 30000), 1);
  EXPECT_EQ(GetEvent(), b().cq());
  close(epoll);
}

TEST_F(EventTest, DestructionDropsUnreadEventsAndWaitsForReadOnes) {
  Make();
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  Send();
  ASSERT_TRUE(Readable(channel_->fd, 30000));
  pair_.reset();  // hangs if it waited for the unread one
  EXPECT_FALSE(Readable(channel_->fd, 0));

  Make();
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  Send();
  ibv_cq* cq = GetEvent(/*acknowledge=*/false);
  std::atomic<bool> acknowledged = false;
  std::atomic<bool> gone = false;
  std::thread late([&, waiter = gettid()] {
    AwaitAsleep(waiter, gone);
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
  });
  pair_.reset();
  EXPECT_TRUE(acknowledged);
  gone = true;
  late.join();
}

TEST_F(EventTest, ABusyChannelIsNotDestroyed) {
  Make();
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
}

TEST_F(EventTest, SqDrainedIsReportedIfRequested) {
  Make();
  // Only a read is in flight.
  EXPECT_EQ(a().PostSend({a().Sge(0, 65536)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_READ;
                           Target(wr, b(), 0);
                         }),
            0);
  EXPECT_EQ(a().To(IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  EXPECT_EQ(GetAsync(a().qp()), IBV_EVENT_SQ_DRAINED);
  EXPECT_EQ(a().State(), IBV_QPS_SQD);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
  // Requests that are posted now wait until RTS.
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_READ;
                           Target(wr, b(), 0);
                         }),
            0);
  EXPECT_TRUE(a().Quiet());
  EXPECT_EQ(a().To(IBV_QPS_RTS), 0);
  EXPECT_EQ(a().Poll().status, IBV_WC_SUCCESS);
}

// As in Linux's rxe, which allows ERR only; IBTA allows RESET from any state.
TEST_F(EventTest, ASendQueueMustDrainBeforeItLeavesSqd) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    for (const ibv_qp_state out : {IBV_QPS_RESET, IBV_QPS_ERR}) {
      // No receive is posted, so RC waits for the peer forever.
      PairOptions options;
      options.type = type;
      Pair pair(device_, options);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
      EXPECT_EQ(pair.a.To(IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
      if (type == IBV_QPT_RC) {
        EXPECT_EQ(pair.a.To(IBV_QPS_RTS), EINVAL);
        EXPECT_EQ(pair.a.To(IBV_QPS_SQD), EINVAL);
        EXPECT_EQ(pair.a.State(), IBV_QPS_SQD);
        EXPECT_EQ(pair.b.PostRecv(0, {pair.b.Sge(0, 8)}), 0);
      }
      EXPECT_EQ(GetAsync(pair.a.qp()), IBV_EVENT_SQ_DRAINED);
      EXPECT_EQ(pair.a.To(IBV_QPS_SQD), 0);
      EXPECT_EQ(pair.a.To(IBV_QPS_RTS), 0);
      EXPECT_EQ(pair.a.PostSend({pair.a.Sge(0, 8)}), 0);
      EXPECT_EQ(pair.a.To(IBV_QPS_SQD), 0);
      EXPECT_EQ(pair.a.To(out), 0) << "drained or not";
    }
  }
}

//= IBTA 11.6.3.2
TEST_F(EventTest, TheFirstPacketBeforeRtsRaisesAnEvent) {
  PairOptions options;
  options.channel = channel_;
  End left(device_, options);
  End right(device_, options);
  left.Connect(right.qp()->qp_num);
  ASSERT_EQ(right.ToInit(), 0);
  ASSERT_EQ(right.ToRtr(left.qp()->qp_num), 0);
  EXPECT_EQ(right.PostRecv(0, {right.Sge(0, 8)}), 0);
  EXPECT_EQ(left.PostSend({left.Sge(0, 8)}), 0);
  EXPECT_EQ(left.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(GetAsync(right.qp()), IBV_EVENT_COMM_EST);
}

TEST_F(EventTest, ARefusedAccessRaisesAnEventAtTheResponder) {
  Make();
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_WRITE;
                           wr.wr.rdma.remote_addr = b().address();
                           wr.wr.rdma.rkey = 0x1234;
                         }),
            0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(GetAsync(b().qp()), IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(EventTest, AnInvalidRequestRaisesAnEventAtTheResponder) {
  Make();
  EXPECT_EQ(b().PostRecv(0, {b().Sge(0, 4)}), 0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);  // longer than the receive
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(b().Poll().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(GetAsync(b().qp()), IBV_EVENT_QP_REQ_ERR);
}

// Two ends share a receive queue. Whatever ends one of them, it holds no
// receive of the queue afterwards, and reports that once.
//= IBTA 11.6.3.1
class SharedQueueEvents : public EventTest {
 protected:
  SharedQueueEvents() {
    pd_ = ibv_alloc_pd(device_);
    ibv_srq_init_attr init = {};
    init.attr.max_wr = 16;
    init.attr.max_sge = 1;
    srq_ = ibv_create_srq(pd_, &init);
  }
  ~SharedQueueEvents() override {
    if (srq_ != nullptr) {
      EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    }
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }
  std::unique_ptr<Pair> Make(ibv_qp_type type = IBV_QPT_RC) {
    PairOptions options;
    options.pd = pd_;
    options.srq = srq_;
    options.type = type;
    return std::make_unique<Pair>(device_, options);
  }
  void PostShared(int count) {
    for (int i = 0; i < count; ++i) {
      ibv_recv_wr wr = {};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_srq_recv(srq_, &wr, &bad), 0);
    }
  }
  // Reads all events and returns the types of those about `qp`.
  std::vector<ibv_event_type> AllOf(const ibv_qp* qp) {
    std::vector<ibv_event_type> types;
    while (Readable(device_.get()->async_fd, 0)) {
      ibv_async_event event;
      EXPECT_EQ(ibv_get_async_event(device_, &event), 0);
      if (event.element.qp == qp) types.push_back(event.event_type);
      ibv_ack_async_event(&event);
    }
    return types;
  }

  ibv_pd* pd_ = nullptr;
  ibv_srq* srq_ = nullptr;
};

using Types = std::vector<ibv_event_type>;

TEST_F(SharedQueueEvents, AQueuePairMovedToErrorReportsItsLastReceive) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    const auto pair = Make(type);
    EXPECT_EQ(pair->b.To(IBV_QPS_ERR), 0);
    EXPECT_EQ(pair->b.To(IBV_QPS_ERR), 0);
    EXPECT_TRUE(pair->b.Quiet());
    EXPECT_EQ(AllOf(pair->b.qp()), Types{IBV_EVENT_QP_LAST_WQE_REACHED});
  }
}

TEST_F(SharedQueueEvents, AQueuePairWhoseRequestFailsReportsItsLastReceive) {
  const auto pair = Make();
  ibv_sge wrong = pair->a.Sge(0, 8);
  wrong.lkey ^= 0x1000;
  EXPECT_EQ(pair->a.PostSend({wrong}), 0);
  EXPECT_EQ(pair->a.Poll().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_TRUE(pair->a.Quiet());
  EXPECT_EQ(pair->a.To(IBV_QPS_ERR), 0) << "where it is";
  EXPECT_EQ(AllOf(pair->a.qp()), Types{IBV_EVENT_QP_LAST_WQE_REACHED});
}

TEST_F(SharedQueueEvents, AQueuePairThatRefusesARequestReportsItsLastReceive) {
  const auto pair = Make();
  PostShared(4);
  EXPECT_EQ(pair->a.PostSend({pair->a.Sge(0, 8)},
                             [&](ibv_send_wr& wr) {
                               wr.opcode = IBV_WR_RDMA_WRITE;
                               wr.wr.rdma.remote_addr = pair->b.address();
                               wr.wr.rdma.rkey = 0x1234;
                             }),
            0);
  EXPECT_EQ(pair->a.Poll().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_TRUE(pair->b.Quiet()) << "the others' receives stay";
  Types types = AllOf(pair->b.qp());
  std::sort(types.begin(), types.end());
  EXPECT_EQ(types,
            (Types{IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_LAST_WQE_REACHED}));
}

// Events that were read and not acknowledged keep their object.
TEST_F(SharedQueueEvents, DestructionWaitsForAcknowledgements) {
  auto pair = Make();
  ibv_srq_attr attr = {.max_wr = 0, .max_sge = 0, .srq_limit = 2};
  PostShared(2);
  EXPECT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(pair->a.PostSend({}), 0);
  EXPECT_EQ(pair->a.Poll().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair->b.To(IBV_QPS_ERR), 0);
  ibv_async_event events[2];
  for (ibv_async_event& event : events) {
    ASSERT_EQ(ibv_get_async_event(device_, &event), 0);
  }
  EXPECT_EQ(events[0].event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(events[1].event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  std::atomic<int> acknowledged = 0;
  std::atomic<bool> qp_gone = false;
  std::atomic<bool> srq_gone = false;
  std::thread late([&, waiter = gettid()] {
    AwaitAsleep(waiter, qp_gone);
    ++acknowledged;
    ibv_ack_async_event(&events[1]);
    while (!qp_gone) sched_yield();
    AwaitAsleep(waiter, srq_gone);
    ++acknowledged;
    ibv_ack_async_event(&events[0]);
  });
  pair->b.DestroyQp();
  EXPECT_EQ(acknowledged, 1);
  pair.reset();
  qp_gone = true;
  EXPECT_EQ(ibv_destroy_srq(srq_), 0);
  EXPECT_EQ(acknowledged, 2);
  srq_gone = true;
  srq_ = nullptr;
  late.join();
}

TEST_F(EventTest, DestroyDropsUnreadAsyncEvents) {
  Make();
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)},
                         [&](ibv_send_wr& wr) {
                           wr.opcode = IBV_WR_RDMA_WRITE;
                           wr.wr.rdma.rkey = 0x1234;
                         }),
            0);
  EXPECT_EQ(a().Poll().status, IBV_WC_REM_ACCESS_ERR);
  ASSERT_TRUE(Readable(device_.get()->async_fd, 30000));
  pair_.reset();
  EXPECT_FALSE(Readable(device_.get()->async_fd, 0));
}

}  // namespace
}  // namespace urnic
