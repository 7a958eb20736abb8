#pragma once

// Handlers that run in the child of a fork, registered only when they are
// needed. They are not called in vfork children, which share their parent's
// memory and must not change it.

// Calls `in_child` in every later child of fork(). Registering a function again
// has no effect. There is room for URNIC_FORK_FUNCTIONS functions.
#define URNIC_FORK_FUNCTIONS 4
void urnic_fork_safety_on(void (*in_child)(void));
