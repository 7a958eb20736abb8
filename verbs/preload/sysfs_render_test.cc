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

#include "verbs/identity/device_kind.h"

namespace {

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SysfsRenderTest, AKindDeterminesNodeTypeAndGids) {
  urnic_device_kind other = urnic_device_kinds[URNIC_DEVICE_ROCE];
  other.node_type = "4: RNIC";
  other.gid_table_len = 1;
  std::vector<urnic_device_identity> devices(URNIC_MAX_PORTS);
  char error[256];
  ASSERT_EQ(urnic_device_identity_parse("loop|10.0.0.1/24;loop|10.1.0.1/24", 1,
                                        devices.data(), error, sizeof(error)),
            2)
      << error;
  devices[1].device_kind = &other;
  const std::filesystem::path root =
      std::filesystem::path(std::getenv("TEST_TMPDIR")) / "rendered";
  std::filesystem::create_directory(root);
  ASSERT_EQ(urnic_sysfs_render(root.c_str(), devices.data(), 2), 0);

  const std::filesystem::path all = root / "sys/class/infiniband";
  EXPECT_EQ(Read(all / "urnic0/node_type"), "1: CA\n");
  EXPECT_EQ(Read(all / "urnic1/node_type"), "4: RNIC\n");
  for (const char* table : {"gids", "gid_attrs/types", "gid_attrs/ndevs"}) {
    const auto port = std::filesystem::path("ports/1") / table;
    EXPECT_TRUE(std::filesystem::exists(all / "urnic0" / port / "33"));
    EXPECT_TRUE(std::filesystem::exists(all / "urnic1" / port / "0"));
    EXPECT_FALSE(std::filesystem::exists(all / "urnic1" / port / "1"));
  }
}

}  // namespace
