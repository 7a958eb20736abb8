#pragma once

// What the preload library offers to the provider in the same process.
//
// The two are separate shared objects that never link each other. The provider
// finds the preload by
//
//   const struct urnic_preload_api* api = dlsym(RTLD_DEFAULT,
//                                               URNIC_PRELOAD_SYMBOL);
//
// NULL means that the program was started without it; then there is no device
// node and no completion channel either. The struct lives as long as the
// process. A later version only appends members and raises `size`; a change of
// meaning gets a new symbol name. C sources define _GNU_SOURCE first.

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define URNIC_PRELOAD_SYMBOL "urnic_preload_v1"

typedef void (*urnic_signal_handler)(int signo, siginfo_t* info,
                                     void* ucontext);

// What the provider does behind /dev/infiniband/rdma_cm. Any thread of the
// program may come, several at once; thread cancellation is off meanwhile.
struct urnic_rdma_cm_device {
  // The program opens the device: returns what the other functions get as
  // `file`, or NULL with errno set. `node` is for rdma_cm_set_ready().
  void* (*open)(void* node);
  // One command, as written: 0, or -errno. -EAGAIN says that it has to wait for
  // an event: it is given again when the file is ready, unless the program has
  // set O_NONBLOCK or a signal interrupts it.
  int (*write)(void* file, const void* command, size_t size);
  // The program has closed it, and no write is under way or will come. Not
  // called at exit, nor in a forked child, which has no open files.
  void (*close)(void* file);
};

struct urnic_device_identity;  // verbs/identity/device_identity.h

struct urnic_preload_api {
  uint32_t size;  // of this struct, in bytes

  // Adds a completion event for the CQ to the channel, from any thread. Never
  // waits for the program to read. `cq_handle` is what ibv_get_cq_event hands
  // back: the address of the struct ibv_cq, never 0.
  // Events go into a pipe and, when that is full (some 8000 unread ones, 512 if
  // the user has many pipes), into a set of CQs that the next read of the
  // channel or the next push moves on. In the set, events of one CQ become one.
  // Returns 1: one more event will be read. 0: the CQ already waits in the set
  // and no event was added, do not count one. -EBADF: no such channel.
  // -ENOMEM: not added.
  int (*channel_push)(int channel_fd, uint64_t cq_handle);

  // Removes the CQ's events that have not been read yet, and returns how many;
  // 0 when there is no such channel. For destroy_cq, which waits until the
  // program has acknowledged all others. No push of the same CQ may run
  // meanwhile.
  unsigned (*channel_drop)(int channel_fd, uint64_t cq_handle);

  // Makes `handler` the handler of SIGSEGV and SIGBUS, with SA_SIGINFO,
  // SA_ONSTACK and SA_RESTART, and keeps it: from now on sigaction() and its
  // relatives for these two only remember what the program asks for and tell it
  // what it asked for before. To be called once in each process, a forked
  // child being another (-EBUSY after that); -errno if the kernel refuses.
  int (*set_signal_hooks)(urnic_signal_handler handler);

  // Does what the program's own action would have done. For `handler` when the
  // fault is not its own; its arguments unchanged, as the handler's last act.
  // Safe in signal handlers. May not return (a program's handler may jump).
  void (*chain_signal)(int signo, siginfo_t* info, void* ucontext);

  // From now on the rdma_cm device can be opened; without, that is ENODEV. The
  // struct must live as long as the process. Once: -EBUSY after that.
  int (*set_rdma_cm_device)(const struct urnic_rdma_cm_device* device);

  // Events wait for the program (poll says so, and a write that waits is given
  // again), or none do. The caller calls for one node at a time, and again
  // after every write that took an event or got -EAGAIN. From open() until
  // close() returns.
  void (*rdma_cm_set_ready)(void* node, int ready);

  // The `file` behind a descriptor of the program, or NULL if it is none of
  // ours. Another thread may close it meanwhile: the caller knows its files.
  void* (*rdma_cm_file)(int fd);

  // The directory of this process (run_dir.h), or NULL if there is none. Lives
  // as long as the process.
  const char* (*run_dir)(void);

  // The device has these GIDs now: rewrites its files in sysfs, each at once.
  // 0 or -errno. One call at a time.
  int (*set_gids)(const struct urnic_device_identity* device);

  // The port of the device with this name is ACTIVE (1) or DOWN (0) now:
  // rewrites what sysfs says of it. 0 or -errno. One call at a time.
  int (*set_port_active)(const char* device, int active);

  // A number of the calling thread that changes whenever the thread changes its
  // signal mask. Lives as long as the thread. Not counted: masks that
  // siglongjmp(3) and setcontext(3) restore, and raw system calls.
  const unsigned* (*mask_changes)(void);
};

// The symbol, for the preload itself and for tests that link it.
extern const struct urnic_preload_api urnic_preload_v1;

#ifdef __cplusplus
}
#endif
