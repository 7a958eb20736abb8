// The parts of absl::Cord that absl::Status needs, for use in a shared object.
//
// The distribution's archives are compiled for executables. Cord samples itself
// for profilers with a thread-local counter. Compiled that way, it either
// cannot be linked into a shared object, or makes all thread-local memory of
// the object static, of which a program that loads us with dlopen() has too
// little ("cannot allocate memory in static TLS block").
//
// Status holds its payloads in cords and so links all that, although no code
// here attaches a payload. The members that it calls are defined here instead,
// and the linker leaves out the archive's. They are never called. A release of
// Abseil that needs other members does not link, so it cannot fail silently.

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
