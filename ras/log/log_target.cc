#include "ras/log/log_target.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ras/errors/error_code.h"
#include "ras/errors/refusal.h"
#include "ras/facts/facts_json.h"
#include "ras/facts/value_of.h"
#include "verbs/libc/file_size_signal.h"

namespace urnic {
namespace {

int PriorityOf(const Facts& record) {
  const std::string severity = ValueOf(record, "severity");
  for (const Severity s : {Severity::kError, Severity::kWarning}) {
    if (severity == NameOf(s)) return static_cast<int>(s);
  }
  return static_cast<int>(Severity::kInfo);
}

class JsonFile final : public LogTarget {
 public:
  explicit JsonFile(std::string_view path) : path_(path) {}

  int Check() override {
    const int fd = Open();
    if (fd < 0) return errno;
    close(fd);
    return 0;
  }
  int Write(const Facts& record) override {
    const std::string line = JsonOf(record, /*details=*/true) + "\n";
    // Opened each time: it may have been renamed meanwhile.
    const int fd = Open();
    if (fd < 0) return errno;
    urnic_file_size_signal signal;
    urnic_file_size_signal_off(&signal);
    // In one write(): several processes may share the file.
    const ssize_t written = write(fd, line.data(), line.size());
    const int error = written < 0                                  ? errno
                      : static_cast<size_t>(written) < line.size() ? ENOSPC
                                                                   : 0;
    urnic_file_size_signal_back(&signal);
    close(fd);
    return error;
  }

 private:
  int Open() const {
    // O_NONBLOCK: it may be a FIFO.
    return open(path_.c_str(),
                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
  }

  const std::string path_;
};

class Syslog final : public LogTarget {
 public:
  // syslog() does not say whether anybody listens.
  int Check() override { return 0; }
  int Write(const Facts& record) override {
    syslog(LOG_DAEMON | PriorityOf(record), "urnic: %s",
           LogSentence(record).c_str());
    return 0;
  }
};

// The journal's own protocol, which needs no library: a datagram of lines
// NAME=VALUE (systemd.io/JOURNAL_NATIVE_PROTOCOL).
class Journal final : public LogTarget {
 public:
  explicit Journal(std::string_view path) : path_(path) {}
  ~Journal() override {
    if (fd_ >= 0) close(fd_);
  }

  int Check() override {
    sockaddr_un to;
    if (const int error = FillAddress(to)) return error;
    // Not fd_: connected, it would not reach a journal that was started again.
    const int fd = Socket();
    if (fd < 0) return errno;
    const int error =
        connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0 ? 0
                                                                       : errno;
    close(fd);
    return error;
  }
  int Write(const Facts& record) override {
    sockaddr_un to;
    if (const int error = FillAddress(to)) return error;
    if (fd_ < 0) fd_ = Socket();
    if (fd_ < 0) return errno;
    std::string datagram;
    AddField("MESSAGE", LogSentence(record), datagram);
    AddField("PRIORITY", std::to_string(PriorityOf(record)), datagram);
    AddField("SYSLOG_IDENTIFIER", "urnic", datagram);
    for (const Fact& fact : record.facts) {
      AddField("URNIC_" + FieldName(fact.name), fact.value, datagram);
    }
    const ssize_t sent =
        sendto(fd_, datagram.data(), datagram.size(), MSG_NOSIGNAL,
               reinterpret_cast<sockaddr*>(&to), sizeof(to));
    return sent < 0 ? errno : 0;
  }

 private:
  static int Socket() {
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }
  // 0 or an errno.
  int FillAddress(sockaddr_un& to) const {
    to = {};
    to.sun_family = AF_UNIX;
    if (path_.size() >= sizeof(to.sun_path)) return ENAMETOOLONG;
    path_.copy(to.sun_path, path_.size());
    return 0;
  }
  static std::string FieldName(std::string name) {
    for (char& c : name) {
      c = c == '-'
              ? '_'
              : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return name;
  }
  // A line feed would end the field.
  static void AddField(const std::string& name, std::string value,
                       std::string& datagram) {
    std::ranges::replace(value, '\n', ' ');
    datagram.append(name).append("=").append(value).append("\n");
  }

  const std::string path_;
  int fd_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogTarget>> MakeLogTarget(
    std::string_view text, std::string_view journal) {
  constexpr std::string_view kJson = "json:";
  if (text == "journal") return std::make_unique<Journal>(journal);
  if (text == "syslog") return std::make_unique<Syslog>();
  if (text.starts_with(kJson) && text.size() > kJson.size())
    return std::make_unique<JsonFile>(text.substr(kJson.size()));
  std::string message = "\"";
  message.append(text).append(
      "\" is not a place for errors; the places are journal, syslog and "
      "json:FILE");
  return Refusal(ErrorCode::kBadAttribute, message);
}

std::string LogSentence(const Facts& record) {
  std::string sentence = ValueOf(record, "link");
  const std::string qpn = ValueOf(record, "lqpn");
  if (!qpn.empty()) sentence += " qp " + qpn;
  sentence += ": " + ValueOf(record, "code") + ": " + ValueOf(record, "what");
  for (const char* const more : {"peer", "why"}) {
    const std::string value = ValueOf(record, more);
    if (!value.empty()) sentence += " " + (more + (": " + value)) + ";";
  }
  if (sentence.ends_with(';')) sentence.pop_back();
  return sentence;
}

}  // namespace urnic
