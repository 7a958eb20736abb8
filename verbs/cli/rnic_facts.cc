#include "verbs/cli/rnic_facts.h"

#include <cstdio>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "verbs/cli/fact_list.h"

namespace urnic {
namespace {

absl::StatusOr<std::vector<Facts>> ObjectsOf(const RnicProcess& rnic,
                                             const std::string& kind) {
  const auto answer = AskRnic(rnic, "show " + kind);
  if (!answer.ok()) return answer.status();
  auto objects = ParseFactList(*answer);
  if (objects.ok()) return objects;
  return Unreadable(rnic, objects.status());
}

}  // namespace

std::vector<Facts> ObjectsOfAll(const std::vector<RnicProcess>& rnics,
                                const std::string& kind, const char* command,
                                bool* all_answered) {
  std::vector<Facts> all;
  for (const RnicProcess& rnic : rnics) {
    auto objects = ObjectsOf(rnic, kind);
    if (objects.ok()) {
      std::move(objects->begin(), objects->end(), std::back_inserter(all));
    } else {
      if (all_answered != nullptr) *all_answered = false;
      std::fprintf(stderr, "urnic %s: %s\n", command,
                   std::string(objects.status().message()).c_str());
    }
  }
  return all;
}

}  // namespace urnic
