#pragma once

// For tests whose main() is preloaded_main.cc.

#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs/preload/preload_api.h"

namespace urnic {

inline const urnic_preload_api& PreloadApi() {
  return *static_cast<const urnic_preload_api*>(
      dlsym(RTLD_DEFAULT, URNIC_PRELOAD_SYMBOL));
}

// The ordinal of the device behind an open uverbs node, as fstat(2) tells it;
// -1 if it is not such a node.
inline int DeviceOf(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISCHR(st.st_mode)) return -1;
  return static_cast<int>(minor(st.st_rdev)) - 192;
}

// Writes a command to the open node, as ibv_create_comp_channel does. Returns
// the channel's descriptor or -1.
inline int CreateChannel(int node) {
  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_create_comp_channel body;
  } command{};
  ib_uverbs_create_comp_channel_resp response{};
  command.header.command = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL;
  command.header.in_words = sizeof(command) / 4;
  command.header.out_words = sizeof(response) / 4;
  command.body.response = reinterpret_cast<uint64_t>(&response);
  if (write(node, &command, sizeof(command)) != sizeof(command)) return -1;
  return static_cast<int>(response.fd);
}

// A channel and the node that created it; closes both.
class Channel {
 public:
  Channel()
      : node_(open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC)),
        fd_(CreateChannel(node_)) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() {
    if (fd_ >= 0) close(fd_);
    close(node_);
  }
  int fd() const { return fd_; }
  int node() const { return node_; }
  int Push(uint64_t handle) { return PreloadApi().channel_push(fd_, handle); }
  unsigned Drop(uint64_t handle) {
    return PreloadApi().channel_drop(fd_, handle);
  }
  // The next event, or 0 if there is none (on a non-blocking channel).
  uint64_t Read() {
    uint64_t handle = 0;
    return read(fd_, &handle, sizeof(handle)) == sizeof(handle) ? handle : 0;
  }
  void SetNonBlocking() { fcntl(fd_, F_SETFL, O_NONBLOCK); }

 private:
  int node_;
  int fd_;
};

}  // namespace urnic
