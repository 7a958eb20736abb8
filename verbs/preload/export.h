#ifndef URNIC_VERBS_PRELOAD_EXPORT_H_
#define URNIC_VERBS_PRELOAD_EXPORT_H_

// The library is compiled with hidden visibility; only what has this mark
// shows.
#define URNIC_EXPORT __attribute__((visibility("default")))

#endif  // URNIC_VERBS_PRELOAD_EXPORT_H_
