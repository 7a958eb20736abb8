// A verb that fails sets errno to the reason, whatever it was before. One
// failing call for each verb in the table of bad_input.md, which is read here:
// a verb that is only here or only there fails the test.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "verbs/provider/testing/verbs_pair.h"

namespace urnic {
namespace {

// A value that an earlier call may have left in errno.
constexpr int kBefore = ENOTTY;
// libibverbs itself fails the call, and need not set errno.
constexpr int kByLibrary = 0;

// The first column of the table: names without "ibv_", and without the remarks
// after them.
std::set<std::string> VerbsOfTheTable() {
  std::set<std::string> verbs;
  std::ifstream file("verbs/provider/bad_input.md");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| verb ")) inside = true;
    if (line.empty()) inside = false;
    if (!inside || line.starts_with("| verb ") || line.starts_with("|--")) {
      continue;
    }
    std::string cell = line.substr(2, line.find(" |", 2) - 2);
    std::istringstream names(cell.substr(0, cell.find(':')));
    for (std::string name; std::getline(names, name, ',');) {
      name.erase(0, name.find_first_not_of(' '));
      verbs.insert(name.substr(0, name.find(' ')));
    }
  }
  return verbs;
}

class ErrnoTest : public testing::Test {
 protected:
  ErrnoTest() : end_(device_, {}) {}

  // Makes one failing call. `call` returns the verb's result, -1 for nullptr.
  void Fails(const char* verb, int error, const std::function<int()>& call) {
    tried_.insert(verb);
    errno = kBefore;
    const int answer = call();
    const int error_number = errno;
    EXPECT_NE(answer, 0) << verb;
    if (error == kByLibrary) return;
    EXPECT_EQ(error_number, error) << verb << ": " << strerror(error_number);
    // rereg_mr has codes of libibverbs.
    if (answer > 0 && std::string(verb) != "rereg_mr") {
      EXPECT_EQ(answer, error) << verb;
    }
  }
  template <typename T>
  static int Answer(T* object) {
    return object != nullptr ? 0 : -1;
  }
  // Runs `call` in a forked child and returns its errno.
  static int InChild(const std::function<int()>& call) {
    const pid_t child = fork();
    if (child == 0) {
      errno = kBefore;
      _exit(call() != 0 ? errno : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : kBefore;
    return -1;
  }

  ibv_qp* MakeQp(ibv_qp_type type, ibv_srq* srq = nullptr) {
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = end_.cq();
    attr.srq = srq;
    attr.qp_type = type;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
    return ibv_create_qp(end_.pd(), &attr);
  }
  ibv_srq* MakeSrq() {
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = 1;
    return ibv_create_srq(end_.pd(), &attr);
  }

  void DevicesAndDomains();
  void Memory();
  void Windows();
  void CompletionQueues();
  void SharedQueues();
  void XrcDomains();
  void QueuePairs();
  void Groups();
  void Posting();
  void WhatTheDeviceDoesNotHave();

  OpenDevice device_;
  End end_;
  std::set<std::string> tried_;
};

void ErrnoTest::DevicesAndDomains() {
  ibv_device** list = ibv_get_device_list(nullptr);
  Fails("open_device", EMFILE, [&] {
    return InChild([&] {
      constexpr rlimit kNone = {0, 0};
      setrlimit(RLIMIT_NOFILE, &kNone);
      return Answer(ibv_open_device(list[0]));
    });
  });
  ibv_free_device_list(list);
  Fails("any", EIO,
        [&] { return InChild([&] { return ibv_destroy_qp(end_.qp()); }); });
  Fails("query_device_ex", EIO, [&] {
    ibv_device_attr attr = {};
    return InChild([&] { return ibv_query_device(device_, &attr); });
  });
  Fails("query_rt_values_ex", EINVAL, [&] {
    ibv_values_ex values = {};
    values.comp_mask = 1 << 7;
    return ibv_query_rt_values_ex(device_, &values);
  });
  Fails("query_port", EINVAL, [&] {
    ibv_port_attr port = {};
    return ibv_query_port(device_, 2, &port);
  });
  Fails("query_gid", kByLibrary, [&] {
    ibv_gid gid = {};
    return ibv_query_gid(device_, 1, 255, &gid);
  });
  Fails("query_pkey", kByLibrary, [&] {
    __be16 pkey = 0;
    return ibv_query_pkey(device_, 1, 1000, &pkey);
  });
  Fails("alloc_pd", EIO,
        [&] { return InChild([&] { return Answer(ibv_alloc_pd(device_)); }); });
  Fails("dealloc_pd", EBUSY, [&] { return ibv_dealloc_pd(end_.pd()); });
  ibv_td_init_attr td_attr = {};
  ibv_td* td = ibv_alloc_td(device_, &td_attr);
  ibv_parent_domain_init_attr parent_attr = {};
  parent_attr.td = td;
  Fails("alloc_parent_domain", EINVAL,
        [&] { return Answer(ibv_alloc_parent_domain(device_, &parent_attr)); });
  parent_attr.pd = end_.pd();
  ibv_pd* parent = ibv_alloc_parent_domain(device_, &parent_attr);
  Fails("dealloc_td", EBUSY, [&] { return ibv_dealloc_td(td); });
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  td_attr.comp_mask = 1;
  Fails("alloc_td", EINVAL,
        [&] { return Answer(ibv_alloc_td(device_, &td_attr)); });
  Fails("create_ah", EINVAL, [&] {
    ibv_ah_attr attr = {};
    attr.port_num = 1;
    return Answer(ibv_create_ah(end_.pd(), &attr));
  });
}

void ErrnoTest::Memory() {
  Fails("reg_mr", EFAULT,
        [&] { return Answer(ibv_reg_mr(end_.pd(), nullptr, 64, 0)); });
  Fails("reg_mr_iova", EFAULT, [&] {
    return Answer(ibv_reg_mr_iova(end_.pd(), nullptr, 64, 4096, 0));
  });
  Fails("rereg_mr", EINVAL,
        [&] { return ibv_rereg_mr(end_.mr(), 0, nullptr, nullptr, 0, 0); });
  Fails("advise_mr", EINVAL, [&] {
    return ibv_advise_mr(end_.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr,
                         0);
  });
}

void ErrnoTest::Windows() {
  Pair pair(device_);
  ibv_mr* mr = ibv_reg_mr(pair.a.pd(), pair.a.memory(), 64,
                          kAllRights | IBV_ACCESS_MW_BIND);
  ibv_mw* mw = ibv_alloc_mw(pair.a.pd(), IBV_MW_TYPE_1);
  ASSERT_TRUE(mr != nullptr && mw != nullptr);
  ibv_mw_bind bind = {};
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = {mr, pair.a.address(), 64, IBV_ACCESS_REMOTE_READ};
  EXPECT_EQ(ibv_bind_mw(pair.a.qp(), mw, &bind), 0);
  EXPECT_EQ(pair.a.Poll().status, IBV_WC_SUCCESS);
  Fails("dereg_mr", EBUSY, [&] { return ibv_dereg_mr(mr); });
  bind.send_flags = 1 << 20;
  Fails("bind_mw", EINVAL, [&] { return ibv_bind_mw(pair.a.qp(), mw, &bind); });
  EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  Fails("alloc_mw", EINVAL, [&] {
    return Answer(ibv_alloc_mw(end_.pd(), static_cast<ibv_mw_type>(3)));
  });
}

void ErrnoTest::CompletionQueues() {
  Fails("create_cq", EINVAL,
        [&] { return Answer(ibv_create_cq(device_, 0, nullptr, nullptr, 0)); });
  Fails("create_cq_ex", EINVAL, [&] {
    ibv_cq_init_attr_ex attr = {};
    return Answer(ibv_create_cq_ex(device_, &attr));
  });
  Fails("resize_cq", EINVAL, [&] { return ibv_resize_cq(end_.cq(), 1 << 30); });
  Fails("modify_cq", EINVAL, [&] {
    ibv_modify_cq_attr attr = {};
    attr.attr_mask = 1 << 9;
    return ibv_modify_cq(end_.cq(), &attr);
  });
  Fails("destroy_cq", EBUSY, [&] { return ibv_destroy_cq(end_.cq()); });
  ibv_comp_channel* channel = ibv_create_comp_channel(device_);
  ibv_cq* cq = ibv_create_cq(device_, 1, nullptr, channel, 0);
  Fails("destroy_comp_channel", kByLibrary,
        [&] { return ibv_destroy_comp_channel(channel); });
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

void ErrnoTest::SharedQueues() {
  Fails("create_srq", EINVAL, [&] {
    ibv_srq_init_attr attr = {};
    return Answer(ibv_create_srq(end_.pd(), &attr));
  });
  Fails("create_srq_ex", EINVAL, [&] {
    ibv_srq_init_attr_ex attr = {};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    attr.srq_type = IBV_SRQT_XRC;
    return Answer(ibv_create_srq_ex(device_, &attr));
  });
  ibv_srq* srq = MakeSrq();
  ASSERT_NE(srq, nullptr);
  Fails("modify_srq", EINVAL, [&] {
    ibv_srq_attr attr = {};
    return ibv_modify_srq(srq, &attr, 1 << 5);
  });
  Fails("get_srq_num", EINVAL, [&] {
    uint32_t number = 0;
    return ibv_get_srq_num(srq, &number);
  });
  Fails("post_srq_recv", EINVAL, [&] {
    ibv_recv_wr wr = {};
    wr.num_sge = -1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq, &wr, &bad);
  });
  Fails("post_srq_ops", kByLibrary, [&] {
    ibv_ops_wr wr = {};
    ibv_ops_wr* bad = nullptr;
    return ibv_post_srq_ops(srq, &wr, &bad);
  });
  ibv_qp* qp = MakeQp(IBV_QPT_RC, srq);
  Fails("destroy_srq", EBUSY, [&] { return ibv_destroy_srq(srq); });
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

void ErrnoTest::XrcDomains() {
  ibv_xrcd_init_attr attr = {};
  Fails("open_xrcd", EINVAL,
        [&] { return Answer(ibv_open_xrcd(device_, &attr)); });
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = O_CREAT;
  ibv_xrcd* xrcd = ibv_open_xrcd(device_, &attr);
  ibv_qp_init_attr_ex target = {};
  target.qp_type = IBV_QPT_XRC_RECV;
  target.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  target.xrcd = xrcd;
  ibv_qp* qp = ibv_create_qp_ex(device_, &target);
  ASSERT_NE(qp, nullptr);
  Fails("close_xrcd", EBUSY, [&] { return ibv_close_xrcd(xrcd); });
  Fails("open_qp", EINVAL, [&] {
    ibv_qp_open_attr open = {};
    return Answer(ibv_open_qp(device_, &open));
  });
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_close_xrcd(xrcd), 0);
}

void ErrnoTest::QueuePairs() {
  Fails("create_qp", EINVAL, [&] {
    ibv_qp_init_attr attr = {};
    attr.qp_type = IBV_QPT_RC;
    return Answer(ibv_create_qp(end_.pd(), &attr));
  });
  Fails("create_qp_ex", EOPNOTSUPP, [&] {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.pd = end_.pd();
    attr.create_flags = 1;
    return Answer(ibv_create_qp_ex(device_, &attr));
  });
  Fails("modify_qp", EINVAL, [&] { return end_.To(IBV_QPS_RTS); });
  Fails("set_ece", EINVAL, [&] {
    ibv_ece ece = {.vendor_id = 1, .options = 2, .comp_mask = 0};
    return ibv_set_ece(end_.qp(), &ece);
  });
}

void ErrnoTest::Groups() {
  ibv_gid group = {};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  Fails("attach_mcast", EINVAL,
        [&] { return ibv_attach_mcast(end_.qp(), &group, 0); });
  Fails("detach_mcast", EINVAL,
        [&] { return ibv_detach_mcast(end_.qp(), &group, 0); });
  ibv_qp* ud = MakeQp(IBV_QPT_UD);
  EXPECT_EQ(ibv_attach_mcast(ud, &group, 0), 0);
  Fails("destroy_qp", EBUSY, [&] { return ibv_destroy_qp(ud); });
  EXPECT_EQ(ibv_detach_mcast(ud, &group, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(ud), 0);
}

// In RESET, all posting is refused.
void ErrnoTest::Posting() {
  Fails("post_send", EINVAL, [&] { return end_.PostSend({}); });
  Fails("post_recv", EINVAL, [&] { return end_.PostRecv(0, {}); });
  PairOptions options;
  options.send_ops = IBV_QP_EX_WITH_SEND;
  End extended(device_, options);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(extended.qp());
  ASSERT_NE(ex, nullptr);
  Fails("wr_complete", EINVAL, [&] {
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    return ibv_wr_complete(ex);
  });
}

void ErrnoTest::WhatTheDeviceDoesNotHave() {
  const auto absent = [&](const char* verb, auto call) {
    Fails(verb, EOPNOTSUPP, [&] { return Answer(call()); });
  };
  ibv_alloc_dm_attr memory = {};
  memory.length = 64;
  ibv_wq_init_attr queue = {};
  ibv_rwq_ind_table_init_attr table = {};
  ibv_flow_attr flow = {};
  ibv_counters_init_attr counters = {};
  absent("alloc_dm", [&] { return ibv_alloc_dm(device_, &memory); });
  absent("create_wq", [&] { return ibv_create_wq(device_, &queue); });
  absent("create_rwq_ind_table",
         [&] { return ibv_create_rwq_ind_table(device_, &table); });
  absent("create_flow", [&] { return ibv_create_flow(end_.qp(), &flow); });
  absent("create_counters",
         [&] { return ibv_create_counters(device_, &counters); });
  absent("reg_dmabuf_mr",
         [&] { return ibv_reg_dmabuf_mr(end_.pd(), 0, 64, 0, 0, 0); });
  absent("import_pd", [&] { return ibv_import_pd(device_, 1); });
  absent("import_mr", [&] { return ibv_import_mr(end_.pd(), 1); });
  Fails("modify_qp_rate_limit", kByLibrary, [&] {
    ibv_qp_rate_limit_attr rate = {};
    return ibv_modify_qp_rate_limit(end_.qp(), &rate);
  });
}

TEST_F(ErrnoTest, SetsErrnoForEachVerbOfTheTable) {
  DevicesAndDomains();
  Memory();
  Windows();
  CompletionQueues();
  SharedQueues();
  XrcDomains();
  QueuePairs();
  Groups();
  Posting();
  WhatTheDeviceDoesNotHave();
  EXPECT_EQ(tried_, VerbsOfTheTable());
}

}  // namespace
}  // namespace urnic
