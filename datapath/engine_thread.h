#pragma once

#include <functional>
#include <thread>

namespace urnic {

// A thread of ours that may run the engine. It takes none of the program's
// signals, but those that the guard around the program's memory needs
// (guarded_memory.h). `name`: as ps shows it, at most 15 characters.
// Throws std::system_error as std::thread does.
std::thread StartEngineThread(const char* name, std::function<void()> run);

}  // namespace urnic
