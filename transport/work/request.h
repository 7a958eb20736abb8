#pragma once

// The table of work requests, with a row for each. All sets of requests, and
// all decisions by kind of request, in the cores, the verbs and the tests, are
// derived from this table at compile time.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "transport/work/types.h"
#include "verbs/abi/rnic_abi.h"

namespace urnic {

// The packets that carry a request. kLocal: none; it is done locally, without
// the peer (binds and invalidates).
enum class RequestFamily : uint8_t {
  kLocal,
  kSend,
  kWrite,
  kRead,
  kAtomic,
  kAtomicWrite,
  kFlush,
};

inline constexpr uint8_t ServiceBit(QpService service) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(service));
}

// The length of a request is the sum of its gather list.
inline constexpr int8_t kAnyLength = -1;

struct RequestKind {
  uint8_t opcode;      // enum urnic_wr_opcode
  uint8_t completion;  // enum urnic_wc_opcode
  RequestFamily family;
  uint8_t services;     // ServiceBit() of those that have it
  int8_t fixed_length;  // the only one allowed; or kAnyLength
  bool with_imm;        // the peer's receive gets immediate data
  std::string_view name;

  constexpr bool local() const { return family == RequestFamily::kLocal; }
  // The peer answers each request, by data or by an empty read response. It
  // counts against max_rd_atomic.
  constexpr bool answered() const {
    return family == RequestFamily::kRead || family == RequestFamily::kAtomic ||
           family == RequestFamily::kAtomicWrite ||
           family == RequestFamily::kFlush;
  }
  // The answer is a read response, perhaps an empty one.
  constexpr bool answered_as_read() const {
    return answered() && family != RequestFamily::kAtomic;
  }
  // The data of the answer is scattered to the request's list.
  constexpr bool scatters() const {
    return family == RequestFamily::kRead || family == RequestFamily::kAtomic;
  }
  // The data of the request's list is sent.
  constexpr bool gathers() const {
    return family == RequestFamily::kSend || family == RequestFamily::kWrite ||
           family == RequestFamily::kAtomicWrite;
  }
  // Consumes a receive request of the peer.
  constexpr bool takes_receive() const {
    return family == RequestFamily::kSend || with_imm;
  }
};

namespace internal {
inline constexpr uint8_t kRcOnly =
    ServiceBit(QpService::kRc) | ServiceBit(QpService::kXrcInitiator);
//= RFC 5040 4.2, RFC 7306 4.1: iWARP has messages for sends, writes, reads and
//= atomics
inline constexpr uint8_t kReliable = kRcOnly | ServiceBit(QpService::kIwarp);
inline constexpr uint8_t kConnected = kReliable | ServiceBit(QpService::kUc);
inline constexpr uint8_t kAll = kConnected | ServiceBit(QpService::kUd);
}  // namespace internal

//= IBTA 10.7.2.2: each service supports a fixed set of work requests
// In the order of RequestKind's fields; a row is two lines.
inline constexpr RequestKind kRequestKinds[] = {
    {URNIC_WR_RDMA_WRITE, URNIC_WC_RDMA_WRITE, RequestFamily::kWrite,
     internal::kConnected, kAnyLength, false, "write"},
    {URNIC_WR_RDMA_WRITE_WITH_IMM, URNIC_WC_RDMA_WRITE, RequestFamily::kWrite,
     internal::kConnected, kAnyLength, true, "write-imm"},
    {URNIC_WR_SEND, URNIC_WC_SEND, RequestFamily::kSend,  //
     internal::kAll, kAnyLength, false, "send"},
    {URNIC_WR_SEND_WITH_IMM, URNIC_WC_SEND, RequestFamily::kSend,
     internal::kAll, kAnyLength, true, "send-imm"},
    {URNIC_WR_RDMA_READ, URNIC_WC_RDMA_READ, RequestFamily::kRead,
     internal::kReliable, kAnyLength, false, "read"},
    {URNIC_WR_ATOMIC_CMP_AND_SWP, URNIC_WC_COMP_SWAP, RequestFamily::kAtomic,
     internal::kReliable, 8, false, "cas"},
    {URNIC_WR_ATOMIC_FETCH_AND_ADD, URNIC_WC_FETCH_ADD, RequestFamily::kAtomic,
     internal::kReliable, 8, false, "fadd"},
    {URNIC_WR_LOCAL_INV, URNIC_WC_LOCAL_INV, RequestFamily::kLocal,
     internal::kConnected, 0, false, "local-inv"},
    {URNIC_WR_BIND_MW, URNIC_WC_BIND_MW, RequestFamily::kLocal,
     internal::kConnected, 0, false, "bind"},
    {URNIC_WR_SEND_WITH_INV, URNIC_WC_SEND, RequestFamily::kSend,
     internal::kReliable, kAnyLength, false, "send-inv"},
    {URNIC_WR_FLUSH, URNIC_WC_FLUSH, RequestFamily::kFlush,  //
     internal::kRcOnly, 0, false, "flush"},
    {URNIC_WR_ATOMIC_WRITE, URNIC_WC_ATOMIC_WRITE, RequestFamily::kAtomicWrite,
     internal::kRcOnly, 8, false, "atomic-write"},
};

// A set of requests: bit n for enum urnic_wr_opcode n. A lookup is one test.
using RequestSet = uint32_t;

constexpr RequestSet RequestBit(uint8_t opcode) { return 1u << (opcode & 31); }
// REQUIRES: opcode < 32, or its low five bits name an opcode that no set holds.
constexpr bool Contains(RequestSet set, uint8_t opcode) {
  return (set >> (opcode & 31) & 1) != 0;
}

// The requests whose row fulfils a condition.
template <typename Condition>
constexpr RequestSet RequestsThat(Condition condition) {
  RequestSet set = 0;
  for (const RequestKind& kind : kRequestKinds) {
    if (condition(kind)) set |= RequestBit(kind.opcode);
  }
  return set;
}

constexpr RequestSet RequestsOf(QpService service) {
  return RequestsThat([service](const RequestKind& kind) {
    return (kind.services & ServiceBit(service)) != 0;
  });
}
constexpr RequestSet RequestsOf(RequestFamily family) {
  return RequestsThat(
      [family](const RequestKind& kind) { return kind.family == family; });
}

inline constexpr RequestSet kAllRequests =
    RequestsThat([](const RequestKind&) { return true; });
inline constexpr RequestSet kLocalRequests = RequestsOf(RequestFamily::kLocal);
inline constexpr RequestSet kAnsweredRequests =
    RequestsThat([](const RequestKind& kind) { return kind.answered(); });
inline constexpr RequestSet kRequestsAnsweredAsReads = RequestsThat(
    [](const RequestKind& kind) { return kind.answered_as_read(); });
inline constexpr RequestSet kRequestsOfAnyLength = RequestsThat(
    [](const RequestKind& kind) { return kind.fixed_length == kAnyLength; });
inline constexpr RequestSet kScatteringRequests =
    RequestsThat([](const RequestKind& kind) { return kind.scatters(); });
inline constexpr RequestSet kGatheringRequests =
    RequestsThat([](const RequestKind& kind) { return kind.gathers(); });
inline constexpr RequestSet kRequestsWithImm =
    RequestsThat([](const RequestKind& kind) { return kind.with_imm; });
inline constexpr RequestSet kRequestsThatTakeAReceive =
    RequestsThat([](const RequestKind& kind) { return kind.takes_receive(); });

// One past the largest opcode.
inline constexpr uint8_t kRequestOpcodesEnd =
    static_cast<uint8_t>(std::bit_width(kAllRequests));

namespace internal {
// By opcode: the row, or past the end.
struct RequestIndex {
  uint8_t row[32];
  constexpr RequestIndex() : row() {
    for (uint8_t& r : row) r = std::size(kRequestKinds);
    for (size_t i = 0; i < std::size(kRequestKinds); ++i) {
      row[kRequestKinds[i].opcode] = static_cast<uint8_t>(i);
    }
  }
};
inline constexpr RequestIndex kRequestIndex;
}  // namespace internal

// Null: there is no such request.
constexpr const RequestKind* FindRequest(uint8_t opcode) {
  if (!Contains(kAllRequests, opcode) || opcode > 31) return nullptr;
  return &kRequestKinds[internal::kRequestIndex.row[opcode]];
}

// The opcode in a request's completion. A request that does not exist can only
// fail, and gives URNIC_WC_SEND.
constexpr uint8_t CompletionOpcode(uint8_t opcode) {
  const RequestKind* kind = FindRequest(opcode);
  return kind != nullptr ? kind->completion : uint8_t{URNIC_WC_SEND};
}

}  // namespace urnic
