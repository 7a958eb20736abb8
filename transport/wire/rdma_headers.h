#pragma once

// The extended transport headers that follow the BTH, in the order that the
// opcode table gives (transport/wire/opcode_table.h).

#include <cstddef>

#include "transport/base/ids.h"
#include "transport/wire/be.h"

namespace urnic::wire {

//= IBTA 9.3.3: the format of the RDMA extended transport header (RETH), for
//= writes and read requests
struct Reth {
  Be<uint64_t> virtual_address;
  Be<uint32_t> rkey;
  Be<uint32_t> dma_length;
};
static_assert(sizeof(Reth) == 16 && alignof(Reth) == 1);
static_assert(offsetof(Reth, rkey) == 8 && offsetof(Reth, dma_length) == 12);

//= IBTA 9.3.5: the format of the ACK extended transport header (AETH): a
//= syndrome of 8 bits, an MSN of 24
struct Aeth {
  Be<uint32_t> syndrome_msn;

  uint8_t syndrome() const {
    return static_cast<uint8_t>(syndrome_msn.value() >> 24);
  }
  uint32_t msn() const { return syndrome_msn.value() & 0x00ffffff; }
  static Aeth Make(uint8_t syndrome, uint32_t msn) {
    Aeth aeth;
    aeth.syndrome_msn = Be<uint32_t>(static_cast<uint32_t>(syndrome) << 24 |
                                     (msn & 0x00ffffff));
    return aeth;
  }
};
static_assert(sizeof(Aeth) == 4 && alignof(Aeth) == 1);

//= IBTA 9.7.5.2.1: the low five bits of a syndrome are the credits of an ACK,
//= the timer of an RNR NAK, or the code of a NAK
inline constexpr uint8_t kAethTypeMask = 0x60;
inline constexpr uint8_t kAethValueMask = 0x1f;
inline constexpr uint8_t kAethAck = 0x00;
inline constexpr uint8_t kAethRnrNak = 0x20;
inline constexpr uint8_t kAethNak = 0x60;
inline constexpr uint8_t kAethCreditsInvalid = 0x1f;
inline constexpr uint8_t kNakPsnSequenceError = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccessError = 0x62;
inline constexpr uint8_t kNakRemoteOperationalError = 0x63;

//= IBTA 9.3.4: the format of the atomic extended transport header (AtomicETH)
struct AtomicEth {
  Be<uint64_t> virtual_address;
  Be<uint32_t> rkey;
  Be<uint64_t> swap_or_add;
  Be<uint64_t> compare;
};
static_assert(sizeof(AtomicEth) == 28 && alignof(AtomicEth) == 1);
static_assert(offsetof(AtomicEth, rkey) == 8);
static_assert(offsetof(AtomicEth, swap_or_add) == 12);

//= IBTA 9.3.6: the format of the atomic ACK extended transport header
//= (AtomicAckETH)
struct AtomicAckEth {
  Be<uint64_t> original_value;
};
static_assert(sizeof(AtomicAckEth) == 8);

//= IBTA 9.3.7: the format of the immediate data header (ImmDt)
// Opaque bytes: verbs pass them in network order, and so do we.
struct ImmDt {
  uint8_t data[4] = {};
};
static_assert(sizeof(ImmDt) == 4);

//= IBTA 9.3.8: the format of the invalidate extended transport header (IETH)
struct Ieth {
  Be<uint32_t> rkey;
};
static_assert(sizeof(Ieth) == 4);

//= IBTA A19.3.1: the flush extended transport header (FETH) has the placement
//= type in bits 0 to 3, the selectivity level in bits 4 and 5
struct Feth {
  Be<uint32_t> value;
};
static_assert(sizeof(Feth) == 4);
inline constexpr uint32_t kFethTypeMask = 0x0f;
inline constexpr uint32_t kFethLevelMask = 0x30;

//= IBTA 9.3.1: the format of the datagram extended transport header (DETH):
//= Q_Key and source QP
struct Deth {
  Be<uint32_t> qkey;
  Be<uint32_t> source_qp;

  Qpn src_qp() const { return Qpn{source_qp.value() & 0x00ffffff}; }
};
static_assert(sizeof(Deth) == 8);

//= IBTA A14: every XRC request has the XRC extended transport header (XRCETH)
//= directly after the BTH
struct XrcEth {
  Be<uint32_t> reserved_srqn;

  uint32_t srqn() const { return reserved_srqn.value() & 0x00ffffff; }
};
static_assert(sizeof(XrcEth) == 4);

}  // namespace urnic::wire
