#pragma once

// What programs tell of their objects, as `urnic show` chooses and prints it
// (ras/facts/facts.h). Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ras/facts/facts.h"

namespace urnic {

// As in iproute2's rdma: all of them must hold.
struct FactFilter {
  std::string name;                 // "lqpn"
  std::vector<std::string> values;  // any of these; "3-7": any of that range
};

// From words: a name, and its values with commas between them, and so on. "0x"
// begins a hexadecimal number. INVALID_ARGUMENT: a name without a value, or an
// empty value.
absl::StatusOr<std::vector<FactFilter>> ParseFilters(
    const std::vector<std::string>& words);

// The first and the last number of "3-7", and of "3" or "0x3" that number
// twice. None: it is neither.
std::optional<std::pair<uint64_t, uint64_t>> RangeIn(const std::string& text);

// An object that lacks the fact does not match.
bool Matches(const Facts& object, const std::vector<FactFilter>& filters);

// Whether an object with this value could match. True if no filter has the
// name.
bool MayMatch(std::string_view name, const std::string& value,
              const std::vector<FactFilter>& filters);

// The lines of an answer. FAILED_PRECONDITION: one of them is not a line of
// facts.
absl::StatusOr<std::vector<Facts>> ParseFactList(const std::string& answer);

// NOT_FOUND: none of the objects has a fact with the name of a filter; says
// which facts they have. An empty list has all.
absl::Status CheckNames(const std::vector<Facts>& objects,
                        const std::vector<FactFilter>& filters);

// "link urnic0/1 lqpn 17 type RC ..", without a line feed. Details follow on a
// line of their own.
std::string FactLine(const Facts& object, bool details);

}  // namespace urnic
