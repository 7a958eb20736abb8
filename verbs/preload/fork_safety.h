#pragma once

// Work for the child of a fork, registered only once there is something to do.
// Not called in vfork children: those borrow their parent's memory and must not
// change it.

// Calls `in_child` in every later child of fork(). Each function is registered
// once however often it is given. Room for URNIC_FORK_FUNCTIONS of them.
#define URNIC_FORK_FUNCTIONS 4
void urnic_fork_safety_on(void (*in_child)(void));
