#include "verbs/rdmacm/device_files.h"

namespace urnic::rdmacm {

void* DeviceFiles::Open(void* node) {
  auto* file = new File;
  file->set_ready = preload_.rdma_cm_set_ready;
  file->node = node;
  file->channel = service_.OpenChannel(*file);
  std::lock_guard lock(mutex_);
  open_.insert(file);
  return file;
}

int DeviceFiles::Write(void* file, const void* command, size_t bytes) {
  return -RunCommand(service_, *static_cast<File*>(file)->channel, memory_,
                     *this, reinterpret_cast<uint64_t>(command), bytes);
}

void DeviceFiles::Close(void* pointer) {
  auto* file = static_cast<File*>(pointer);
  {
    std::lock_guard lock(mutex_);
    open_.erase(file);
  }
  service_.CloseChannel(file->channel);
  delete file;
}

EventChannel* DeviceFiles::Find(uint32_t fd) {
  auto* file = static_cast<File*>(preload_.rdma_cm_file(static_cast<int>(fd)));
  std::lock_guard lock(mutex_);
  // It may have been closed since the descriptor was looked up.
  return open_.contains(file) ? file->channel : nullptr;
}

}  // namespace urnic::rdmacm
