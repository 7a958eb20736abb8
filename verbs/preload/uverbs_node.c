#define _GNU_SOURCE
#include "verbs/preload/uverbs_node.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <unistd.h>

#include "verbs/preload/comp_channel.h"
#include "verbs/preload/fd_table.h"

int urnic_uverbs_open(int device, int flags) {
  int ends[2];
  if (pipe2(ends, flags & O_CLOEXEC) != 0) return -1;
  close(ends[1]);
  struct urnic_fd_object* node = urnic_fd_object_new(URNIC_FD_UVERBS, ends[0]);
  int err = node == NULL ? -errno : 0;
  if (err == 0) {
    node->device = device;
    err = urnic_fd_publish(node);
  }
  if (err == 0) return ends[0];
  if (node != NULL) urnic_fd_object_free(node);
  close(ends[0]);
  errno = -err;
  return -1;
}

static int create_comp_channel(const void* command, size_t size) {
  struct {
    struct ib_uverbs_cmd_hdr header;
    struct ib_uverbs_create_comp_channel body;
  } request;
  if (size < sizeof(request)) return -EINVAL;
  memcpy(&request, command, sizeof(request));
  struct ib_uverbs_create_comp_channel_resp response = {0};
  if (request.header.out_words * 4u < sizeof(response)) return -ENOSPC;
  int fd = urnic_channel_open();
  if (fd < 0) return fd;
  response.fd = (uint32_t)fd;
  memcpy((void*)(uintptr_t)request.body.response, &response, sizeof(response));
  return 0;
}

ssize_t urnic_uverbs_write(const void* command, size_t size) {
  struct ib_uverbs_cmd_hdr header;
  int rc = -EINVAL;
  if (size >= sizeof(header)) {
    memcpy(&header, command, sizeof(header));
    rc = header.command == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL
             ? create_comp_channel(command, size)
             : -EOPNOTSUPP;
  }
  if (rc == 0) return (ssize_t)size;
  errno = -rc;
  return -1;
}
