#pragma once

// What the preload library offers to the provider in the same process.
//
// The two are separate shared objects that never link each other. The provider
// finds the preload by
//
//   const struct urnic_preload_api* api = dlsym(RTLD_DEFAULT,
//                                               URNIC_PRELOAD_SYMBOL);
//
// NULL means that the program was started without it; then there are no device
// nodes and no completion channels. The struct lives as long as the process.
// Later versions only append members and increase `size`; a change of meaning
// needs a new symbol name. C sources define _GNU_SOURCE first.

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URNIC_PRELOAD_SYMBOL "urnic_preload_v1"

typedef void (*urnic_signal_handler)(int signo, siginfo_t* info,
                                     void* ucontext);

// The provider's implementation of /dev/infiniband/rdma_cm. Several threads of
// the program may call it concurrently. Thread cancellation is off during each
// call.
struct urnic_rdma_cm_device {
  // The program opens the device. Returns the `file` argument of the other
  // functions, or NULL with errno set. `node` is for rdma_cm_set_ready().
  void* (*open)(void* node);
  // One command, as written. Returns 0 or -errno. -EAGAIN: the command must
  // wait for an event. It is repeated when the file is ready, unless the
  // program has set O_NONBLOCK or a signal interrupts it.
  int (*write)(void* file, const void* command, size_t size);
  // The program has closed it, and no write is running or will follow. Not
  // called at exit, nor in a forked child, which has no open files.
  void (*close)(void* file);
};

// For rdma_cm_set_ready(): an event was added; or none was, but some still
// wait.
#define URNIC_RDMA_CM_NEW_EVENT 1
#define URNIC_RDMA_CM_OLD_EVENTS 2

struct urnic_device_identity;  // verbs/identity/device_identity.h

struct urnic_preload_api {
  uint32_t size;  // of this struct, in bytes

  // Adds a completion event for the CQ to the channel, from any thread. Never
  // waits for the program to read. `cq_handle` is what ibv_get_cq_event
  // returns: the address of the struct ibv_cq, never 0.
  // Events go into a pipe and, when that is full (some 8000 unread ones, 512 if
  // the user has many pipes), into a set of CQs that the next read of the
  // channel or the next push moves on. In the set, the events of one CQ are
  // merged. Returns 1: one more event will be read. 0: the CQ is already in the
  // set, and no event was added: do not count one. -EBADF: no such channel.
  // -ENOMEM: not added.
  int (*channel_push)(int channel_fd, uint64_t cq_handle);

  // Removes the CQ's events that have not been read yet, and returns how many;
  // 0 when there is no such channel. For destroy_cq, which waits until the
  // program has acknowledged all others. REQUIRES: no concurrent push of the
  // same CQ.
  unsigned (*channel_drop)(int channel_fd, uint64_t cq_handle);

  // Makes `handler` the handler of SIGSEGV and SIGBUS, with SA_SIGINFO,
  // SA_ONSTACK and SA_RESTART, and keeps it installed. From now on, sigaction()
  // and its relatives only store the program's settings for these two signals
  // and return the previous ones. Call it once in each process, including a
  // forked child; -EBUSY after that. -errno if the kernel refuses.
  int (*set_signal_hooks)(urnic_signal_handler handler);

  // Performs the program's own action. Called by `handler` for a fault that is
  // not the RNIC's, with unchanged arguments, as its last step. Safe in signal
  // handlers. May not return (a program's handler may jump).
  void (*chain_signal)(int signo, siginfo_t* info, void* ucontext);

  // From now on the rdma_cm device can be opened; before, opening it fails with
  // ENODEV. The struct must live as long as the process. Call it once; -EBUSY
  // after that.
  int (*set_rdma_cm_device)(const struct urnic_rdma_cm_device* device);

  // Sets whether events wait for the program: 0, URNIC_RDMA_CM_NEW_EVENT or
  // URNIC_RDMA_CM_OLD_EVENTS. If so, poll reports it, and a waiting write is
  // repeated. Of a new event, edge-triggered waiters are told, too; old ones
  // mostly cost nothing. No concurrent calls for the same node. Call it
  // again after every write that took an event or returned -EAGAIN. Allowed
  // from open() until close() returns.
  void (*rdma_cm_set_ready)(void* node, int ready);

  // The `file` of a descriptor of the program, or NULL if the descriptor is not
  // ours. Another thread may close it in the meantime: the caller must check
  // that the file still exists.
  void* (*rdma_cm_file)(int fd);

  // The directory of this process (run_dir.h), or NULL. Exists as long as the
  // process.
  const char* (*run_dir)(void);

  // The device now has these GIDs: rewrites its files in sysfs, each
  // atomically. 0 or -errno. One call at a time.
  int (*set_gids)(const struct urnic_device_identity* device);

  // The port of the device with this name is now ACTIVE (1) or DOWN (0):
  // rewrites its state in sysfs. 0 or -errno. One call at a time.
  int (*set_port_active)(const char* device, int active);

  // A counter of the calling thread that changes whenever the thread changes
  // its signal mask. Valid as long as the thread. Not counted: siglongjmp(3),
  // setcontext(3) and raw system calls.
  const unsigned* (*mask_changes)(void);

  // What programs that had died left, and this process removed at its start, in
  // words: "run directory PATH of process 4711, NAME". `i` from 0; NULL: no
  // more. Each exists as long as the process.
  const char* (*removed)(int i);
};

// For the preload itself and for tests that link it.
extern const struct urnic_preload_api urnic_preload_v1;

#ifdef __cplusplus
}
#endif
