#include "datapath/port/port_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace urnic {
namespace {

using testing::HasSubstr;

PortSpec Parse(std::string_view dev, uint16_t mtu = 0) {
  absl::StatusOr<PortSpec> spec = ParsePortSpec(dev, mtu);
  EXPECT_TRUE(spec.ok()) << dev << ": " << spec.status();
  return spec.ok() ? *spec : PortSpec();
}

std::string Error(std::string_view dev, uint16_t mtu = 0) {
  return std::string(ParsePortSpec(dev, mtu).status().ToString());
}

TEST(PortSpecTest, AnInterfaceGetsSlotsThatHoldItsFrames) {
  const PortSpec spec = Parse("iface:lo", 1500);
  EXPECT_EQ(spec.kind, PortKind::kAfPacket);
  EXPECT_EQ(spec.identity, "iface:lo");
  EXPECT_EQ(spec.name, "lo");
  EXPECT_THAT(spec.Devargs(7),
              HasSubstr("net_af_packet_u7,iface=lo,"
                        "framesz=2048,blocksz=8192,framecnt="));
  EXPECT_EQ(spec.frame_bytes_max, 1518);
  EXPECT_GE(spec.data_room, 2048 - 32 + 128);
  EXPECT_THAT(Parse("iface:lo", 9000).args, HasSubstr("framesz=9216"));
}

TEST(PortSpecTest, AnInterfaceHasRoomForEveryRdmaPacketAndItsOwnMtuUpTo9000) {
  EXPECT_EQ(Parse("iface:lo").mtu, 9000);
  EXPECT_EQ(Parse("iface:not_there").mtu, kVirtualMtu);
  EXPECT_EQ(Parse("iface:not_there", 1500).mtu, 1500);
}

TEST(PortSpecTest, TheSameResourceHasTheSameIdentity) {
  EXPECT_EQ(Parse("iface:lo").identity,
            Parse("net_af_packet3,iface=lo").identity);
  EXPECT_EQ(Parse("net_vhost0,iface=/a").identity,
            Parse("eth_vhost9,client=1,iface=/a").identity);
  EXPECT_NE(Parse("ring:x:a").identity, Parse("ring:x:b").identity);
  EXPECT_NE(Parse("net_memif0,role=server,socket=/m").identity,
            Parse("net_memif0,role=client,socket=/m").identity);
}

TEST(PortSpecTest, TheUsersArgumentsAreKept) {
  EXPECT_EQ(
      Parse("net_virtio_user0,path=/run/x,server=1,queue_size=512").Devargs(2),
      "net_virtio_user_u2,path=/run/x,server=1,queue_size=512");
  EXPECT_EQ(Parse("virtio_user5,path=/x").Devargs(0),
            "net_virtio_user_u0,path=/x");
  EXPECT_EQ(Parse("net_memif0,role=client,bsize=4096,socket=/m").Devargs(0),
            "net_memif_u0,role=client,bsize=4096,socket=/m,"
            "socket-abstract=no");
  EXPECT_THAT(Parse("net_memif0,role=client", 9000).args,
              HasSubstr("bsize=9024"));
}

TEST(PortSpecTest, KnowsWhoListensAndWhoWaits) {
  const PortSpec server = Parse("net_virtio_user0,path=/s,server=1");
  EXPECT_TRUE(server.listens && server.probe_waits);
  const PortSpec client = Parse("net_virtio_user0,path=/s");
  EXPECT_FALSE(client.listens || client.probe_waits);
  EXPECT_TRUE(Parse("net_vhost0,iface=/s").listens);
  EXPECT_FALSE(Parse("net_vhost0,iface=/s,client=1").listens);
  EXPECT_TRUE(Parse("net_memif0,role=server,socket=/m").listens);
  EXPECT_FALSE(Parse("net_memif0,role=client,socket=/m").listens);
}

// Any user may join an abstract name.
TEST(PortSpecTest, MemifUsesAFileUnlessAnAbstractNameIsRequested) {
  const PortSpec own = Parse("net_memif0,role=server");
  EXPECT_THAT(own.socket_path, HasSubstr("/urnic-"));
  EXPECT_EQ(own.socket, own.socket_path);
  EXPECT_TRUE(own.socket_is_private);
  EXPECT_EQ(Parse("net_memif0,role=client").socket_path, own.socket_path)
      << "programs of one user meet";
  const PortSpec file = Parse("net_memif0,role=server,socket=/m");
  EXPECT_EQ(file.socket_path, "/m");
  EXPECT_FALSE(file.socket_is_private);
  const PortSpec name = Parse("net_memif0,socket=m,socket-abstract=yes");
  EXPECT_EQ(name.socket_path, "");
  EXPECT_EQ(name.socket, "@m");
  EXPECT_THAT(Error("net_memif0,socket=m"),
              HasSubstr("socket=m is a file, so it must begin with /"));
}

TEST(PortSpecTest, ArgumentsDetermineTheRingSize) {
  EXPECT_EQ(Parse("net_virtio_user0,path=/s").ring_slots, 256);
  EXPECT_EQ(Parse("net_virtio_user0,path=/s,queue_size=1024").ring_slots, 1024);
  EXPECT_EQ(Parse("net_vhost0,iface=/s").ring_slots, 0);
  EXPECT_EQ(Parse("net_memif0,rsize=11").ring_slots, 2048);
  EXPECT_EQ(Parse("net_af_packet0,iface=lo,framesz=16384,blocksz=65536,"
                  "framecnt=64")
                .ring_slots,
            64);
}

TEST(PortSpecTest, ABufferHoldsAFrameAfterItsHeadroom) {
  for (uint16_t mtu : {352, 1500, 4200, 9000}) {
    const PortSpec spec = Parse("net_vhost0,iface=/s", mtu);
    EXPECT_EQ(spec.frame_bytes_max, mtu + 18);
    EXPECT_GE(spec.data_room, 128 + mtu + 18);
  }
  EXPECT_EQ(Parse("loop").mtu, kVirtualMtu);
}

TEST(PortSpecTest, AnErrorSaysWhatIsWrong) {
  EXPECT_THAT(Error(""), HasSubstr("missing"));
  EXPECT_THAT(Error("loop", 351), HasSubstr("MTU 351 is out of range: 352 "));
  EXPECT_THAT(Error("loop", 9001), HasSubstr("is out of range: 352 to 9000"));
  EXPECT_THAT(Error("iface:"), HasSubstr("1 to 15"));
  EXPECT_THAT(Error("iface:sixteen_letters_"), HasSubstr("1 to 15"));
  EXPECT_THAT(Error("iface:lo,x=1"), HasSubstr("no arguments"));
  EXPECT_THAT(Error("net_vhost0"), HasSubstr("iface= is missing"));
  EXPECT_THAT(Error("net_virtio_user0,queues=1"),
              HasSubstr("path= is missing"));
  EXPECT_THAT(Error("net_virtio_user0,path"), HasSubstr("'path' is not key"));
  EXPECT_THAT(Error("net_memif0,rol=server"),
              HasSubstr("unknown key 'rol'; net_memif has: id role "));
  EXPECT_THAT(Error("net_memif0,role=sever"),
              HasSubstr("unknown role 'sever'; write role=server"));
  EXPECT_THAT(Error("net_virtio_user0,path=/s,server=yes"),
              HasSubstr("server=yes is not 0 or 1"));
  EXPECT_THAT(Error("net_vhost0,iface=/" + std::string(107, 'x')),
              HasSubstr("has 108 characters, the limit is 107"));
  EXPECT_THAT(Error("ring:x"), HasSubstr("ring:NAME:a"));
  EXPECT_THAT(Error("net_af_packet0,iface=lo,qpairs=2"),
              HasSubstr("qpairs must be 1"));
  EXPECT_THAT(Error("net_af_packet0,iface=lo,framesz=1024", 1500),
              HasSubstr("framesz 1024 is out of range: 1599 to 32768"));
}

TEST(PortSpecTest, UnknownDriversAreNamed) {
  for (const char* dev : {"0000:3b:00.0", "3b:00.1,x=1", "xdp:eth0"}) {
    EXPECT_THAT(Error(dev), HasSubstr("no driver for NICs")) << dev;
  }
  EXPECT_THAT(Error("net_mlx5"), HasSubstr("no driver 'net_mlx'"));
  EXPECT_THAT(Error("eth0"), HasSubstr("no driver 'eth'"));
}

}  // namespace
}  // namespace urnic
