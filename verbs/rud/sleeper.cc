#include "verbs/rud/sleeper.h"

#include <poll.h>

#include <cerrno>
#include <ctime>

namespace urnic::rud {

std::unique_ptr<Sleeper> Sleeper::Make(
    std::span<const std::unique_ptr<WindowAdapter>> adapters) {
  const urnic_dv_handler_attr attr = {};
  urnic_dv_handler* const handler =
      urnic_dv_table_v1.create_handler(adapters[0]->context(), &attr);
  if (handler == nullptr) return nullptr;
  const auto bind_all = [&](uint32_t count) {
    const urnic_dv_wake_attr wake = {.comp_mask = 0,
                                     .flags = 0,
                                     .entries = 1,
                                     .delay_us = 0,
                                     .count = count,
                                     .handlers = &handler};
    int error = 0;
    for (size_t i = 0; i < adapters.size() && error == 0; ++i)
      error = urnic_dv_table_v1.bind_handlers(adapters[i]->qp(), &wake);
    return error;
  };
  const int error = bind_all(1);
  if (error == 0) return std::unique_ptr<Sleeper>(new Sleeper(handler));
  bind_all(0);
  urnic_dv_table_v1.destroy_handler(handler->context, handler);
  errno = error;
  return nullptr;
}

Sleeper::~Sleeper() {
  urnic_dv_table_v1.destroy_handler(handler_->context, handler_);
}

void Sleeper::BecomeReady() {
  urnic_dv_table_v1.arm_handler(handler_->context, handler_);
}

int Sleeper::Sleep(Duration timeout) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec time = {timeout.ns() / kSecond, timeout.ns() % kSecond};
  pollfd fd = {handler_->fd, POLLIN, 0};
  const int count =
      ppoll(&fd, 1, timeout < Duration() ? nullptr : &time, nullptr);
  if (count < 0) return errno;
  return count == 0 ? ETIMEDOUT : 0;
}

void Sleeper::BecomeBusy() {
  urnic_dv_table_v1.disarm_handler(handler_->context, handler_);
}

}  // namespace urnic::rud
