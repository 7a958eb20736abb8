#pragma once

// The library is compiled with hidden visibility; only what has this mark
// shows.
#define URNIC_EXPORT __attribute__((visibility("default")))
