#include "bench/verbs_tests.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "bench/write_stream.h"

namespace urnic::bench {
namespace {

double Percentile(std::vector<int64_t>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return static_cast<double>(sorted[static_cast<size_t>(last * share)]);
}

// `samples`: nanoseconds of whole round trips; `divisor` 2 where the test
// reports half of them.
void PrintLatency(const BenchOptions& o, std::vector<int64_t>& samples,
                  int divisor, double bulk_gbps = 0) {
  std::sort(samples.begin(), samples.end());
  std::printf(
      "{\"test\": \"%s\", \"size\": %u, \"samples\": %zu, \"min_us\": %.3f, "
      "\"median_us\": %.3f, \"p99_us\": %.3f, \"bulk_gbps\": %.3f}\n",
      o.test.c_str(), o.size, samples.size(),
      static_cast<double>(samples[0]) / divisor / 1e3,
      Percentile(samples, 0.5) / divisor / 1e3,
      Percentile(samples, 0.99) / divisor / 1e3, bulk_gbps);
}

// Calls `round` until the time has passed; every call is one sample.
template <typename Round>
std::vector<int64_t> Sample(uint32_t seconds, Round&& round) {
  std::vector<int64_t> samples;
  samples.reserve(4u << 20);
  for (int i = 0; i < 1000; ++i) round();
  int64_t before = NowNs();
  const int64_t end = before + int64_t{seconds} * 1000000000;
  while (before < end && samples.size() < samples.capacity()) {
    round();
    const int64_t now = NowNs();
    samples.push_back(now - before);
    before = now;
  }
  return samples;
}

void RunWriteBw(Pair& pair, const BenchOptions& o) {
  ibv_qp* const qps[] = {pair.here().qp()};
  const WriteRate rate = StreamWrites(pair.here(), qps, o);
  std::printf(
      "{\"test\": \"write_bw\", \"size\": %u, \"ops\": %llu, \"mops\": %.4f, "
      "\"gbps\": %.3f}\n",
      o.size, static_cast<unsigned long long>(rate.ops), rate.mops,
      rate.mops * o.size * 8 / 1e3);
}

void WriteBw(Pair& pair, const BenchOptions& o) {
  if (!pair.is_server()) RunWriteBw(pair, o);
  pair.Barrier(pair.is_server() && o.server_polls);
}

// --- Latency ---------------------------------------------------------------

// Ends a test: the side that answers runs until it receives this value.
constexpr uint8_t kStop = 255;

void WriteLat(Pair& pair, const BenchOptions& o) {
  Endpoint& here = pair.here();
  const uint32_t bytes = std::max(o.size, 1u);
  uint8_t turn = 0;
  int unpolled = 0;
  const auto put = [&](Endpoint& from, uint8_t value) {
    from.memory()[bytes - 1] = value;
    from.PostWrite(bytes, 0, from.half());
    // Polled so rarely that it does not affect the median.
    if (++unpolled == 32) {
      from.Await(32);
      unpolled = 0;
    }
  };
  const auto arrived = [&](Endpoint& at) {
    return std::atomic_ref(at.memory()[at.half() + bytes - 1])
        .load(std::memory_order_acquire);
  };
  const auto next = [&] { return turn = static_cast<uint8_t>(turn % 250 + 1); };
  if (pair.is_server()) {
    for (;;) {
      const uint8_t want = next();
      uint8_t got;
      while ((got = arrived(here)) != want && got != kStop) {
      }
      if (got == kStop) break;
      put(here, want);
    }
  } else {
    std::vector<int64_t> samples = Sample(o.seconds, [&] {
      put(here, next());
      Endpoint& at = pair.in_one_process() ? pair.other() : here;
      while (arrived(at) != turn) {
      }
    });
    PrintLatency(o, samples, pair.in_one_process() ? 1 : 2);
    put(here, kStop);
  }
  if (unpolled > 0) here.Await(unpolled);
  pair.Barrier();
}

void ReadLat(Pair& pair, const BenchOptions& o) {
  if (!pair.is_server()) {
    Endpoint& here = pair.here();
    std::vector<int64_t> samples = Sample(o.seconds, [&] {
      here.PostRead(o.size, 0, here.half());
      here.Await();
    });
    PrintLatency(o, samples, 1);
  }
  pair.Barrier(pair.is_server());
}

// Writes that the client of send_lat keeps under way meanwhile, over a second
// queue pair of the same port. Both sides make one.
class Bulk {
 public:
  Bulk(Pair& pair, const BenchOptions& o)
      : options_(Options(o)), here_(pair.here().context(), options_) {
    const Address mine = here_.address();
    Address theirs;
    pair.Exchange(&mine, &theirs, sizeof(mine));
    here_.Connect(theirs);
    stream_.emplace(here_, std::span(&qp_, 1), options_);
  }

  void Advance() { stream_->Advance(); }
  void Finish() { stream_->Finish(); }
  double bits() const {
    return static_cast<double>(stream_->done()) * options_.size * 8;
  }

 private:
  static constexpr uint32_t kDepth = 4;

  static BenchOptions Options(BenchOptions o) {
    o.size = o.bulk;
    o.depth = kDepth;
    o.post_list = o.cq_mod = 1;
    return o;
  }

  BenchOptions options_;
  Endpoint here_;
  ibv_qp* qp_ = here_.qp();
  std::optional<WriteStream> stream_;
};

void SendLat(Pair& pair, const BenchOptions& o) {
  errno = 0;
  if (o.bulk != 0 && pair.in_one_process()) Die("--bulk needs two processes");
  Endpoint& here = pair.here();
  std::optional<Bulk> bulk;
  if (o.bulk != 0) bulk.emplace(pair, o);
  here.PostRecv(static_cast<uint32_t>(here.half()), here.half());
  if (pair.in_one_process()) {
    pair.other().PostRecv(static_cast<uint32_t>(here.half()), here.half());
  }
  pair.Barrier();
  uint64_t sends_open = 0;
  // Waits for a receive; send completions may arrive in between.
  const auto await_receive = [&](Endpoint& at) {
    for (;;) {
      if (bulk && !pair.is_server()) bulk->Advance();
      ibv_wc wc;
      if (!at.Poll(&wc)) continue;
      if (wc.opcode == IBV_WC_RECV) return at.memory()[at.half()];
      --sends_open;
    }
  };
  const auto answer = [&](Endpoint& from, uint8_t value) {
    from.PostRecv(static_cast<uint32_t>(from.half()), from.half());
    from.memory()[0] = value;
    from.PostSend(std::max(o.size, 1u), 0);
    ++sends_open;
  };
  if (pair.is_server()) {
    while (await_receive(here) != kStop) answer(here, 0);
  } else {
    Endpoint& far = pair.in_one_process() ? pair.other() : here;
    const int64_t start = NowNs();
    std::vector<int64_t> samples = Sample(o.seconds, [&] {
      here.memory()[0] = 0;
      here.PostSend(std::max(o.size, 1u), 0);
      ++sends_open;
      if (pair.in_one_process()) {
        await_receive(far);
        answer(far, 0);
      }
      await_receive(here);
      here.PostRecv(static_cast<uint32_t>(here.half()), here.half());
    });
    const auto ns = static_cast<double>(NowNs() - start);
    PrintLatency(o, samples, 2, bulk ? bulk->bits() / ns : 0);
    if (bulk) bulk->Finish();
    here.memory()[0] = kStop;
    here.PostSend(std::max(o.size, 1u), 0);
  }
  pair.Barrier(true);
}

// --- Data --------------------------------------------------------------------

// The server of a check: returns what it receives, until an empty message.
void Echo(Endpoint& here) {
  const auto half = static_cast<uint32_t>(here.half());
  for (;;) {
    const ibv_wc wc = here.Await();
    if (wc.opcode != IBV_WC_RECV) continue;
    if (wc.byte_len == 0) return;
    std::memcpy(here.memory(), here.memory() + half, wc.byte_len);
    here.PostRecv(half, half);
    here.PostSend(wc.byte_len, 0);
  }
}

// Written data is read back and compared, sent data is returned, and every
// addition counts once.
void CheckRound(Endpoint& here, uint32_t bytes, std::minstd_rand& random,
                uint64_t round, bool echo) {
  std::vector<uint8_t> copy(bytes);
  for (uint8_t& byte : copy) byte = static_cast<uint8_t>(random());
  const auto half = static_cast<uint32_t>(here.half());
  const auto expect = [&](const char* what) {
    errno = 0;
    if (std::memcmp(here.memory() + half, copy.data(), bytes) != 0) Die(what);
    std::memset(here.memory() + half, 0, bytes);
  };
  std::memcpy(here.memory(), copy.data(), bytes);
  here.PostWrite(bytes, 0, 0);
  here.PostRead(bytes, 0, half);
  here.Await(2);
  expect("a read returned other bytes than were written");
  here.PostFetchAdd(1, here.counter(), here.counter());
  here.Await();
  uint64_t before;
  std::memcpy(&before, here.memory() + here.counter(), sizeof(before));
  errno = 0;
  if (before != round) Die("an addition was lost or done twice");
  if (!echo) return;
  here.PostRecv(half, half);
  here.PostSend(bytes, 0);
  here.Await(2);
  expect("an echo returned other bytes than were sent");
}

void Check(Pair& pair, const BenchOptions& o) {
  Endpoint& here = pair.here();
  const bool echo = !pair.in_one_process();
  if (pair.is_server()) {
    here.PostRecv(static_cast<uint32_t>(here.half()), here.half());
    pair.Barrier();
    Echo(here);
    return pair.Barrier(true);
  }
  pair.Barrier();
  std::minstd_rand random(1);
  const int64_t end = NowNs() + int64_t{o.seconds} * 1000000000;
  uint64_t rounds = 0;
  for (; NowNs() < end; ++rounds) {
    const uint32_t bytes = 1 + random() % std::max(o.size, 1u);
    CheckRound(here, bytes, random, rounds, echo);
  }
  std::printf(
      "{\"test\": \"check\", \"size\": %u, \"rounds\": %llu, "
      "\"ok\": true}\n",
      o.size, static_cast<unsigned long long>(rounds));
  if (echo) here.PostSend(0, 0);
  pair.Barrier(true);
}

}  // namespace

std::map<std::string, std::function<void(Pair&, const BenchOptions&)>> Tests() {
  return {{"write_bw", WriteBw}, {"write_lat", WriteLat},
          {"read_lat", ReadLat}, {"send_lat", SendLat},
          {"many_qps", ManyQps}, {"registration", Registration},
          {"check", Check}};
}

}  // namespace urnic::bench
