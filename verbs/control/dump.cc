#include "verbs/control/dump.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "datapath/engine/engine.h"
#include "datapath/engine/environment.h"
#include "ras/facts/facts.h"
#include "ras/recorder/recording_builder.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/recorded_answers.h"

namespace urnic::control {
namespace {

// The engine is stopped while this object exists.
class Standstill {
 public:
  explicit Standstill(Engine& engine) : engine_(engine) { Set(true); }
  ~Standstill() { Set(false); }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;

 private:
  void Set(bool quiet) {
    Engine::ControlScope scope(engine_);
    engine_.SetQuiet(quiet);
  }

  Engine& engine_;
};

// Describes how long the engine was stopped, and whether the whole dump was
// made in that time.
std::string StandstillLine(Duration took, bool whole) {
  std::string line;
  FactWriter facts("dump", line);
  facts.Add("stood-still-us", took.ns() / 1000);
  facts.Add("of-one-moment", whole ? "yes" : "no");
  return line;
}

}  // namespace

std::string MakeDump(OpenNic& nic, const DumpRequest& request) {
  const WhatToRecord what = {.newest = {}, .without_secrets = !request.payload};
  RecordingBuilder builder(recording::kHalfBytesMax);
  // A first recording, which is discarded, allocates the memory for the second:
  // that takes longer than everything else.
  builder.Begin();
  RecordAnswers(
      nic, what, [] { return true; }, builder);
  builder.Begin();
  const Time begin = Environment::Now();
  std::optional<Standstill> standstill(nic.engine());
  Time end;
  RecordAnswers(
      nic, what,
      [&] {
        if (standstill && Environment::Now() - begin >= request.longest) {
          standstill.reset();
          end = Environment::Now();
        }
        return true;
      },
      builder);
  const bool whole = standstill.has_value();
  standstill.reset();
  if (whole) end = Environment::Now();
  // Frames may have arrived meanwhile without waking a thread.
  nic.engine().Progress();
  if (builder.BeginAnswer("dump"))
    builder.Append(StandstillLine(end - begin, whole));
  // The first half of a file has an even number.
  constexpr uint64_t kNumber = 2;
  const recording::FileHeader header =
      MakeFileHeader(OwnerOf(nic), recording::kHalfBytesMax, kNumber);
  std::string file(recording::kHeaderBytes, '\0');
  std::string_view(reinterpret_cast<const char*>(&header), sizeof(header))
      .copy(file.data(), sizeof(header));
  file += builder.Finish(HeaderOfNow(kNumber, Environment::Now() - begin));
  return file;
}

void SendDump(OpenNic& nic, const DumpRequest& request,
              const ControlSocket::Reply& reply) {
  const std::string file = MakeDump(nic, request);
  if (reply("ok\n")) reply(file);
}

}  // namespace urnic::control
