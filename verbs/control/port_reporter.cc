#include "verbs/control/port_reporter.h"

#include "absl/strings/str_cat.h"
#include "datapath/port/port.h"
#include "verbs/control/debug_log.h"

namespace urnic::control {

void PortReporter::operator()(const PortInfo& info) {
  const std::string line = absl::StrCat(device_, ": ", info.text);
  if (!info.remedy.empty() && complained_.insert(info.text).second) {
    ComplainLoudly(absl::StrCat(line, "; ", info.remedy));
  } else {
    DebugLog(line);
  }
}

}  // namespace urnic::control
