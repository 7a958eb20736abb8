#include "transport/rud/upper/address.h"

#include <gtest/gtest.h>

namespace urnic::rud::upper {
namespace {

EndpointAddress Example() {
  EndpointAddress address;
  address.incarnation = 0x0123456789abcdef;
  address.reassembly_bytes = 1 << 20;
  address.open_messages = 7;
  for (uint32_t i = 1; i <= 2; ++i)
    address.nics.push_back({{wire::Gid::FromIpv4(i), i, i * 5}, 1024 * i});
  return address;
}

TEST(EndpointAddress, IsWhatWasEncoded) {
  const auto got = EndpointAddress::Decode(Example().Encode());
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->incarnation, Example().incarnation);
  EXPECT_EQ(got->reassembly_bytes, Example().reassembly_bytes);
  EXPECT_EQ(got->open_messages, 7u);
  ASSERT_EQ(got->nics.size(), 2u);
  EXPECT_EQ(got->nics[1].window, Example().nics[1].window);
  EXPECT_EQ(got->nics[1].packet_bytes, 2048u);
}

TEST(EndpointAddress, WhatIsNoAddressIsRefused) {
  std::vector<uint8_t> bytes = Example().Encode();
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_FALSE(EndpointAddress::Decode(std::span(bytes).first(i)));
  bytes.push_back(0);
  EXPECT_FALSE(EndpointAddress::Decode(bytes));
  bytes.pop_back();
  bytes[4] = EndpointAddress::kVersion + 1;
  EXPECT_FALSE(EndpointAddress::Decode(bytes));
  EndpointAddress address = Example();
  address.incarnation = 0;
  EXPECT_FALSE(EndpointAddress::Decode(address.Encode()));
  address = Example();
  address.nics[0].packet_bytes = 0;
  EXPECT_FALSE(EndpointAddress::Decode(address.Encode()));
  address = Example();
  address.nics.resize(kMaxNics + 1, address.nics[0]);
  EXPECT_FALSE(EndpointAddress::Decode(address.Encode()));
}

}  // namespace
}  // namespace urnic::rud::upper
