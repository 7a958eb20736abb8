#pragma once

// The libibverbs that has loaded us. Its private functions are looked up by
// name at run time, because a library with another private number has them
// under another symbol version, and the loader would refuse a plugin that is
// linked to them.

#include "verbs/provider/private_interface.h"

namespace urnic::provider {

// Finds the library and its functions. Returns false, with one message on
// stderr, if it is not a version that we are built for
// (verbs/libc/library_version.h). Call it once, before everything below.
bool FindLibrary();

// verbs_register_driver_<private number>().
void RegisterDriver(const verbs_device_ops* ops);

// Returns an initialized, zeroed verbs_context with `extra_bytes` after it,
// from malloc, or nullptr with errno. Owns cmd_fd, even if it fails.
verbs_context* NewVerbsContext(ibv_device* device, int cmd_fd,
                               size_t extra_bytes);
// Closes its cmd_fd and async_fd, and frees it.
void DeleteVerbsContext(ibv_context* context);
// The part of it that programs use; followed by the extra bytes.
ibv_context* PublicPartOf(verbs_context* context);

// Copies the operations that are not null and that the library has.
void SetOperations(verbs_context* context, const verbs_context_ops& ops);

}  // namespace urnic::provider
