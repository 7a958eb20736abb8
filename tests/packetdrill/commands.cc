#include "tests/packetdrill/commands.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <sstream>
#include <string_view>

namespace urnic::packetdrill {
namespace {

// Of Linux behind "net.ipv4.tcp_", of FreeBSD behind "net.inet.tcp.". They
// concern buffers, the division of work with a network card, what is logged,
// or a state that does not exist here.
constexpr std::string_view kIgnoredSettings[] = {"rmem",
                                                 "wmem",
                                                 "min_tso_segs",
                                                 "tso_win_divisor",
                                                 "pacing_",
                                                 "fastopen",
                                                 "syncookies",
                                                 "early_retrans",
                                                 "notsent_lowat",
                                                 "moderate_rcvbuf",
                                                 "slow_start_after_idle",
                                                 "hostcache.",
                                                 "rexmit_",
                                                 "recvspace",
                                                 "sendspace",
                                                 "kern.ipc.",
                                                 "udp_tunneling_",
                                                 "icmp_may_rst",
                                                 "log_in_vain",
                                                 "no_metrics_save",
                                                 "syn_retries",
                                                 "synack_retries",
                                                 "functions_default",
                                                 "pmtud_blackhole",
                                                 "msl",
                                                 "finwait2_timeout",
                                                 "per_cpu_timers",
                                                 "newcwv",
                                                 "always_keepalive",
                                                 "delacktime",
                                                 "keepinit"};

// Programs that only look at something, or change what does not exist here.
constexpr std::string_view kIgnoredPrograms[] = {
    "sysctl", "set_sysctls.py", "defaults.sh", "nstat",      "sockstat",
    "grep",   "ethtool",        "tcpdrop",     "tcp_metrics"};

bool StartsWithOne(std::string_view text,
                   std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(
      prefixes, [&](std::string_view p) { return text.starts_with(p); });
}

// "/proc/sys/net/ipv4/tcp_ecn" and "net.ipv4.tcp_ecn" are "ecn".
std::string ShortName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  for (const std::string_view prefix :
       {".proc.sys.", "net.ipv4.", "net.inet.", "tcp_", "tcp."}) {
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  }
  return name;
}

Outcome ApplySetting(const std::string& assignment, Stack& stack) {
  const size_t equals = assignment.find('=');
  const std::string name = ShortName(assignment.substr(0, equals));
  const std::string text = assignment.substr(equals + 1);
  const int value = std::atoi(text.c_str());
  tcp::Offer& offer = stack.config.offer;
  if (name == "timestamps") {
    offer.timestamps = value != 0;
  } else if (name == "rfc1323" && value != 0) {
    offer.timestamps = true;
  } else if (name == "sack" || name == "sack.enable") {
    offer.sack = value != 0;
  } else if (name == "ecn" || name == "ecn.enable") {
    // 0: never, 1: also asked for, 2: agreed to.
    if (value > 2) return NotApplicable("AccECN");
    offer.ecn = value != 0;
    stack.asks_for_ecn = value == 1;
  } else if (name == "congestion_control") {
    if (text != "cubic" && text != "dctcp") return NotApplicable(text);
    stack.config.dctcp = text == "dctcp";
  } else if (name == "blackhole" || name == "insecure_rst" ||
             name == "insecure_syn" || name == "drop_synfin") {
    if (value != 0) return NotApplicable("setting " + name);
  } else if (!StartsWithOne(name, kIgnoredSettings)) {
    return NotApplicable("setting " + name);
  }
  return {};
}

Outcome ApplyLine(const std::string& line, Stack& stack) {
  std::istringstream words(line);
  std::string word;
  std::string program;
  while (words >> word) {
    const bool assigns =
        word.find('=') != std::string::npos &&
        (word.starts_with("net") || word.starts_with("/proc") ||
         word.starts_with("kern"));
    if (assigns) {
      const Outcome outcome = ApplySetting(word, stack);
      if (!outcome.ok()) return outcome;
    }
    if (program.empty() && !assigns) program = word;
    // "ip tcp_metrics flush all"
    if (program == "ip" && word == "tcp_metrics") program = word;
    if (program == "tc" && word == "limit")
      return NotApplicable("a full queue");
    // The queue that paces.
    if (program == "tc" && word == "fq") stack.config.paced = true;
  }
  program.erase(0, program.rfind('/') + 1);
  if (program.empty() || program == "tc" || program.starts_with('#') ||
      program.starts_with("sysctl_restore") ||
      StartsWithOne(program, kIgnoredPrograms)) {
    return {};
  }
  return NotApplicable("command \"" + program + "\"");
}

}  // namespace

Outcome ApplyCommand(const std::string& text, Stack& stack) {
  std::string line;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool continues =
        text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\n';
    if (continues) {
      ++i;
    } else if (i == text.size() || text[i] == '\n' || text[i] == ';') {
      const Outcome outcome = ApplyLine(line, stack);
      if (!outcome.ok()) return outcome;
      line.clear();
    } else {
      line += text[i];
    }
  }
  return {};
}

}  // namespace urnic::packetdrill
