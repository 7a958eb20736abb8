// The same for tests.

#include <gtest/gtest.h>

#include "datapath/engine/precompiled.h"
#include "datapath/nic/nic.h"
