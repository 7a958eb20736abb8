// Completion events and asynchronous events.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <memory>
#include <thread>

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

TEST_F(EventTest, NobodyPollsAndDataStillMoves) {
  // The helper thread does it all: both sides sleep.
  Make();
  ASSERT_EQ(ibv_req_notify_cq(b().cq(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(a().cq(), 0), 0);
  EXPECT_EQ(a().PostSend({a().Sge(0, 8)}), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
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
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    acknowledged = true;
    ibv_ack_cq_events(cq, 1);
  });
  pair_.reset();
  EXPECT_TRUE(acknowledged);
  late.join();
}

TEST_F(EventTest, ABusyChannelStays) {
  Make();
  EXPECT_EQ(ibv_destroy_comp_channel(channel_), EBUSY);
}

TEST_F(EventTest, SqDrainedIsReportedWhenAskedFor) {
  Make();
  // A read in flight and nothing else.
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
  // What is posted now waits until RTS.
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

TEST_F(EventTest, TheFirstPacketBeforeRtsIsAnEvent) {
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

TEST_F(EventTest, ARefusedAccessIsAnEventOfTheRefuser) {
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

TEST_F(EventTest, DestroyDropsAsyncEventsThatNobodyRead) {
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
