#include "verbs/libc/library_version.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace urnic {
namespace {

TEST(LibraryVersionTest, TheInstalledLibraryIsKnown) {
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  const urnic_verbs_version version = urnic_verbs_version_of(library);
  EXPECT_GE(version.private_abi, 34);
  EXPECT_GE(version.newest_minor, 14);
  EXPECT_TRUE(urnic_verbs_is_known(version));
  dlclose(library);
}

TEST(LibraryVersionTest, ANewerLibraryIsUnknown) {
  const char* root = getenv("TEST_SRCDIR");
  ASSERT_NE(root, nullptr);
  void* library = dlopen(
      (std::string(root) + "/urnic/verbs/libc/libnewer_verbs.so").c_str(),
      RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  const urnic_verbs_version version = urnic_verbs_version_of(library);
  EXPECT_EQ(version.private_abi, 99);
  EXPECT_EQ(version.newest_minor, 99);
  EXPECT_FALSE(urnic_verbs_is_known(version));
  dlclose(library);
}

TEST(LibraryVersionTest, BothNumbersCount) {
  EXPECT_TRUE(urnic_verbs_is_known({59, 15}));
  EXPECT_TRUE(urnic_verbs_is_known({59, 16}));
  EXPECT_FALSE(urnic_verbs_is_known({59, 17}));
  EXPECT_FALSE(urnic_verbs_is_known({34, 13}));
  EXPECT_FALSE(urnic_verbs_is_known({34, 15}));
  EXPECT_FALSE(urnic_verbs_is_known({66, 18}));
}

TEST(LibraryVersionTest, AnotherLibraryHasNeitherNumber) {
  void* library = dlopen("libc.so.6", RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  const urnic_verbs_version version = urnic_verbs_version_of(library);
  EXPECT_EQ(version.private_abi, 0);
  EXPECT_EQ(version.newest_minor, 0);
  dlclose(library);
}

}  // namespace
}  // namespace urnic
