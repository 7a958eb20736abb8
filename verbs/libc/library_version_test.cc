#include "verbs/libc/library_version.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace urnic {
namespace {

TEST(LibraryVersionTest, TheDistributionsIsTheOneThatWeAreBuiltFor) {
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(urnic_verbs_private_abi(library), URNIC_VERBS_PRIVATE);
  EXPECT_EQ(urnic_verbs_newest_minor(library), URNIC_VERBS_MINOR);
  dlclose(library);
}

TEST(LibraryVersionTest, ALaterOneSaysSo) {
  const char* root = getenv("TEST_SRCDIR");
  ASSERT_NE(root, nullptr);
  void* library = dlopen(
      (std::string(root) + "/urnic/verbs/libc/libnewer_verbs.so").c_str(),
      RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(urnic_verbs_private_abi(library), 65);
  EXPECT_EQ(urnic_verbs_newest_minor(library), 18);
  dlclose(library);
}

TEST(LibraryVersionTest, WhatIsNoLibibverbsHasNeither) {
  void* library = dlopen("libc.so.6", RTLD_LAZY);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(urnic_verbs_private_abi(library), 0);
  EXPECT_EQ(urnic_verbs_newest_minor(library), 0);
  dlclose(library);
}

}  // namespace
}  // namespace urnic
