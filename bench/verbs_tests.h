#pragma once

#include <functional>
#include <map>
#include <string>

#include "bench/verbs_endpoint.h"

namespace urnic::bench {

// By name. Each prints one line of JSON on the client's side.
std::map<std::string, std::function<void(Pair&, const BenchOptions&)>> Tests();

// The rate over one queue pair and over many (`qps` on each side), and the cost
// of these: bytes of memory, microseconds each to make, connect and destroy.
// Two processes.
void ManyQps(Pair& pair, const BenchOptions& options);

// ibv_reg_mr() and ibv_dereg_mr() of 4 KB and of 1 GB of mapped memory,
// compared with mlock() and munlock(), the least that a pinning kernel would
// do: microseconds per call. One process.
void Registration(Pair& pair, const BenchOptions& options);

}  // namespace urnic::bench
