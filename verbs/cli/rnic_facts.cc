#include "verbs/cli/rnic_facts.h"

#include <cstddef>
#include <cstdio>
#include <iterator>
#include <utility>

#include "verbs/cli/fact_list.h"

namespace urnic {

absl::StatusOr<std::vector<Facts>> ObjectsIn(
    const RnicProcess& rnic, const absl::StatusOr<std::string>& answer) {
  if (!answer.ok()) return answer.status();
  auto objects = ParseFactList(*answer);
  if (objects.ok()) return objects;
  return Unreadable(rnic, objects.status());
}

std::vector<Facts> ObjectsOfAll(std::vector<RnicProcess>& rnics,
                                const std::string& kind, const char* command,
                                bool* all_answered) {
  std::vector<Facts> all;
  const auto answers = AskRnics(rnics, "show " + kind);
  std::vector<RnicProcess> answered;
  for (size_t i = 0; i != rnics.size(); ++i) {
    auto objects = ObjectsIn(rnics[i], answers[i]);
    if (objects.ok()) {
      std::move(objects->begin(), objects->end(), std::back_inserter(all));
      answered.push_back(rnics[i]);
    } else if (!absl::IsNotFound(objects.status())) {
      if (all_answered != nullptr) *all_answered = false;
      std::fprintf(stderr, "urnic %s: %s\n", command,
                   std::string(objects.status().message()).c_str());
    }
  }
  rnics = std::move(answered);
  return all;
}

}  // namespace urnic
