// The same for tests.

#include <gtest/gtest.h>

#include "verbs/control/precompiled.h"
