// The instructions of half a trip of ib_send_lat, through the verbs, including
// reception: each side separately, in user mode, counted by single-stepping.
//
//   urnic run --port A --port B -- half_trip      A and B see each other
//
// Both ends are in one thread and take turns, so that no poll is wasted. It
// does what ib_send_lat does, request by request: 2 bytes, inline; a send and a
// receive completion queue; a send's completion is awaited before the answer.
//
// A forked process steps the program. First it stops the other threads:
// stepping is so slow that the helper threads would take the program for one
// that does not poll. bench/half_trip.sh provides the ports.

#include <dirent.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr uint32_t kBytes = 2;
constexpr uint32_t kInline = 236;  // what ib_send_lat asks for
constexpr uint8_t kGidIndex = 3;   // RoCE v2 over IPv4

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "half_trip: %s: %s\n", what.c_str(),
               std::strerror(errno));
  std::exit(1);
}

struct Side {
  ibv_cq* send_cq;
  ibv_cq* recv_cq;
  ibv_qp* qp;
  ibv_mr* mr;
  ibv_gid gid;
  uint64_t polls = 0;
  uint8_t memory[64] = {};
};

void MoveTo(Side& side, const Side* peer, ibv_qp_state state) {
  ibv_qp_attr attr = {};
  int mask = IBV_QP_STATE;
  attr.qp_state = state;
  switch (state) {
    case IBV_QPS_INIT:
      attr.port_num = 1;
      mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      break;
    case IBV_QPS_RTR:
      attr.path_mtu = IBV_MTU_1024;
      attr.dest_qp_num = peer->qp->qp_num;
      attr.min_rnr_timer = 12;
      attr.ah_attr.is_global = 1;
      attr.ah_attr.port_num = 1;
      attr.ah_attr.grh.dgid = peer->gid;
      attr.ah_attr.grh.sgid_index = kGidIndex;
      attr.ah_attr.grh.hop_limit = 64;
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      break;
    default:
      attr.timeout = 20;  // 4 s: steps are slow
      attr.retry_cnt = attr.rnr_retry = 7;
      mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
              IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  // The ports may not have found each other yet.
  for (int tries = 0; tries < 30; ++tries) {
    errno = ibv_modify_qp(side.qp, &attr, mask);
    if (errno != ETIMEDOUT) break;
  }
  if (errno != 0) Die("ibv_modify_qp");
}

void Open(ibv_device* device, Side& side) {
  ibv_context* const context = ibv_open_device(device);
  if (context == nullptr) Die("ibv_open_device");
  ibv_pd* const pd = ibv_alloc_pd(context);
  if (pd == nullptr) Die("ibv_alloc_pd");
  side.mr =
      ibv_reg_mr(pd, side.memory, sizeof(side.memory), IBV_ACCESS_LOCAL_WRITE);
  if (side.mr == nullptr) Die("ibv_reg_mr");
  side.send_cq = ibv_create_cq(context, 128, nullptr, nullptr, 0);
  side.recv_cq = ibv_create_cq(context, 128, nullptr, nullptr, 0);
  if (side.send_cq == nullptr || side.recv_cq == nullptr) Die("ibv_create_cq");
  ibv_qp_init_attr attr = {};
  attr.send_cq = side.send_cq;
  attr.recv_cq = side.recv_cq;
  attr.cap = {.max_send_wr = 1,
              .max_recv_wr = 8,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = kInline};
  attr.qp_type = IBV_QPT_RC;
  side.qp = ibv_create_qp(pd, &attr);
  if (side.qp == nullptr) Die("ibv_create_qp");
  if (ibv_query_gid(context, 1, kGidIndex, &side.gid) != 0) {
    Die("ibv_query_gid");
  }
  MoveTo(side, nullptr, IBV_QPS_INIT);
}

void PostRecv(Side& side) {
  ibv_sge sge = {reinterpret_cast<uint64_t>(side.memory), kBytes,
                 side.mr->lkey};
  ibv_recv_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  errno = ibv_post_recv(side.qp, &wr, &bad);
  if (errno != 0) Die("ibv_post_recv");
}

void PostSend(Side& side) {
  ibv_sge sge = {reinterpret_cast<uint64_t>(side.memory) + 32, kBytes,
                 side.mr->lkey};
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  errno = ibv_post_send(side.qp, &wr, &bad);
  if (errno != 0) Die("ibv_post_send");
}

void Await(Side& side, ibv_cq* cq) {
  ibv_wc wc;
  int found;
  do {
    ++side.polls;
    found = ibv_poll_cq(cq, 1, &wc);
  } while (found == 0);
  if (found < 0 || wc.status != IBV_WC_SUCCESS) Die("ibv_poll_cq");
}

// The counted part. The answer and the acknowledgement of the last send are on
// the wire; this receives them and sends the next message.
[[gnu::noinline]] void HalfTrip(Side& side) {
  Await(side, side.send_cq);
  Await(side, side.recv_cq);
  PostRecv(side);
  PostSend(side);
}

// --- The steps ---------------------------------------------------------------

// Shared with the process that steps.
struct Progress {
  std::atomic<uint32_t> begun;  // half trips; even numbers are the first side's
  std::atomic<uint64_t> polls;  // of both
  std::atomic<bool> counted;
};

std::vector<pid_t> ThreadsOf(pid_t process) {
  std::vector<pid_t> threads;
  const std::string path = "/proc/" + std::to_string(process) + "/task";
  DIR* const tasks = opendir(path.c_str());
  if (tasks == nullptr) Die(path);
  while (const dirent* entry = readdir(tasks)) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread > 0) threads.push_back(thread);
  }
  closedir(tasks);
  return threads;
}

void Stop(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, 0, 0) != 0 ||
      ptrace(PTRACE_INTERRUPT, thread, 0, 0) != 0 ||
      waitpid(thread, nullptr, __WALL) != thread) {
    Die("ptrace");
  }
}

// Executes one instruction, and delivers a pending signal.
void Step(pid_t thread) {
  static int signal = 0;
  int status = 0;
  if (ptrace(PTRACE_SINGLESTEP, thread, 0, signal) != 0 ||
      waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status)) {
    Die("ptrace");
  }
  signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
}

// Counts in `process`, whose first thread makes the trips.
void Count(pid_t process, Progress& progress) {
  constexpr uint32_t kHalfTrips = 100;
  // After so many half trips the helpers have left the engines to the program.
  while (progress.begun.load() < 100000) usleep(1000);
  const std::vector<pid_t> threads = ThreadsOf(process);
  for (const pid_t thread : threads) {
    if (thread != process) Stop(thread);
  }
  Stop(process);
  const auto at_next = [&](uint32_t begun) {
    uint64_t steps = 0;
    for (; progress.begun.load() == begun; ++steps) Step(process);
    return steps;
  };
  at_next(progress.begun.load());  // not from the middle of one
  std::vector<uint64_t> counts[2];
  const uint64_t polls = progress.polls.load();
  for (uint32_t i = 0; i < kHalfTrips; ++i) {
    const uint32_t begun = progress.begun.load();
    counts[begun % 2].push_back(at_next(begun));
  }
  for (int side = 0; side < 2; ++side) {
    std::sort(counts[side].begin(), counts[side].end());
    std::printf("half a trip, %s device: %llu instructions (%llu to %llu)\n",
                side == 0 ? "first " : "second",
                (unsigned long long)counts[side][counts[side].size() / 2],
                (unsigned long long)counts[side].front(),
                (unsigned long long)counts[side].back());
  }
  std::printf("looks at a queue in each half: %.2f\n",
              static_cast<double>(progress.polls.load() - polls) / kHalfTrips);
  progress.counted.store(true);
  for (const pid_t thread : threads) ptrace(PTRACE_DETACH, thread, 0, 0);
}

}  // namespace

int main() {
  auto* const progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (progress == MAP_FAILED) Die("mmap");
  const pid_t self = getpid();
  const pid_t counter = fork();
  if (counter < 0) Die("fork");
  if (counter == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Count(self, *progress);
    return 0;
  }
  prctl(PR_SET_PTRACER, counter);
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (count != 2) Die("two devices are needed, not " + std::to_string(count));
  static Side first;
  static Side second;
  Open(devices[0], first);
  Open(devices[1], second);
  for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    MoveTo(first, &second, state);
    MoveTo(second, &first, state);
  }
  for (int i = 0; i < 4; ++i) {
    PostRecv(first);
    PostRecv(second);
  }
  PostSend(first);
  Await(second, second.recv_cq);
  PostSend(second);
  for (uint32_t begun = 0; !progress->counted.load(); begun += 2) {
    progress->begun.store(begun);
    HalfTrip(first);
    progress->polls.store(first.polls + second.polls);
    progress->begun.store(begun + 1);
    HalfTrip(second);
  }
  int status = 0;
  waitpid(counter, &status, 0);
  return status;
}
