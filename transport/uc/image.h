#pragma once

// Images of UC queue pairs. The functions are described in rc/image.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "transport/uc/qp.h"
#include "transport/work/image.h"

namespace urnic::uc {

size_t ExtractImage(const Qp& qp, Time now, std::span<uint8_t> out);
ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp);
ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp);
void ShowState(const Qp& qp, Time now, std::string& out);

}  // namespace urnic::uc
