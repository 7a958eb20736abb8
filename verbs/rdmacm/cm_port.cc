#include "verbs/rdmacm/cm_port.h"

#include "verbs/rdmacm/ib_cm_port.h"
#include "verbs/rdmacm/iw_cm_port.h"

namespace urnic::rdmacm {

int CmPort::Open() {
  std::lock_guard lock(open_mutex_);
  if (open_.load()) return 0;
  if (const int error = rnic_.Open()) return error;
  Call([this] {
    Attach();
    return 0;
  });
  open_.store(true);
  return 0;
}

std::unique_ptr<CmPort> MakeCmPort(Rnic& rnic, CmEvents& events,
                                   const NumberKey& key, Lessor* lessor) {
  if (TcpConnections* const tcp = rnic.tcp(); tcp != nullptr) {
    return std::make_unique<IwCmPort>(rnic, *tcp, events);
  }
  return std::make_unique<IbCmPort>(rnic, events, key, lessor);
}

}  // namespace urnic::rdmacm
