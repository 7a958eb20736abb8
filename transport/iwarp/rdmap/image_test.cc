#include "transport/iwarp/rdmap/image.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/support/image_map.h"
#include "transport/iwarp/rdmap/image_fields.h"
#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {
namespace {

using ::testing::HasSubstr;
using urnic::testing::ImageMap;

class ImageTest : public ::testing::Test {
 protected:
  ImageTest() {
    end_.Fill(0, 100, 3);
    EXPECT_TRUE(end_.Send(
        {.wr_id = 1, .sges = {end_.Sge(0, 100)}, .remote_addr = 0, .rkey = 0}));
    EXPECT_TRUE(end_.Recv(2, {end_.Sge(0, 100)}));
  }
  Bytes Image() {
    Bytes image(ExtractImage(end_.qp(), Time(), {}));
    EXPECT_EQ(ExtractImage(end_.qp(), Time(), image), image.size());
    return image;
  }
  ImageRefusal Become(const Bytes& image) {
    end_.Renew();
    return InsertImage(image, Time(), end_.qp());
  }

  RdmapEnd end_{{.started = false}};
};

TEST_F(ImageTest, AQueuePairMovesBeforeItHasAConnection) {
  const Bytes image = Image();
  ImageShape shape;
  ASSERT_TRUE(ReadImageShape(image, shape).ok());
  EXPECT_EQ(shape.service, QpService::kIwarp);
  EXPECT_EQ(shape.limits.qpn, 0x11u);
  ASSERT_TRUE(Become(image).ok());
  EXPECT_EQ(end_.qp().state(), QpState::kInit);
  EXPECT_EQ(Image(), image);
  RdmapEnd peer;
  ASSERT_TRUE(peer.Recv(7, {peer.Sge(0, 100)}));
  end_.qp().Modify(QpState::kRts, kDefaultConfig);
  Exchange(end_, peer);
  ASSERT_EQ(peer.received.size(), 1u);
  EXPECT_EQ(peer.Read(0, 100), end_.Read(0, 100));
}

TEST_F(ImageTest, AQueuePairInErrorFlushesWhereItIs) {
  end_.qp().Modify(QpState::kErr, {});
  ASSERT_TRUE(Become(Image()).ok());
  EXPECT_EQ(end_.qp().state(), QpState::kErr);
  end_.Settle({});
  ASSERT_EQ(end_.sent.size(), 1u);
  EXPECT_EQ(end_.sent[0].status, URNIC_WC_WR_FLUSH_ERR);
  ASSERT_EQ(end_.received.size(), 1u);
  EXPECT_EQ(end_.received[0].status, URNIC_WC_WR_FLUSH_ERR);
}

TEST_F(ImageTest, ImpossibleImagesAreRefused) {
  const Bytes good = Image();
  const ImageMap map(end_.qp(), QpService::kIwarp);
  const auto refusal = [&](const char* member, uint64_t value) {
    Bytes image = good;
    map.Set(image, member, value);
    return Become(image).Text();
  };
  EXPECT_THAT(refusal("state", 3), HasSubstr("needs a connection"));
  EXPECT_THAT(refusal("state", 2), HasSubstr("is not a state of iWARP"));
  EXPECT_THAT(refusal("limits.pd", 9), HasSubstr("belongs to another domain"));
  EXPECT_THAT(refusal("requester.head", 77),
              HasSubstr("is farther from head than the ring's length"));
  Bytes other = good;
  other[10] = static_cast<uint8_t>(ImageKind::kRc);
  ImageMap::Seal(other);
  EXPECT_THAT(Become(other).Text(),
              HasSubstr("differs from this queue pair's"));
}

TEST_F(ImageTest, ShowsEachMember) {
  std::string text;
  ShowState(end_.qp(), Time(), text);
  EXPECT_THAT(text, HasSubstr("qp.state INIT\n"));
  EXPECT_THAT(text, HasSubstr("requester.head 0\n"));
}

}  // namespace
}  // namespace urnic::rdmap::testing
