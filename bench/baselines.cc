// What the machine itself can do, measured in the same run as uRNIC: the cost
// of waking a thread on the same core, and one TCP connection over loopback.
// Prints one line of JSON.
//
//   baselines wakeup SECONDS CPU
//   baselines line MILLISECONDS CPU CPU
//   baselines tcp_latency|tcp_stream SECONDS CPU CPU
//   baselines tcp_connect COUNT CPU CPU
//
// `tcp_connect` connects one after another, and keeps all until the end.
//
// `line` measures how long a cache line takes from one core to the other and
// back. Virtual CPUs move: two that share a core now may be far apart a second
// later, and then latencies cannot be compared.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void PinTo(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  if (sched_setaffinity(0, sizeof(mask), &mask) != 0) Die("sched_setaffinity");
}

int64_t NowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

// The median of half round trips, in microseconds.
template <typename Round>
double HalfRoundTrip(int seconds, Round&& round) {
  std::vector<int64_t> samples;
  for (int i = 0; i < 1000; ++i) round();
  int64_t before = NowNs();
  for (const int64_t end = before + seconds * int64_t{1000000000};
       before < end;) {
    round();
    const int64_t now = NowNs();
    samples.push_back(now - before);
    before = now;
  }
  auto middle = samples.begin() + static_cast<long>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return static_cast<double>(*middle) / 2e3;
}

// Two threads on one core pass a token back and forth through eventfds: half a
// round is one write and one wake-up.
void Wakeup(int seconds, int cpu) {
  PinTo(cpu);
  const int there = eventfd(0, EFD_CLOEXEC);
  const int back = eventfd(0, EFD_CLOEXEC);
  if (there < 0 || back < 0) Die("eventfd");
  std::thread echo([&] {
    for (;;) {
      uint64_t count = 0;
      if (read(there, &count, sizeof(count)) != sizeof(count)) Die("read");
      const bool last = count > 1;
      count = 1;
      if (write(back, &count, sizeof(count)) != sizeof(count)) Die("write");
      if (last) return;
    }
  });
  const auto round = [&](uint64_t count = 1) {
    if (write(there, &count, sizeof(count)) != sizeof(count)) Die("write");
    if (read(back, &count, sizeof(count)) != sizeof(count)) Die("read");
  };
  const double median = HalfRoundTrip(seconds, [&] { round(); });
  round(2);
  echo.join();
  std::printf("{\"test\": \"wakeup\", \"median_us\": %.3f}\n", median);
}

// Two threads on two cores pass a cache line back and forth.
void Line(int milliseconds, int cpu, int other_cpu) {
  PinTo(cpu);
  alignas(64) std::atomic<uint64_t> ball{0};
  std::atomic<bool> ready{false};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    PinTo(other_cpu);
    ready.store(true);
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t value = ball.load(std::memory_order_acquire);
      if (value % 2 == 1) ball.store(value + 1, std::memory_order_release);
    }
  });
  std::vector<int64_t> samples;
  uint64_t value = 0;
  while (!ready.load()) usleep(100);
  int64_t before = NowNs();
  for (const int64_t end = before + milliseconds * int64_t{1000000};
       before < end;) {
    // In groups of a hundred: reading the clock takes as long as one.
    for (int i = 0; i < 100; ++i) {
      ball.store(++value, std::memory_order_release);
      while (ball.load(std::memory_order_acquire) == value) {
      }
      ++value;
    }
    const int64_t now = NowNs();
    samples.push_back(now - before);
    before = now;
  }
  stop.store(true);
  other.join();
  auto middle = samples.begin() + static_cast<long>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  std::printf("{\"test\": \"line\", \"median_ns\": %.1f}\n",
              static_cast<double>(*middle) / 100);
}

void ReadAll(int fd, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = read(fd, to, bytes);
    if (n <= 0) Die("tcp read");
    to += n;
    bytes -= static_cast<size_t>(n);
  }
}

// A listener on 127.0.0.1, and its address.
int Listen(int backlog, sockaddr_in& address) {
  address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, generic, length) != 0 ||
      listen(listener, backlog) != 0 ||
      getsockname(listener, generic, &length) != 0) {
    Die("listen");
  }
  return listener;
}

int AcceptOne(int listener) {
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) Die("accept");
  return fd;
}

int ConnectTo(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    Die("connect");
  }
  return fd;
}

// A connected pair over 127.0.0.1; the child gets one end and runs `serve`.
template <typename Serve>
int ForkServer(int cpu, Serve&& serve) {
  sockaddr_in address;
  const int listener = Listen(1, address);
  const int one = 1;
  if (fork() == 0) {
    PinTo(cpu);
    const int fd = AcceptOne(listener);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    serve(fd);
    _exit(0);
  }
  const int fd = ConnectTo(address);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return fd;
}

void TcpConnect(int count, int client_cpu, int server_cpu) {
  sockaddr_in address;
  const int listener = Listen(count, address);
  if (fork() == 0) {
    PinTo(server_cpu);
    int last = 0;
    for (int i = 0; i < count; ++i) last = AcceptOne(listener);
    // All are accepted.
    if (write(last, "", 1) != 1) Die("tcp write");
    _exit(0);
  }
  PinTo(client_cpu);
  const int64_t start = NowNs();
  int last = 0;
  for (int i = 0; i < count; ++i) last = ConnectTo(address);
  char byte = 0;
  ReadAll(last, &byte, sizeof(byte));
  const auto took = static_cast<double>(NowNs() - start);
  std::printf("{\"test\": \"tcp_connect\", \"per_second\": %.0f}\n",
              count * 1e9 / took);
}

void TcpLatency(int seconds, int client_cpu, int server_cpu) {
  const int fd = ForkServer(server_cpu, [](int peer) {
    char bytes[8];
    while (read(peer, bytes, sizeof(bytes)) > 0) {
      if (write(peer, bytes, sizeof(bytes)) < 0) return;
    }
  });
  PinTo(client_cpu);
  const double median = HalfRoundTrip(seconds, [fd] {
    char bytes[8] = {};
    if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes)) Die("tcp write");
    ReadAll(fd, bytes, sizeof(bytes));
  });
  std::printf("{\"test\": \"tcp_latency\", \"median_us\": %.3f}\n", median);
}

void TcpStream(int seconds, int client_cpu, int server_cpu) {
  constexpr size_t kMessage = 1 << 20;
  const int fd = ForkServer(server_cpu, [](int peer) {
    std::vector<char> to(kMessage);
    while (read(peer, to.data(), to.size()) > 0) {
    }
  });
  PinTo(client_cpu);
  const std::vector<char> from(kMessage, 1);
  uint64_t sent = 0;
  const int64_t start = NowNs();
  while (NowNs() - start < seconds * int64_t{1000000000}) {
    const ssize_t n = write(fd, from.data(), from.size());
    if (n < 0) Die("tcp write");
    sent += static_cast<uint64_t>(n);
  }
  const auto took = static_cast<double>(NowNs() - start);
  std::printf("{\"test\": \"tcp_stream\", \"gbps\": %.3f}\n",
              static_cast<double>(sent) * 8 / took);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string test = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  if (test == "wakeup" && argc == 4) {
    Wakeup(number(2), number(3));
  } else if (test == "line" && argc == 5) {
    Line(number(2), number(3), number(4));
  } else if (test == "tcp_latency" && argc == 5) {
    TcpLatency(number(2), number(3), number(4));
  } else if (test == "tcp_stream" && argc == 5) {
    TcpStream(number(2), number(3), number(4));
  } else if (test == "tcp_connect" && argc == 5) {
    TcpConnect(number(2), number(3), number(4));
  } else {
    std::fprintf(stderr,
                 "usage: baselines wakeup SECONDS CPU\n"
                 "       baselines line MILLISECONDS CPU CPU\n"
                 "       baselines tcp_latency|tcp_stream SECONDS CPU CPU\n"
                 "       baselines tcp_connect COUNT CPU CPU\n");
    return 2;
  }
  return 0;
}
