#include <bitset>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "verbs/cli/checks.h"
#include "verbs/libc/claim_holders.h"

namespace urnic {
namespace {

struct Survey {
  std::set<std::string> strangers;
  std::bitset<URNIC_CLAIM_ORDINALS> ordinals;
  std::bitset<URNIC_CLAIM_ORDINALS> others_ordinals;
};

// A socket port of the same name may legitimately belong to another user. An
// interface may not.
void Look(void* context, const urnic_claim_holder* holder) {
  auto& survey = *static_cast<Survey*>(context);
  // Bytes after a zero are not part of the claimed name.
  const std::string name(holder->name,
                         strnlen(holder->name, holder->name_bytes));
  absl::string_view rest = name;
  if (absl::ConsumePrefix(&rest, URNIC_CLAIM_PORT)) {
    const std::string identity(rest);
    if (absl::StartsWith(identity, "iface:") &&
        urnic_claim_has_right(identity.c_str(), holder->uid) == 0) {
      survey.strangers.insert(absl::StrCat(identity, " by user ", holder->uid));
    }
  } else if (absl::ConsumePrefix(&rest, URNIC_CLAIM_ORDINAL)) {
    const auto n = std::strtoul(std::string(rest).c_str(), nullptr, 10);
    if (n >= URNIC_CLAIM_ORDINALS) return;
    survey.ordinals.set(n);
    survey.others_ordinals.set(
        n, urnic_claim_has_right(nullptr, holder->uid) == 0);
  }
}

}  // namespace

Check CheckClaims() {
  constexpr char kWhat[] = "port claims";
  Survey survey;
  const int error = urnic_claim_visit("urnic-", Look, &survey);
  if (error != 0)
    return {Finding::kOk, kWhat,
            absl::StrCat("unknown: the kernel does not list sockets: ",
                         std::strerror(-error)),
            ""};
  std::vector<std::string> found;
  if (!survey.strangers.empty())
    found.push_back(absl::StrCat("held without a right to the port: ",
                                 absl::StrJoin(survey.strangers, ", ")));
  if (survey.ordinals.all() && survey.others_ordinals.any())
    found.push_back(
        absl::StrCat("all ", URNIC_CLAIM_ORDINALS, " RNIC ordinals are taken, ",
                     survey.others_ordinals.count(), " by other users"));
  if (found.empty())
    return {Finding::kOk, kWhat,
            "no port is claimed by a user who has no right to it", ""};
  return {Finding::kWarn, kWhat, absl::StrJoin(found, "; "),
          "RNICs ignore these claims; to find the processes and end them: `ss "
          "-xlp` as root"};
}

std::vector<Check> CheckPortIsFree(const urnic_device_identity& d) {
  if (d.ifname[0] == '\0') return {};
  struct Search {
    std::string identity;
    bool held = false;
  } search{absl::StrCat("iface:", d.ifname)};
  const auto visit = [](void* context, const urnic_claim_holder* holder) {
    auto& s = *static_cast<Search*>(context);
    const std::string name(holder->name,
                           strnlen(holder->name, holder->name_bytes));
    s.held |= name == URNIC_CLAIM_PORT + s.identity &&
              urnic_claim_has_right(s.identity.c_str(), holder->uid) != 0;
  };
  (void)urnic_claim_visit(URNIC_CLAIM_PORT, visit, &search);
  if (!search.held) return {};
  return {{Finding::kWarn, absl::StrCat(d.ifname, " port"),
           "in use by another RNIC: a program under urnic run",
           "end it, or use another interface; `urnic addr` and `ss -xlp` name "
           "the program"}};
}

}  // namespace urnic
