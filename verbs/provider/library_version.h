#pragma once

// Keeps away from a libibverbs whose private interface is not the one that
// rdmav34.h describes: a wrong layout would corrupt memory without a word.

namespace urnic::provider {

// True if the libibverbs that loaded us is of the version that we are built for
// (verbs/libc/library_version.h); else one message on stderr that names both.
bool LibraryIsSupported();

}  // namespace urnic::provider
