// The start of every program with mutations (transport/base/mutation.h):
//
//   PROGRAM --mutation=NAME ...   breaks that place; without it, none
//   PROGRAM --mutations           prints the names that the program has
//
// The linker puts it before the program's own main(), which it renames.

#include <cstdio>
#include <cstring>
#include <string_view>

#include "transport/base/mutation.h"

extern "C" {

int __real_main(int argc, char** argv);  // NOLINT(bugprone-reserved-identifier)

int __wrap_main(int argc,
                char** argv) {  // NOLINT(bugprone-reserved-identifier)
  constexpr std::string_view kChoice = "--mutation=";
  const std::string_view argument = argc > 1 ? argv[1] : "";
  if (argument == "--mutations") {
    for (const auto* place = urnic::mutation::g_places; place != nullptr;
         place = place->next) {
      std::puts(place->name);
    }
    return 0;
  }
  if (!argument.starts_with(kChoice)) return __real_main(argc, argv);
  if (!urnic::mutation::Choose(argument.substr(kChoice.size()))) {
    std::fprintf(stderr, "%s: this program has no such mutation\n", argv[1]);
    return 2;
  }
  argv[1] = argv[0];
  return __real_main(argc - 1, argv + 1);
}
}
