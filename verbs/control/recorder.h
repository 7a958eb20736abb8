#pragma once

// The flight recorder of a port (document E, 5.2.1): what `urnic show` and
// `urnic state` would tell of it now, in a file that outlives the program
// (ras/recorder). `urnic show --from FILE` reads it.
//
// Its thread records each second, and after each failure. It takes a hundredth
// of a CPU at most: if a recording takes more than 10 ms of it, the next one is
// later, by up to 30 s, and after a failure by up to a second.
//
// URNIC_RECORDER: words with commas between them.
//   off       no recordings
//   keep      the file stays when the program closes the port or calls exit().
//             Otherwise it stays if the program was killed, or if something has
//             failed: a program that fails often ends at once, and the question
//             why comes later. Refused calls alone do not keep it
//   dir:/DIR  where, instead of "recordings" in the user's own directory
//             (verbs/libc/owner_dir.h)
//   size:16M  room for a recording; 1M if not given. The file has twice as much
// The file is PORT-PID-SECONDS.rec. Those of programs that ended are removed,
// except for the newest 16. When a device fails, a dump is kept as well, under
// such a name; of each program the last four.

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
  // Null: it is off, or the file cannot be created, which the debug log tells.
  // The port works without it. `nic` outlives the recorder.
  static std::unique_ptr<Recorder> Start(OpenNic& nic);
  // The port is closed: removes the file, unless it is to be kept.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // At exit(): the same, while the thread may go on. What has failed is
  // recorded before, if that takes no longer than `patience`.
  void End(Duration patience);

  // A dump (dump.h) as a file beside the recordings, which stays when the
  // program ends. Calls `before(path)` before it is made; an empty path: it
  // cannot be written, which the debug log tells. One thread at a time.
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
  std::atomic<uint64_t> recorded_ = 0;  // so many of them
  std::atomic<bool> failed_ = false;    // one was the end of something
  bool complained_ = false;
  // Of KeepDump(), the oldest first. While a file is locked, nobody removes it.
  std::deque<std::pair<int, std::string>> dumps_;
  std::thread thread_;
};

}  // namespace urnic::control
