#include "verbs/control/rud_memory.h"

#include <sys/mman.h>

#include <bit>
#include <optional>

#include "absl/strings/str_cat.h"
#include "datapath/engine/environment.h"
#include "datapath/guest/give_way.h"
#include "ras/errors/refusal.h"
#include "transport/base/check.h"
#include "verbs/control/device.h"
#include "verbs/control/mapped_range.h"

namespace urnic::control {
namespace {

// Per table, 4 GB in pages of 4 KB, or 2 TB in pages of 2 MB.
constexpr size_t kEntriesOfTable = size_t{1} << 20;
constexpr size_t kEntries = rud::TceTables::kTables * kEntriesOfTable;

constexpr uint32_t kRights =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;

// Takes address space, but no memory before it is used.
std::span<rud::Tce> Map() {
  void* const at =
      mmap(nullptr, kEntries * sizeof(rud::Tce), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return {};
  return {static_cast<rud::Tce*>(at), kEntries};
}
std::span<rud::Tce> Storage() {
  static const std::span<rud::Tce> storage = Map();
  return storage;
}

// The pages of a registration need not be the pages of its memory. Larger pages
// need fewer entries, which are faster to write; smaller pages waste less of a
// table.
rud::PageSize PageSizeFor(uint64_t bytes) {
  constexpr uint64_t kMany = 4096;
  for (const rud::PageSize size :
       {rud::PageSize::k4K, rud::PageSize::k64K, rud::PageSize::k2M}) {
    if (bytes >> rud::PageShift(size) <= kMany) return size;
  }
  return rud::PageSize::k1G;
}

}  // namespace

RudMemory::RudMemory(std::span<rud::Tce> storage)
    : tces_(storage, Environment::Draw()) {}

absl::StatusOr<RudMemory*> RudMemory::Find() {
  if (Storage().empty()) {
    return Refusal(ErrorCode::kNoMemory,
                   absl::StrCat("RUD: no address space for ",
                                (kEntries * sizeof(rud::Tce)) >> 20,
                                " MB of translation tables"));
  }
  static RudMemory* const memory = new RudMemory(Storage());
  return memory;
}

absl::StatusOr<rud::Pvo> RudMemory::Register(Device& device, uint32_t job,
                                             const MrRequest& request) {
  const uint64_t end = request.address + request.bytes;
  if (job == 0 || request.bytes == 0 || end < request.address ||
      request.bytes > kMaxMrBytes || (request.access & ~kRights) != 0) {
    return Refusal(
        ErrorCode::kBadAttribute,
        absl::StrCat("register: job ", job, ", ", request.bytes, " bytes at 0x",
                     absl::Hex(request.address), ", access 0x",
                     absl::Hex(request.access),
                     ": a job is not 0, a range not empty, and access is local "
                     "write (1), remote write (2) and remote read (4)"));
  }
  constexpr uint32_t kWrites = mem::kLocalWrite | mem::kRemoteWrite;
  if (absl::Status s = CheckMapped(request.address, request.bytes,
                                   (request.access & kWrites) != 0);
      !s.ok()) {
    return s;
  }
  device.GuardMemory();
  const auto add = [&]() -> std::optional<rud::Pvo> {
    std::lock_guard lock(mutex_);
    if (Snapshot() == 0) tces_.Reclaim();
    const auto pvo = tces_.Register(job, request.address, request.bytes,
                                    request.access, PageSizeFor(request.bytes));
    if (pvo.has_value()) ++registrations_[job];
    return pvo;
  };
  auto pvo = add();
  if (!pvo.has_value() && Snapshot() != 0) {
    Await();
    pvo = add();
  }
  if (pvo.has_value()) return *pvo;
  return Refusal(ErrorCode::kNoPlace,
                 absl::StrCat("register: no table has room for ", request.bytes,
                              " bytes of job ", job));
}

absl::Status RudMemory::Revoke(uint32_t job, rud::Pvo pvo) {
  std::lock_guard lock(mutex_);
  if (!tces_.Deregister(job, pvo)) {
    return Refusal(ErrorCode::kBadAttribute,
                   absl::StrCat("deregister: job ", job,
                                " has no registration that begins at PVO 0x",
                                absl::Hex(pvo.value)));
  }
  const auto left = registrations_.find(job);
  if (--left->second == 0) {
    registrations_.erase(left);
    tces_.Disown(job);  // other jobs can now get its tables
  }
  views_.TakeSnapshot();
  return absl::OkStatus();
}

void RudMemory::RevokeJob(uint32_t job) {
  std::lock_guard lock(mutex_);
  if (registrations_.erase(job) == 0) return;
  tces_.Disown(job);
  views_.TakeSnapshot();
}

absl::Status RudMemory::Deregister(uint32_t job, rud::Pvo pvo) {
  absl::Status status = Revoke(job, pvo);
  if (status.ok()) Await();
  return status;
}

void RudMemory::Await() const {
  // A burst takes microseconds, unless its thread loses the CPU.
  while (Snapshot() != 0) GiveWay();
}

absl::StatusOr<std::unique_ptr<const RudMemory::User>> RudMemory::AddUser(
    Engine& engine) {
  std::lock_guard lock(mutex_);
  Uses& uses = users_[&engine];
  if (uses.windows == 0) {
    uses.task = static_cast<uint32_t>(std::countr_one(tasks_));
    if (uses.task == rud::TaskViews<std::atomic>::kTasks) {
      users_.erase(&engine);
      return Refusal(ErrorCode::kNoPlace,
                     "create_window: 64 ports of this process have windows");
    }
    tasks_ |= uint64_t{1} << uses.task;
  }
  ++uses.windows;
  return std::unique_ptr<const User>(
      new User(*this, engine, {&views_, uses.task}));
}

void RudMemory::RemoveUser(Engine& engine) {
  std::lock_guard lock(mutex_);
  Uses& uses = users_.at(&engine);
  if (--uses.windows != 0) return;
  tasks_ &= ~(uint64_t{1} << uses.task);
  users_.erase(&engine);
}

}  // namespace urnic::control
