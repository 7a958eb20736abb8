// What most files of datapath/ and verbs/ include, directly or not, and what
// does not change. No include guard: GCC warns of one in a header that it
// precompiles.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
