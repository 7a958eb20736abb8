#pragma once

#include <functional>
#include <map>
#include <string>

#include "bench/verbs_endpoint.h"

namespace urnic::bench {

// By name. Each prints its line of JSON on the client's side.
std::map<std::string, std::function<void(Pair&, const BenchOptions&)>> Tests();

}  // namespace urnic::bench
