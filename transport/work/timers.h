#pragma once

// The codes for times in RC attributes and headers.

#include <cstdint>

#include "transport/base/time.h"

namespace urnic {

// The time of a 5-bit RNR timer code (code 0 is the longest).
Duration RnrTimer(uint8_t code);

//= IBTA 9.9.2.1.1: the local ACK timeout is 4.096 us * 2^code; code 0 means "no
//= timeout" (the result is 0)
Duration AckTimeout(uint8_t code);

}  // namespace urnic
