#pragma once

#include "transport/base/random.h"

namespace urnic::testing {

using urnic::Random;

}  // namespace urnic::testing
