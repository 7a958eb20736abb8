#pragma once

// The library is compiled with hidden visibility; only symbols with this mark
// are exported.
#define URNIC_EXPORT __attribute__((visibility("default")))
