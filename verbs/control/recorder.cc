#include "verbs/control/recorder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datapath/engine/engine.h"
#include "datapath/engine/environment.h"
#include "datapath/guest/engine_thread.h"
#include "ras/errors/error_code.h"
#include "ras/recorder/recordings.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/dump.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/recorded_answers.h"
#include "verbs/libc/high_fd.h"

namespace urnic::control {
namespace {

constexpr char kVariable[] = "URNIC_RECORDER";
constexpr size_t kFilesKept = 16;
// How many entries of lists in the order of time are recorded.
constexpr NewestEntries kNewest = {.events = 1024, .failures = 64};

constexpr Duration kPeriod = Duration::Seconds(1);
// The pause after a recording is its CPU time multiplied by this, within
// limits.
constexpr int64_t kRest = 100;
constexpr Duration kRestMost = Duration::Seconds(30);
constexpr Duration kRestBeforeFailure = Duration::Seconds(1);

Duration CpuTimeOfThread() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return Duration::Nanoseconds(int64_t{time.tv_sec} * 1'000'000'000 +
                               time.tv_nsec);
}

// Removes the oldest files of programs that ended.
void Sweep(const std::string& directory) {
  auto files = ListRecordings(directory);
  std::erase_if(files, [](const RecordingName& file) { return !file.ended; });
  for (size_t i = kFilesKept; i < files.size(); ++i)
    (void)RemoveEndedRecording(files[i].path);
}

// Creates the file of the recordings, and sets `path`.
absl::StatusOr<std::unique_ptr<RecordingFile>> CreateFile(
    const std::string& directory, const RecordingOwner& owner, size_t bytes,
    std::string& path) {
  // Containers that share the directory may have the same pid, and a program
  // may open its device twice in a second.
  constexpr int kAttempts = 8;
  for (int i = 1;; ++i) {
    path = absl::StrCat(
        directory, "/",
        RecordingFileName(owner.port, owner.pid, std::time(nullptr) + i - 1));
    auto file = RecordingFile::Create(path, owner, bytes);
    struct stat info;
    const bool is_taken = lstat(path.c_str(), &info) == 0;
    if (file.ok() || !is_taken || i == kAttempts) return file;
  }
}

RecorderOptions ChosenOptions() {
  RecorderOptions options;
  const char* const chosen = std::getenv(kVariable);
  std::string mistake;
  if (chosen != nullptr && !ParseRecorderOptions(chosen, options, mistake)) {
    ComplainLoudly(
        absl::StrCat(kVariable, ": ", mistake, "; the defaults are used"));
  }
  return options;
}

// Whether a request, a queue pair, a connection or the device has failed.
bool HasEnded(const Failures& failures) {
  constexpr auto kFirstRefusal = static_cast<ErrorCode>(2000);
  return std::ranges::any_of(AllErrors(), [&](const ErrorWords& words) {
    return words.severity == Severity::kError && words.code < kFirstRefusal &&
           failures.CountOf(words.code) != 0;
  });
}

// "16M", from 1M to 1024M.
bool ParseSize(std::string_view text, size_t& bytes) {
  uint32_t mib = 0;
  constexpr uint32_t kMost = 1024;
  if (!text.ends_with('M')) return false;
  text.remove_suffix(1);
  if (!absl::SimpleAtoi({text.data(), text.size()}, &mib) || mib < 1 ||
      mib > kMost) {
    return false;
  }
  bytes = size_t{mib} << 20;
  return true;
}

}  // namespace

bool ParseRecorderOptions(std::string_view text, RecorderOptions& options,
                          std::string& mistake) {
  constexpr std::string_view kDir = "dir:";
  constexpr std::string_view kSize = "size:";
  RecorderOptions read;
  for (const std::string& word : std::vector<std::string>(
           absl::StrSplit(absl::string_view(text.data(), text.size()), ',',
                          absl::SkipEmpty()))) {
    if (word == "off") {
      read.off = true;
    } else if (word == "keep") {
      read.keep = true;
    } else if (word.starts_with(kDir) && word[kDir.size()] == '/') {
      // Must be absolute, because programs change their directory.
      read.directory = word.substr(kDir.size());
    } else if (!word.starts_with(kSize) ||
               !ParseSize(std::string_view(word).substr(kSize.size()),
                          read.bytes)) {
      mistake = absl::StrCat("\"", word,
                             "\" is unknown; the words are off, keep, "
                             "dir:/DIR and size:16M (1M to 1024M)");
      return false;
    }
  }
  options = read;
  return true;
}

std::unique_ptr<Recorder> Recorder::Start(OpenNic& nic) {
  RecorderOptions options = ChosenOptions();
  if (options.off) return nullptr;
  options.bytes = std::min(options.bytes + nic.input_logs().BytesWanted(),
                           recording::kHalfBytesMax);
  const std::string directory = options.directory.empty()
                                    ? RecordingsDirectory(/*make=*/true)
                                    : options.directory;
  // Only a user who has asked for recordings gets a message on stderr.
  const bool is_wanted = std::getenv(kVariable) != nullptr;
  const auto give_up = [&](const std::string& why) {
    (is_wanted ? ComplainLoudly : DebugLog)(
        absl::StrCat(nic.name(), ": no flight recorder: ", why));
    return nullptr;
  };
  if (directory.empty()) return give_up("the user has no own directory");
  std::string path;
  auto file = CreateFile(directory, OwnerOf(nic), options.bytes, path);
  if (!file.ok()) return give_up(std::string(file.status().message()));
  Sweep(directory);
  std::unique_ptr<Recorder> recorder(
      new Recorder(nic, options, path, *std::move(file)));
  if (!recorder->StartThread()) return give_up("cannot create a thread");
  return recorder;
}

Recorder::Recorder(OpenNic& nic, const RecorderOptions& options,
                   std::string path, std::unique_ptr<RecordingFile> file)
    : nic_(nic),
      keep_(options.keep),
      path_(std::move(path)),
      file_(std::move(file)),
      builder_(options.bytes) {}

bool Recorder::StartThread() {
  wake_fd_ = urnic_move_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake_fd_ < 0) return false;
  auto thread = StartEngineThread("urnic-recorder", [this] { Run(); });
  if (!thread.has_value()) return false;
  thread_ = *std::move(thread);
  Engine::ControlScope scope(nic_.engine());
  nic_.engine().failures().Watch(this, [this] {
    failures_.fetch_add(1);
    if (!failed_.load()) failed_.store(HasEnded(nic_.engine().failures()));
    Wake();
  });
  return true;
}

Recorder::~Recorder() {
  if (thread_.joinable()) {
    {
      Engine::ControlScope scope(nic_.engine());
      nic_.engine().failures().Unwatch(this);
    }
    stop_.store(true);
    Wake();
    thread_.join();
    // Nearly all objects are destroyed by now, so the last recording has more
    // information, unless something has failed since.
    stop_.store(false);
    if (must_keep() && has_news() && !ended_.load()) Record();
  }
  End(Duration());
  for (const auto& [fd, path] : dumps_) close(fd);
  if (wake_fd_ >= 0) close(wake_fd_);
}

void Recorder::KeepDump(
    const std::function<void(const std::string& path)>& before) {
  constexpr Duration kLongest = Duration::Milliseconds(20);
  constexpr size_t kMost = 4;
  constexpr int kAttempts = 8;
  const std::string directory = path_.substr(0, path_.rfind('/'));
  const RecordingOwner owner = OwnerOf(nic_);
  std::string path;
  int fd = -1;
  // A file with the name of this second may exist.
  for (int i = 0; i < kAttempts && fd < 0; ++i) {
    path = absl::StrCat(
        directory, "/",
        RecordingFileName(owner.port, owner.pid, std::time(nullptr) + i));
    fd = urnic_move_fd_high(
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
             S_IRUSR | S_IWUSR));
  }
  if (fd < 0) {
    DebugLog(absl::StrCat(path, ": no dump: ", std::strerror(errno)));
    return before("");
  }
  before(path);
  const std::string dump = MakeDump(nic_, {.longest = kLongest});
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 ||
      pwrite(fd, dump.data(), dump.size(), /*offset=*/0) !=
          static_cast<ssize_t>(dump.size())) {
    DebugLog(absl::StrCat(path, ": no dump: ", std::strerror(errno)));
    unlink(path.c_str());
    close(fd);
    return;
  }
  dumps_.emplace_back(fd, path);
  if (dumps_.size() > kMost) {
    unlink(dumps_.front().second.c_str());
    close(dumps_.front().first);
    dumps_.pop_front();
  }
}

void Recorder::End(Duration patience) {
  constexpr useconds_t kLookUs = 500;
  hurries_.store(true);
  const Time until = Environment::Now() + patience;
  if (must_keep()) Wake();
  while (must_keep() && has_news() && Environment::Now() < until)
    usleep(kLookUs);
  if (ended_.exchange(true) || must_keep()) return;
  unlink(path_.c_str());
}

void Recorder::Wake() {
  const int saved = errno;
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  errno = saved;
}

bool Recorder::SleepUntil(Time until) const {
  while (true) {
    const int64_t left_ns = (until - Environment::Now()).ns();
    if (left_ns <= 0) return true;
    pollfd wake = {wake_fd_, POLLIN, 0};
    constexpr int64_t kMsMost = 1000;
    const auto ms =
        static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, kMsMost));
    if (poll(&wake, 1, ms) > 0) {
      uint64_t wakes;
      (void)!read(wake_fd_, &wakes, sizeof(wakes));
      return false;
    }
  }
}

void Recorder::Run() {
  while (!stop_.load()) {
    const Time begin = Environment::Now();
    const Duration cpu_before = CpuTimeOfThread();
    Record();
    const Duration rest = (CpuTimeOfThread() - cpu_before) * kRest;
    // A failure shortens the pause, but does not end it.
    const Time earliest = begin + std::min(rest, kRestBeforeFailure);
    bool failed = false;
    while (!stop_.load() && !hurries_.load() && !SleepUntil(earliest))
      failed = true;
    if (!failed && !(hurries_.load() && has_news()))
      (void)SleepUntil(begin + std::clamp(rest, kPeriod, kRestMost));
  }
}

void Recorder::Record() {
  const Time begin = Environment::Now();
  const uint64_t failures = failures_.load();
  builder_.Begin();
  RecordAnswers(
      nic_, {.newest = kNewest}, [this] { return !stop_.load(); }, builder_);
  if (stop_.load()) return;  // the recording is incomplete
  const int error = file_->Write(
      builder_.Finish(HeaderOfNow(file_->next(), Environment::Now() - begin)));
  if (error == 0) recorded_.store(failures);
  if (error == 0 || std::exchange(complained_, true)) return;
  DebugLog(absl::StrCat(path_, ": ", std::strerror(error),
                        "; the last recording remains"));
}

}  // namespace urnic::control
