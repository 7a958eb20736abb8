#pragma once

// One line of a packet script as words (tests/scripts/README.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/time.h"

namespace urnic::scripts {

// Takes words from the front. Does not report errors: a word that does not fit
// stays, and the caller reports it.
class Words {
 public:
  // A '#' starts a comment.
  explicit Words(std::string_view line);

  bool empty() const { return next_ == words_.size(); }
  // The next word, without taking it; "" at the end.
  std::string_view Peek() const;
  std::string Next();
  // Takes the next word if it is `word`.
  bool Take(std::string_view word);

  // A number: decimal or 0x.., with an optional k or M (1024s).
  std::optional<uint64_t> Number();
  // "5us", "2.5ms", "1s", "655360us", or "0".
  std::optional<Duration> TakeDuration();

 private:
  std::vector<std::string> words_;
  size_t next_ = 0;
};

std::optional<uint64_t> ParseNumber(std::string_view word);

}  // namespace urnic::scripts
