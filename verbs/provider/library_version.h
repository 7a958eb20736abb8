#pragma once

// Which libibverbs are we in? The private interface has no version of its own
// that can be asked, but each release that changed it also added public symbols
// (measured over all releases, see README.md), so the newest public version
// tells the layout.

#include <string>

namespace urnic::provider {

// The newest public symbol version of the library behind `handle` (of
// dlopen()): "IBVERBS_1.14"; "" if it is none we know.
std::string NewestPublicVersion(void* handle);

// The version that rdmav34.h describes.
inline constexpr const char* kSupportedVersion = "IBVERBS_1.14";

// True if the libibverbs that loaded us is of that version; else one message on
// stderr that names both.
bool LibraryIsSupported();

}  // namespace urnic::provider
