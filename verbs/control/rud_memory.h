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
#include "transport/rud/task_views.h"
#include "transport/rud/tce_tables.h"
#include "verbs/control/mr.h"

namespace urnic::control {

class RudMemory {
 public:
  // RESOURCE_EXHAUSTED: no address space for the tables.
  static absl::StatusOr<RudMemory*> Find();

  // The PVO of the first byte, for windows of this job. Of `request`: address,
  // bytes, access (local write, remote write, remote read). Pins nothing, as
  // Mr::Register(), whose errors it has; RESOURCE_EXHAUSTED: no table is free,
  // or those of the job have no room.
  absl::StatusOr<rud::Pvo> Register(Device& device, uint32_t job,
                                    const MrRequest& request);
  // Takes the memory away, and does not wait until nobody touches it any more:
  // see Snapshot(). INVALID_ARGUMENT: it is not the PVO of a registration of
  // this job.
  absl::Status Revoke(uint32_t job, rud::Pvo pvo);
  // All registrations of the job.
  void RevokeJob(uint32_t job);
  // The engines that may still touch memory which was taken away before, a bit
  // for each; 0: none does.
  uint64_t Snapshot() const { return views_.ReadSnapshot(); }
  // Revoke(), and returns when the memory is not touched any more.
  absl::Status Deregister(uint32_t job, rud::Pvo pvo);

  // An engine as long as it has a window.
  class User {
   public:
    ~User() { memory_.RemoveUser(engine_); }
    User(const User&) = delete;
    User& operator=(const User&) = delete;
    const rud::Task& task() const { return task_; }
    const rud::TceTables& tces() const { return memory_.tces_; }

   private:
    friend class RudMemory;
    User(RudMemory& memory, Engine& engine, const rud::Task& task)
        : memory_(memory), engine_(engine), task_(task) {}

    RudMemory& memory_;
    Engine& engine_;
    const rud::Task task_;
  };
  // RESOURCE_EXHAUSTED: TaskViews::kTasks engines have windows.
  absl::StatusOr<std::unique_ptr<const User>> AddUser(Engine& engine);

 private:
  explicit RudMemory(std::span<rud::Tce> storage);

  void RemoveUser(Engine& engine);
  // Waits until nobody touches what was taken away.
  void Await() const;

  std::mutex mutex_;
  rud::TceTables tces_;
  rud::TaskViews<std::atomic> views_;
  std::map<uint32_t, uint32_t> registrations_;  // of each job
  struct Uses {
    uint32_t task = 0;
    uint32_t windows = 0;
  };
  std::map<const Engine*, Uses> users_;
  uint64_t tasks_ = 0;  // a bit for each that is in use
};

}  // namespace urnic::control
