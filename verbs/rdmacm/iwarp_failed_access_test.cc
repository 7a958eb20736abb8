// What the error log and snapshots tell of an access over iWARP that failed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "ras/facts/facts.h"
#include "verbs/cli/fact_list.h"
#include "verbs/cli/snapshot_view.h"
#include "verbs/provider/testing/shown.h"
#include "verbs/rdmacm/testing/librdmacm_iwarp_fixture.h"

namespace urnic::rdmacm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string Hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%lx", static_cast<unsigned long>(value));
  return text;
}

class IwarpFailedAccessTest : public LibrdmacmIwarpTest {
 protected:
  // librdmacm keeps the device open until the process ends.
  static void SetUpTestSuite() {
    setenv("URNIC_LOG", ("json:" + LogPath()).c_str(), 1);
    LibrdmacmIwarpTest::SetUpTestSuite();
  }
  static void TearDownTestSuite() { unlink(LogPath().c_str()); }
  static std::string LogPath() {
    return ::testing::TempDir() + "/iwarp_failed_access";
  }

  // The lines of the log, once one of them has that text: it is written a
  // little later.
  static std::vector<std::string> LogWith(const std::string& text) {
    std::vector<std::string> lines;
    for (int i = 0; i < 1000; ++i) {
      lines.clear();
      std::ifstream in(LogPath());
      bool found = false;
      for (std::string line; std::getline(in, line);) {
        found |= line.find(text) != std::string::npos;
        lines.push_back(line);
      }
      if (found) break;
      usleep(10'000);
    }
    return lines;
  }

  // The client posts this request, which fails.
  ibv_wc Fail(ibv_send_wr wr, ibv_sge sge) {
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr_id = 77;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(client_->qp, &wr, &bad), 0);
    ibv_wc wc = {};
    EXPECT_EQ(rdma_get_send_comp(client_, &wc), 1);
    EXPECT_EQ(wc.wr_id, 77u);
    return wc;
  }
  ibv_sge Own() const {
    return {reinterpret_cast<uint64_t>(client_data_), 8, client_mr_->lkey};
  }
  void End() {
    Expect(RDMA_CM_EVENT_DISCONNECTED);
    Expect(RDMA_CM_EVENT_DISCONNECTED);
    rdma_disconnect(client_);
    rdma_disconnect(server_);
    DestroyAll();
  }
};

// Each snapshot of these codes has an image that can be read, although a
// connection was in the middle of something. Returns the keys of the memory.
std::vector<std::string> KeysInSnapshots(const std::vector<std::string>& codes,
                                         uint32_t qpn) {
  std::vector<std::string> keys;
  auto objects = ParseFactList(Shown("snapshot"));
  EXPECT_TRUE(objects.ok()) << objects.status();
  if (!objects.ok()) return keys;
  DecodeImages(*objects);
  for (const std::string& code : codes) {
    int images = 0;
    for (const Facts& object : *objects) {
      if (*object.Find("code") != code ||
          *object.Find("failed-lqpn") != std::to_string(qpn))
        continue;
      if (const auto* key = object.Find("lkey")) keys.push_back(*key);
      if (*object.Find("object") != "image") continue;
      ++images;
      const std::string* const problem = object.Find("problem");
      EXPECT_EQ(problem, nullptr) << code << ": " << *problem;
      EXPECT_NE(object.Find("summary"), nullptr) << code;
    }
    EXPECT_EQ(images, 1) << code;
  }
  return keys;
}

TEST_F(IwarpFailedAccessTest, BothSidesTellWhichAccessWasRefused) {
  // A small write is complete before the peer refuses it.
  const struct {
    ibv_wr_opcode opcode;
    const char* name;
    uint16_t port;
    ibv_wc_status status;
    const char* code;
    const char* text;
  } kCases[] = {
      {IBV_WR_RDMA_WRITE, "write", 7190, IBV_WC_SUCCESS, "URN1101",
       "the error (layer, type, code) is 0x1100, of "},
      {IBV_WR_RDMA_READ, "read", 7191, IBV_WC_REM_ACCESS_ERR, "URN1003",
       "the peer's Terminate is of "},
      {IBV_WR_ATOMIC_FETCH_AND_ADD, "fadd", 7192, IBV_WC_REM_ACCESS_ERR,
       "URN1003", "the peer's Terminate is of "}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    Establish(kIwarp, c.port);
    const auto address = reinterpret_cast<uint64_t>(server_data_);
    const uint32_t key = server_mr_->rkey ^ 1;
    ibv_send_wr wr = {};
    wr.opcode = c.opcode;
    if (c.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = address;
      wr.wr.atomic.rkey = key;
    } else {
      wr.wr.rdma.remote_addr = address;
      wr.wr.rdma.rkey = key;
    }
    EXPECT_EQ(Fail(wr, Own()).status, c.status);
    const std::string request = "a request (" + std::string(c.name) +
                                ") for 8 bytes at " + Hex(address) +
                                " with rkey " + Hex(key);
    const auto lines = LogWith(c.text + request);
    EXPECT_THAT(
        lines, Contains(AllOf(HasSubstr(c.code), HasSubstr(c.text + request))));
    EXPECT_THAT(lines, Contains(AllOf(HasSubstr("URN1102"),
                                      HasSubstr(request + ": the key is"))));
    EXPECT_THAT(
        lines, Contains(AllOf(HasSubstr("URN1902"),
                              HasSubstr(std::string("operation\":\"") + c.name),
                              HasSubstr(request + ": "))));
    const std::string region = Hex(server_mr_->lkey);
    EXPECT_EQ(KeysInSnapshots({"URN1902", "URN1102"}, server_->qp->qp_num),
              (std::vector<std::string>{region, region}));
    KeysInSnapshots({"URN1101"}, client_->qp->qp_num);
    End();
  }
}

TEST_F(IwarpFailedAccessTest, AWrongLocalKeyIsTold) {
  Establish(kIwarp, 7193);
  ibv_sge sge = Own();
  sge.lkey ^= 1;
  ibv_send_wr wr = {};
  wr.opcode = IBV_WR_SEND;
  EXPECT_EQ(Fail(wr, sge).status, IBV_WC_LOC_PROT_ERR);
  const std::string why = "element 1 of 1, 8 bytes at " + Hex(sge.addr) +
                          " with lkey " + Hex(sge.lkey) +
                          ": the key is not valid";
  EXPECT_THAT(LogWith(why), Contains(AllOf(HasSubstr("URN1008"), HasSubstr(why),
                                           HasSubstr("\"send\""))));
  EXPECT_EQ(KeysInSnapshots({"URN1008"}, client_->qp->qp_num),
            std::vector<std::string>{Hex(client_mr_->lkey)});
  End();
}

}  // namespace
}  // namespace urnic::rdmacm
