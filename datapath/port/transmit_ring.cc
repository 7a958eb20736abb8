#include "datapath/port/transmit_ring.h"

#include <net/ethernet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "datapath/guest/monotonic_clock.h"

namespace urnic {
namespace {

// The offset of the frame in a slot.
constexpr size_t kFrameAt = TPACKET2_HDRLEN - sizeof(sockaddr_ll);
// Without the FCS.
constexpr uint32_t kShortest = ETH_ZLEN;
constexpr uint8_t kEtherTypeOfNobody[] = {0x88, 0xb5};  // for local experiments

// The rings of this process, by their sockets. A ring belongs to the thread
// that sends as long as that is inside its device.
struct Entry {
  std::atomic<int> fd = -1;
  std::atomic<TransmitRing*> ring = nullptr;
};
std::array<Entry, 64> g_rings;

// Not the libc function: another preloaded library may have replaced it.
long SendTo(int fd, const void* bytes, size_t count, int flags,
            const sockaddr* to, socklen_t to_bytes) {
  return syscall(SYS_sendto, fd, bytes, count, flags, to, to_bytes);
}

TransmitRing* RingOf(int fd) {
  for (const Entry& entry : g_rings) {
    if (entry.fd.load(std::memory_order_acquire) == fd) {
      return entry.ring.load(std::memory_order_relaxed);
    }
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<TransmitRing> TransmitRing::Follow(int fd,
                                                   const tpacket_req& geometry,
                                                   int event_fd) {
  // The ring of received frames comes first.
  const size_t bytes =
      size_t{2} * geometry.tp_block_size * geometry.tp_block_nr;
  if (bytes == 0 || geometry.tp_frame_nr == 0) return nullptr;
  void* const map =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return nullptr;
  std::unique_ptr<TransmitRing> ring(
      new TransmitRing(fd, geometry, event_fd, map, bytes));
  for (Entry& entry : g_rings) {
    TransmitRing* none = nullptr;
    if (!entry.ring.compare_exchange_strong(none, ring.get())) continue;
    entry.fd.store(fd, std::memory_order_release);
    return ring;
  }
  return nullptr;
}

TransmitRing::TransmitRing(int fd, const tpacket_req& geometry, int event_fd,
                           void* map, size_t map_bytes)
    : fd_(fd),
      event_fd_(event_fd),
      map_(map),
      map_bytes_(map_bytes),
      first_slot_(static_cast<uint8_t*>(map) + map_bytes / 2),
      slot_bytes_(geometry.tp_frame_size),
      slots_(geometry.tp_frame_nr) {}

TransmitRing::~TransmitRing() {
  for (Entry& entry : g_rings) {
    if (entry.ring.load(std::memory_order_relaxed) != this) continue;
    entry.fd.store(-1, std::memory_order_release);
    entry.ring.store(nullptr, std::memory_order_release);
  }
  munmap(map_, map_bytes_);
}

tpacket2_hdr* TransmitRing::Slot(uint32_t i) const {
  return reinterpret_cast<tpacket2_hdr*>(first_slot_ + size_t{i} * slot_bytes_);
}

// The kernel writes the status, too.
bool TransmitRing::Waits(uint32_t i) const {
  return __atomic_load_n(&Slot(i)->tp_status, __ATOMIC_ACQUIRE) ==
         TP_STATUS_SEND_REQUEST;
}

// Frames leave in the order of the slots: those that wait are in one row, and
// the kernel begins with the first. If all wait, there is no first one, but
// then none has left since it was last known.
bool TransmitRing::FindHead() {
  for (uint32_t i = 0; i < slots_; ++i) {
    const uint32_t slot = (head_ + i) % slots_;
    if (!Waits(slot) || Waits(Before(slot))) continue;
    head_ = slot;
    return true;
  }
  return Waits(head_);
}

bool TransmitRing::IsDoubtful(const tpacket2_hdr& head, Time now) {
  if (head.tp_len <= kShortest) return false;
  if (head.tp_len >= limit_bytes_ && now < limit_until_) return true;
  if (tried_ != head_) {
    tried_ = head_;
    tried_since_ = now;
  }
  return now - tried_since_ >= kPatience;
}

long TransmitRing::OnRefusal() {
  const Time now = MonotonicNow();
  long result = -1;
  errno = ENOBUFS;
  while (result < 0 && errno == ENOBUFS && FindHead()) {
    const uint32_t bytes = Slot(head_)->tp_len;
    if (!IsDoubtful(*Slot(head_), now)) {
      errno = ENOBUFS;
      break;
    }
    tried_ = UINT32_MAX;
    if (!Replace(result)) {
      limit_bytes_ = UINT32_MAX;
      // If all wait, the first one may be another.
      head_ = (head_ + 1) % slots_;
      break;
    }
    Count(bytes, now);
  }
  return result;
}

// False: the interface refuses the short frame, too. Sets errno.
bool TransmitRing::Replace(long& result) {
  tpacket2_hdr* const slot = Slot(head_);
  uint8_t* const frame = reinterpret_cast<uint8_t*>(slot) + kFrameAt;
  const uint32_t bytes = slot->tp_len;
  std::array<uint8_t, kShortest> saved;
  std::memcpy(saved.data(), frame, saved.size());
  // The destination is our own address: a switch drops the frame, and no other
  // host accepts it.
  std::memset(frame, 0, kShortest);
  std::memcpy(frame, &saved[ETH_ALEN], ETH_ALEN);
  std::memcpy(frame + ETH_ALEN, &saved[ETH_ALEN], ETH_ALEN);
  std::memcpy(frame + 2 * ETH_ALEN, kEtherTypeOfNobody,
              sizeof(kEtherTypeOfNobody));
  slot->tp_len = kShortest;
  result = SendTo(fd_, nullptr, 0, MSG_DONTWAIT, nullptr, 0);
  if (!Waits(head_)) return true;
  slot->tp_len = bytes;
  std::memcpy(frame, saved.data(), saved.size());
  return false;
}

void TransmitRing::Count(uint32_t bytes, Time now) {
  limit_bytes_ = now < limit_until_ ? std::min(limit_bytes_, bytes) : bytes;
  limit_until_ = now + kMemory;
  refused_.store(refused_.load(std::memory_order_relaxed) + 1,
                 std::memory_order_relaxed);
  if (first_bytes_.load(std::memory_order_relaxed) != 0) return;
  first_bytes_.store(bytes, std::memory_order_relaxed);
  const int error = errno;
  const uint64_t one = 1;
  static_cast<void>(write(event_fd_, &one, sizeof(one)) == 0);
  errno = error;
}

// The names are the linker's.
extern "C" {

ssize_t __wrap_sendto(int fd, const void* bytes, size_t count, int flags,
                      const sockaddr* to, socklen_t to_bytes);

ssize_t __wrap_sendto(int fd, const void* bytes, size_t count, int flags,
                      const sockaddr* to, socklen_t to_bytes) {
  const long result = SendTo(fd, bytes, count, flags, to, to_bytes);
  if (__builtin_expect(result >= 0 || errno != ENOBUFS, 1)) return result;
  TransmitRing* const ring = RingOf(fd);
  return ring == nullptr ? result : ring->OnRefusal();
}
}

}  // namespace urnic
