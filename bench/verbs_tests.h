#pragma once

#include <functional>
#include <map>
#include <string>

#include "bench/verbs_endpoint.h"

namespace urnic::bench {

// By name. Each prints its line of JSON on the client's side.
std::map<std::string, std::function<void(Pair&, const BenchOptions&)>> Tests();

// The rate over one queue pair and over many (`qps` on each side), and what
// these cost: bytes of memory, microseconds each to make, connect and destroy.
// Two processes.
void ManyQps(Pair& pair, const BenchOptions& options);

// ibv_reg_mr() and ibv_dereg_mr() of 4 KB and of 1 GB that is there, beside
// mlock() and munlock(), which is what a kernel that pins would do at least:
// microseconds a call. One process.
void Registration(Pair& pair, const BenchOptions& options);

}  // namespace urnic::bench
