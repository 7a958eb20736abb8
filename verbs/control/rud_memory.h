#pragma once

// The memory of this process that RUD windows, on all its NICs, may access: the
// TCE tables (transport/rud/tce_tables.h), with the functions that a program
// needs.
//
// Threads: any. Never destroyed, because windows may outlive main().

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
  // The only object. RESOURCE_EXHAUSTED: no address space for the tables.
  static absl::StatusOr<RudMemory*> Find();

  // Registers memory for windows of this job, and returns the PVO of the first
  // byte. Of `request`, it uses address, bytes and access (local write, remote
  // write, remote read). Pins nothing, as Mr::Register(), and has the same
  // errors. RESOURCE_EXHAUSTED: the job's tables have no room, and no other
  // table is free.
  absl::StatusOr<rud::Pvo> Register(Device& device, uint32_t job,
                                    const MrRequest& request);
  // Ends a registration, but does not wait until the memory is no longer
  // accessed: see Snapshot(). INVALID_ARGUMENT: this job has no registration
  // that begins at this PVO.
  absl::Status Revoke(uint32_t job, rud::Pvo pvo);
  // Ends all registrations of the job.
  void RevokeJob(uint32_t job);
  // The engines that may still access revoked memory, a bit for each. 0: none
  // does.
  uint64_t Snapshot() const { return views_.ReadSnapshot(); }
  // Revoke(). Returns when the memory is no longer accessed.
  absl::Status Deregister(uint32_t job, rud::Pvo pvo);

  // A use of the tables by an engine, one for each of its windows.
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
  // RESOURCE_EXHAUSTED: TaskViews::kTasks other engines have windows.
  absl::StatusOr<std::unique_ptr<const User>> AddUser(Engine& engine);

 private:
  explicit RudMemory(std::span<rud::Tce> storage);

  void RemoveUser(Engine& engine);
  // Waits until revoked memory is no longer accessed.
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
  uint64_t tasks_ = 0;  // those in use, a bit for each
};

}  // namespace urnic::control
