#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "verbs/cli/command.h"
#include "verbs/cli/rnic_command.h"
#include "verbs/identity/device_identity.h"

namespace urnic {
namespace {

// "10.1.0.1/24   GID 2 (RoCE v1), 3 (v2)" of a line "2 10.1.0.1/24". The index
// is "-" on a port without a RoCE device.
void PrintAddress(const std::string& line) {
  const std::vector<std::string> word = absl::StrSplit(line, ' ');
  int index;
  if (word.size() != 2) return;
  if (word[0] == "-") std::printf("  %s\n", word[1].c_str());
  if (!absl::SimpleAtoi(word[0], &index)) return;
  std::printf("  %-44s GID %2d (RoCE v1), %2d (v2)\n", word[1].c_str(), index,
              index + 1);
}

absl::Status CheckAddress(const std::string& value) {
  urnic_ip_address address;
  char error[128];
  if (urnic_ip_address_parse(value.c_str(), &address, error, sizeof(error)) ==
      0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(error);
}

}  // namespace

void AddAddrCommand(Command& urnic) {
  AddRnicCommand(
      urnic,
      {.name = "addr",
       .help = "Show and change the addresses of running programs' RNICs",
       .one = "an address",
       .value = "IP/LEN",
       .add_option = "[,iwarp]",
       .value_help = "10.1.0.1/24 or fd01::1/64; 10.1.0.1/24,iwarp: rdma_cm "
                     "takes the iWARP device for it",
       .value_is_words = false,
       .check = CheckAddress,
       .print = PrintAddress});
}

}  // namespace urnic
