#include "verbs/cli/did_you_mean.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace urnic {
namespace {

bool IsSameLetter(char a, char b) {
  return absl::ascii_tolower(static_cast<unsigned char>(a)) ==
         absl::ascii_tolower(static_cast<unsigned char>(b));
}

}  // namespace

size_t LettersApart(std::string_view a, std::string_view b) {
  // [i][j]: from the first i letters of `a` to the first j letters of `b`.
  size_t apart[kDidYouMeanLetters + 1][kDidYouMeanLetters + 1];
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t least = i + j;  // all removed, all inserted
      if (i > 0 && j > 0) {
        const bool same = IsSameLetter(a[i - 1], b[j - 1]);
        least = std::min({apart[i - 1][j] + 1, apart[i][j - 1] + 1,
                          apart[i - 1][j - 1] + (same ? 0 : 1)});
      }
      if (i > 1 && j > 1 && IsSameLetter(a[i - 1], b[j - 2]) &&
          IsSameLetter(a[i - 2], b[j - 1])) {
        least = std::min(least, apart[i - 2][j - 2] + 1);
      }
      apart[i][j] = least;
    }
  }
  return apart[a.size()][b.size()];
}

std::string DidYouMean(std::string_view word,
                       const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t least = 0;
  for (const std::string& candidate : known) {
    const size_t letters = std::max(word.size(), candidate.size());
    if (letters > kDidYouMeanLetters) continue;
    const size_t apart = LettersApart(word, candidate);
    if (3 * apart > letters || (best != nullptr && apart >= least)) continue;
    best = &candidate;
    least = apart;
  }
  return best == nullptr ? "" : absl::StrCat(": did you mean \"", *best, "\"?");
}

}  // namespace urnic
