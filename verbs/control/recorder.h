#pragma once

// The flight recorder of a port (document E, 5.2.1). It writes the answers to
// `urnic show` and `urnic state` to a file that outlives the program
// (ras/recorder). `urnic show --from FILE` reads it.
//
// Its thread records each second, and after each failure. It uses at most 1 %
// of a CPU: if a recording takes more than 10 ms of CPU time, the next one is
// delayed by up to 30 s, or after a failure by up to a second.
//
// URNIC_RECORDER: words with commas between them.
//   off       no recordings
//   keep      the file stays when the program closes the port or calls exit().
//             Without this word it stays only if the program was killed, or if
//             something has failed: a program that fails often ends
//             immediately, and people ask later why. Refused calls do not count
//             as failures here
//   dir:/DIR  the directory of the file; the default is "recordings" in the
//             user's own directory (verbs/libc/owner_dir.h)
//   size:16M  room for a recording, 1M by default. The file is twice as large
// The file is PORT-PID-SECONDS.rec. Files of ended programs are removed, except
// for the newest 16. When a device fails, a dump is kept under a similar name,
// too: the last four of each program.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ras/recorder/recording_builder.h"
#include "ras/recorder/recording_file.h"
#include "transport/base/time.h"

namespace urnic::control {

class OpenNic;

// The words of URNIC_RECORDER.
struct RecorderOptions {
  bool off = false;
  bool keep = false;
  std::string directory;  // empty: the default
  size_t bytes = size_t{1} << 20;
};
// False: `mistake` says what is wrong.
bool ParseRecorderOptions(std::string_view text, RecorderOptions& options,
                          std::string& mistake);

class Recorder {
 public:
  // Null: the recorder is off, or cannot create the file, which it reports in
  // the debug log. The port works without it. `nic` outlives the recorder.
  static std::unique_ptr<Recorder> Start(OpenNic& nic);
  // The port is closed: removes the file, unless it must be kept.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // At exit(): the same, but the thread may still run. First records the latest
  // failures, if that takes no longer than `patience`.
  void End(Duration patience);

  // Writes a dump (dump.h) to a file next to the recordings, which stays when
  // the program ends. Calls `before(path)` first; an empty path means that the
  // file cannot be written, as the debug log reports. One thread at a time.
  void KeepDump(const std::function<void(const std::string& path)>& before);

 private:
  Recorder(OpenNic& nic, const RecorderOptions& options, std::string path,
           std::unique_ptr<RecordingFile> file);
  bool StartThread();
  // Any thread, also the holder of the token.
  void Wake();
  void Run();
  // False: Wake() was called.
  bool SleepUntil(Time until) const;
  void Record();
  bool has_news() const { return recorded_.load() != failures_.load(); }
  bool must_keep() const { return keep_ || failed_.load(); }

  OpenNic& nic_;
  const bool keep_;
  const std::string path_;
  const std::unique_ptr<RecordingFile> file_;
  RecordingBuilder builder_;
  int wake_fd_ = -1;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> hurries_ = false;  // the program ends
  std::atomic<uint64_t> failures_ = 0;
  std::atomic<uint64_t> recorded_ = 0;  // of failures_
  std::atomic<bool> failed_ = false;    // one of them was not a refused call
  bool complained_ = false;
  // The files of KeepDump(), the oldest first. A locked file is not removed.
  std::deque<std::pair<int, std::string>> dumps_;
  std::thread thread_;
};

}  // namespace urnic::control
