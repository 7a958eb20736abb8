#pragma once

// ULPDUs of a peer that may send anything, for tests.

#include <cstdint>
#include <cstring>
#include <vector>

#include "transport/wire/ddp.h"

namespace urnic::rdmap::testing {

template <typename Header>
void AppendHeader(std::vector<uint8_t>& ulpdu, const Header& header) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
  ulpdu.insert(ulpdu.end(), bytes, bytes + sizeof(header));
}

struct RawTagged {
  wire::RdmapOpcode opcode = wire::RdmapOpcode::kWrite;
  bool last = true;
  uint32_t stag = 0;
  uint64_t offset = 0;
  size_t payload = 0;  // bytes
};

inline std::vector<uint8_t> Raw(const RawTagged& f) {
  wire::DdpTagged header;
  header.control = wire::DdpControl::Make(true, f.last, f.opcode);
  header.stag = wire::Be<uint32_t>(f.stag);
  header.offset = wire::Be<uint64_t>(f.offset);
  std::vector<uint8_t> ulpdu;
  AppendHeader(ulpdu, header);
  ulpdu.resize(ulpdu.size() + f.payload, 0xab);
  return ulpdu;
}

struct RawUntagged {
  wire::RdmapOpcode opcode = wire::RdmapOpcode::kSend;
  bool last = true;
  uint32_t queue = 0;
  uint32_t msn = 1;
  uint32_t offset = 0;
  uint32_t stag = 0;
  size_t payload = 0;  // bytes
};

inline std::vector<uint8_t> Raw(const RawUntagged& f) {
  wire::DdpUntagged header;
  header.control = wire::DdpControl::Make(false, f.last, f.opcode);
  header.invalidate_stag = wire::Be<uint32_t>(f.stag);
  header.queue = wire::Be<uint32_t>(f.queue);
  header.msn = wire::Be<uint32_t>(f.msn);
  header.offset = wire::Be<uint32_t>(f.offset);
  std::vector<uint8_t> ulpdu;
  AppendHeader(ulpdu, header);
  ulpdu.resize(ulpdu.size() + f.payload, 0xab);
  return ulpdu;
}

struct RawRead {
  uint32_t msn = 1;
  uint32_t stag = 0;
  uint64_t address = 0;
  uint32_t bytes = 0;
};

inline std::vector<uint8_t> Raw(const RawRead& f) {
  std::vector<uint8_t> ulpdu =
      Raw(RawUntagged{.opcode = wire::RdmapOpcode::kReadRequest,
                      .queue = wire::kReadRequestQueue,
                      .msn = f.msn});
  wire::RdmapReadRequest request;
  request.bytes = wire::Be<uint32_t>(f.bytes);
  request.source_stag = wire::Be<uint32_t>(f.stag);
  request.source_offset = wire::Be<uint64_t>(f.address);
  AppendHeader(ulpdu, request);
  return ulpdu;
}

struct RawAtomic {
  uint32_t msn = 1;
  uint32_t operation = wire::kAtomicFetchAdd;
  uint32_t stag = 0;
  uint64_t address = 0;
  uint64_t swap_or_add = 0;
  uint64_t mask = 0;
  uint64_t compare = 0;
  uint64_t compare_mask = 0;
};

inline std::vector<uint8_t> Raw(const RawAtomic& f) {
  std::vector<uint8_t> ulpdu =
      Raw(RawUntagged{.opcode = wire::RdmapOpcode::kAtomicRequest,
                      .queue = wire::kReadRequestQueue,
                      .msn = f.msn});
  wire::RdmapAtomicRequest request;
  request.operation = wire::Be<uint32_t>(f.operation);
  request.request_id = wire::Be<uint32_t>(99);
  request.stag = wire::Be<uint32_t>(f.stag);
  request.offset = wire::Be<uint64_t>(f.address);
  request.swap_or_add = wire::Be<uint64_t>(f.swap_or_add);
  request.swap_or_add_mask = wire::Be<uint64_t>(f.mask);
  request.compare = wire::Be<uint64_t>(f.compare);
  request.compare_mask = wire::Be<uint64_t>(f.compare_mask);
  AppendHeader(ulpdu, request);
  return ulpdu;
}

}  // namespace urnic::rdmap::testing
