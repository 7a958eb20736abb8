// What absl::Status needs of absl::Cord, for use in a shared object.
//
// The distribution's archives are compiled for executables. Cord samples itself
// for profilers by a thread-local counter, and in that form it either cannot be
// linked into a shared object at all or turns all its thread-local memory into
// the static kind, of which a program that loads us with dlopen() has too
// little ("cannot allocate memory in static TLS block").
//
// Status holds its payloads in cords, so it drags all that in, although nobody
// here attaches a payload. The members that it calls are defined here instead;
// the linker then leaves the archive's out. They are never reached. A release
// of Abseil that needs others fails to link; it cannot go wrong silently.

#include <cstdio>
#include <cstdlib>

#include "absl/strings/cord.h"
#include "absl/strings/internal/cordz_info.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

namespace {

[[noreturn]] void NoPayloads() {
  std::fputs(
      "urnic: an absl::Status has a payload; see "
      "third_party/abseil/shared_object_parts.cc\n",
      stderr);
  std::abort();
}

}  // namespace

void Cord::DestroyCordSlow() { NoPayloads(); }
void Cord::InlineRep::UnrefTree() { NoPayloads(); }
bool Cord::EqualsImpl(const Cord&, size_t) const { NoPayloads(); }
Cord::operator std::string() const { NoPayloads(); }

namespace cord_internal {

void CordzInfo::MaybeTrackCordImpl(InlineData&, const InlineData&,
                                   MethodIdentifier) {
  NoPayloads();
}

}  // namespace cord_internal

ABSL_NAMESPACE_END
}  // namespace absl
