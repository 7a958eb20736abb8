#include "verbs/control/dump.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "datapath/engine/environment.h"
#include "ras/recorder/recording_builder.h"
#include "verbs/control/open_nic.h"
#include "verbs/control/recorded_answers.h"

namespace urnic::control {
namespace {

// The engine stands still while this exists.
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

}  // namespace

void SendDump(OpenNic& nic, const ControlSocket::Reply& reply) {
  RecordingBuilder builder(recording::kHalfBytesMax);
  // The first one makes room for the second: memory that is new takes longer
  // than all else.
  builder.Begin();
  RecordAnswers(
      nic, {.mask_keys = true}, [] { return true; }, builder);
  builder.Begin();
  const Time begin = Environment::Now();
  {
    const Standstill standstill(nic.engine());
    RecordAnswers(
        nic, {.mask_keys = true}, [] { return true; }, builder);
  }
  const Duration took = Environment::Now() - begin;
  // In the first half of a file: of an even number.
  constexpr uint64_t kNumber = 2;
  const recording::FileHeader header =
      MakeFileHeader(OwnerOf(nic), recording::kHalfBytesMax, kNumber);
  std::string file(recording::kHeaderBytes, '\0');
  std::string_view(reinterpret_cast<const char*>(&header), sizeof(header))
      .copy(file.data(), sizeof(header));
  file += builder.Finish(HeaderOfNow(kNumber, took));
  if (reply("ok\n")) reply(file);
}

}  // namespace urnic::control
