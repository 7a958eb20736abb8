#include "verbs/provider/entry.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ras/errors/error_code.h"
#include "ras/facts/facts.h"
#include "verbs/control/owner.h"
#include "verbs/provider/context.h"

namespace urnic::provider {

namespace {

// A dump of the damaged object and its surroundings, for the snapshot: 32 bytes
// a line. For a long object, only the beginning and the end.
std::string DumpOf(const Suspect& suspect) {
  constexpr size_t kLine = 32;
  constexpr size_t kMost = 64 * kLine;
  const auto* const begin =
      static_cast<const uint8_t*>(suspect.object) - sizeof(uint64_t);
  const uint8_t* const end = begin + suspect.bytes + 2 * sizeof(uint64_t);
  std::string lines;
  for (const uint8_t* at = begin; at < end; at += kLine) {
    if (at == begin + kMost / 2 && end - begin > ptrdiff_t{kMost})
      at = end - kMost / 2;
    FactWriter facts("memory", lines);
    facts.AddHex("addr", reinterpret_cast<uintptr_t>(at));
    std::string line(at, std::min(at + kLine, end));
    // By now this place has the mark of a fenced object.
    if (at == begin) std::memcpy(line.data(), &suspect.found, sizeof(uint64_t));
    std::string bytes;
    for (const char byte : line) {
      absl::StrAppend(&bytes,
                      absl::Hex(static_cast<uint8_t>(byte), absl::kZeroPad2));
    }
    std::ranges::replace_if(
        line, [](char c) { return c < ' ' || c > '~'; }, '.');
    facts.Add("bytes", bytes);
    facts.Add("text", line);
    control::AddOwner(control::ThisProcess(), facts);
  }
  return lines;
}

std::string NameOf(const Suspect& suspect) {
  return absl::StrCat(MarkText(suspect.marks.start), " at 0x",
                      absl::Hex(reinterpret_cast<uintptr_t>(suspect.object)));
}

uint64_t WordAt(const void* object, ptrdiff_t offset) {
  uint64_t word;
  std::memcpy(&word, static_cast<const uint8_t*>(object) + offset,
              sizeof(word));
  return word;
}

// The marks that are wrong, and what they should be.
std::string DamageOf(const Suspect& suspect) {
  const uint64_t behind =
      WordAt(suspect.object, static_cast<ptrdiff_t>(suspect.bytes));
  std::string damage;
  const auto add = [&](const char* where, uint64_t found, uint64_t mark) {
    if (found == mark) return;
    absl::StrAppend(&damage, damage.empty() ? "" : ", ", where, " it stands '",
                    MarkText(found), "' instead of '", MarkText(mark), "'");
  };
  add("before", suspect.found, suspect.marks.start);
  add("behind", behind, suspect.marks.end);
  return damage.empty() ? "its marks were wrong for a moment" : damage;
}

}  // namespace

void SuspectPart(const MarkedBlock::Part& part, const void* object,
                 Suspect& suspect) {
  auto* const qp = static_cast<QueuePair*>(const_cast<void*>(object));
  if (FenceOff(qp) == QueuePair::kMarks.fenced) {
    suspect.health = Health::kFenced;
    return;
  }
  suspect.health = Health::kDamaged;
  suspect.object = qp->block + part.offset;
  suspect.bytes =
      (part.bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
  suspect.marks = *part.marks;
  suspect.found = WordAt(suspect.object, -ptrdiff_t{sizeof(uint64_t)});
}

int RefuseSuspect(const Suspect& suspect, const char* verb) {
  Context& context = *Context::From(suspect.context);
  Failure failure{.qpn = context.NumberOf(suspect.handle)};
  int error = EIO;
  switch (suspect.health) {
    case Health::kIntact:  // ended and made again meanwhile
    case Health::kEnded:
      error = EINVAL;
      failure.code = ErrorCode::kObjectEnded;
      failure.text =
          absl::StrCat(verb, ": ", NameOf(suspect), " was destroyed before");
      break;
    case Health::kFenced:
      failure.code = ErrorCode::kObjectFenced;
      failure.text =
          absl::StrCat(verb, ": ", NameOf(suspect), " was written over before");
      break;
    case Health::kDamaged:
      failure.code = ErrorCode::kObjectDamaged;
      failure.text =
          absl::StrCat(verb, ": ", NameOf(suspect), ": ", DamageOf(suspect));
      failure.state = DumpOf(suspect);
      break;
  }
  const uint32_t qpn = failure.qpn;
  // This comes first, because a damaged object cannot be trusted.
  context.device().NoteMisuse(std::move(failure));
  if (suspect.health == Health::kDamaged) context.Fence(suspect.handle, qpn);
  return error;
}

}  // namespace urnic::provider
