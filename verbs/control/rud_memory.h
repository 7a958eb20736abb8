#pragma once

// The memory of this process that windows of RUD may access, on all its NICs:
// the TCE tables (transport/rud/tce_tables.h), with what a program may do with
// them.
//
// Threads: any. Never destroyed: windows may outlive main().

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/rud/tce_tables.h"
#include "verbs/control/mr.h"

namespace urnic::control {

class RudMemory {
 public:
  // REQUIRES: there was room, which Prepare() tells.
  static RudMemory& Of();
  // RESOURCE_EXHAUSTED: no address space for the tables.
  static absl::Status Prepare();

  const rud::TceTables& tces() const { return tces_; }

  // The PVO of the first byte, for windows of this job. Of `request`: address,
  // bytes, access (local write, remote write, remote read). Pins nothing, as
  // Mr::Register(), whose errors it has; RESOURCE_EXHAUSTED: no table is free,
  // or those of the job have no room.
  absl::StatusOr<rud::Pvo> Register(Device& device, uint32_t job,
                                    const MrRequest& request);
  // When it returns, the memory is not touched any more. INVALID_ARGUMENT: it
  // is not the PVO of a registration of this job.
  absl::Status Deregister(uint32_t job, rud::Pvo pvo);

  // The engine of a window that may access memory: Deregister() waits for it.
  void AddUser(Engine* engine);
  void RemoveUser(Engine* engine);

 private:
  explicit RudMemory(std::span<rud::Tce> storage);

  std::mutex mutex_;
  rud::TceTables tces_;
  std::map<uint32_t, uint32_t> registrations_;  // of each job
  std::map<Engine*, uint32_t> users_;           // windows of each
};

}  // namespace urnic::control
