// The same for tests.

#include <gtest/gtest.h>

#include "third_party/precompiled/common.h"
