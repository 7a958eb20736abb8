// The files that depend on a device's kind. devices_test.sh reads the files as
// programs do.

extern "C" {
#include "verbs/preload/sysfs_render.h"
}

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SysfsRenderTest, AKindDeterminesNodeTypeGidsAndPkeys) {
  std::vector<urnic_device_identity> devices(URNIC_MAX_DEVICES);
  char error[256];
  ASSERT_EQ(urnic_device_identity_parse("loop|10.0.0.1/24|transport=both", 1,
                                        devices.data(), error, sizeof(error)),
            2)
      << error;
  const std::filesystem::path root =
      std::filesystem::path(std::getenv("TEST_TMPDIR")) / "rendered";
  std::filesystem::create_directory(root);
  ASSERT_EQ(urnic_sysfs_render(root.c_str(), devices.data(), 2), 0);

  const std::filesystem::path all = root / "sys/class/infiniband";
  EXPECT_EQ(Read(all / "urnic0/node_type"), "1: CA\n");
  EXPECT_EQ(Read(all / "iwurnic0/node_type"), "4: RNIC\n");
  EXPECT_NE(Read(all / "urnic0/node_guid"), Read(all / "iwurnic0/node_guid"));
  EXPECT_EQ(Read(all / "urnic0/sys_image_guid"),
            Read(all / "iwurnic0/sys_image_guid"));
  EXPECT_EQ(Read(root / "sys/class/infiniband_verbs/uverbs1/ibdev"),
            "iwurnic0\n");
  EXPECT_TRUE(std::filesystem::exists(all / "urnic0/ports/1/pkeys/0"));
  EXPECT_FALSE(std::filesystem::exists(all / "iwurnic0/ports/1/pkeys"));
  EXPECT_TRUE(std::filesystem::exists(all / "urnic0/ports/1/counters"));
  const std::filesystem::path roce = all / "urnic0/ports/1/hw_counters";
  EXPECT_TRUE(std::filesystem::exists(roce / "out_of_sequence"));
  EXPECT_FALSE(std::filesystem::exists(roce / "iwarp_retrans_segs"));
  EXPECT_FALSE(std::filesystem::exists(
      all / "iwurnic0/ports/1/hw_counters/out_of_sequence"));
  EXPECT_TRUE(std::filesystem::exists(
      all / "iwurnic0/ports/1/hw_counters/iwarp_retrans_segs"));
  for (const char* table : {"gids", "gid_attrs/types", "gid_attrs/ndevs"}) {
    const auto port = std::filesystem::path("ports/1") / table;
    EXPECT_TRUE(std::filesystem::exists(all / "urnic0" / port / "33"));
    EXPECT_TRUE(std::filesystem::exists(all / "iwurnic0" / port / "0"));
    EXPECT_FALSE(std::filesystem::exists(all / "iwurnic0" / port / "1"));
  }
  const std::string gid = Read(all / "iwurnic0/ports/1/gids/0");
  EXPECT_EQ(gid.substr(14), ":0000:0000:0000:0000:0000\n") << gid;
  EXPECT_EQ(gid.substr(0, 14), Read(all / "iwurnic0/node_guid").substr(0, 14));
}

}  // namespace
