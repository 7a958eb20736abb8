#pragma once

#include <cstddef>
#include <cstdint>

namespace urnic {

// The fate of a received packet. Every path that drops one names its verdict
// here, and every verdict is counted: no packet is lost silently.
enum class [[nodiscard]] RxVerdict : uint8_t{
#define URNIC_RX_VERDICT(name, text) k##name,
#include "ras/metrics/rx_verdicts.def"
#undef URNIC_RX_VERDICT
};

inline constexpr const char* kRxVerdictNames[] = {
#define URNIC_RX_VERDICT(name, text) #name,
#include "ras/metrics/rx_verdicts.def"
#undef URNIC_RX_VERDICT
};
inline constexpr const char* kRxVerdictTexts[] = {
#define URNIC_RX_VERDICT(name, text) text,
#include "ras/metrics/rx_verdicts.def"
#undef URNIC_RX_VERDICT
};
inline constexpr size_t kRxVerdictCount =
    sizeof(kRxVerdictNames) / sizeof(char*);

}  // namespace urnic
