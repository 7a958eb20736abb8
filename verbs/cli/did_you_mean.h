#pragma once

// For messages about a misspelt word: the known word that it resembles.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace urnic {

// Longer words resemble no word.
inline constexpr size_t kDidYouMeanLetters = 31;

// How many letters to insert, remove or replace, or to swap with the next one,
// to get from `a` to `b`. Upper and lower case are the same. Both words have at
// most kDidYouMeanLetters ASCII characters.
size_t LettersApart(std::string_view a, std::string_view b);

// `: did you mean "run"?`, to follow a message about `word`; empty if no word
// of `known` is close: two thirds of the letters must be right. Of equally
// close words, the first.
std::string DidYouMean(std::string_view word,
                       const std::vector<std::string>& known);

}  // namespace urnic
