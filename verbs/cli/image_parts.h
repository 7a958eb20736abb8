#pragma once

// What the views of all images share: the objects that a queue pair refers to,
// without a program, and pieces of text.

#include <cstdint>
#include <string>
#include <vector>

#include "ras/metrics/counters.h"
#include "transport/base/lessor.h"
#include "transport/mem/mr_table.h"
#include "transport/work/image.h"
#include "transport/work/image_fields.h"
#include "verbs/cli/format_text.h"

namespace urnic {

// The surroundings of a queue pair of this shape. Its rings have no memory.
struct ImageGround {
  explicit ImageGround(const ImageShape& shape)
      : lessor(LessorOfKeys()),
        sges(URNIC_MAX_SGE),
        regions(2),
        mrs(regions, &lessor, {}),
        ring(WorkQueueView(), URNIC_MAX_SGE, shape.limits.pd),
        queue(&ring, sges.data(), shape.shared_receives),
        sends(nullptr, nullptr, shape.sq_entries, sizeof(urnic_sq_wqe)) {}

  // No key is ever leased, but a table requires a lessor.
  static LocalLessor LessorOfKeys() {
    LocalLessor lessor;
    lessor.Offer(NumberSpace::kKey, {0, 4});
    return lessor;
  }

  LocalLessor lessor;
  std::vector<urnic_sge> sges;
  std::vector<mem::MemoryRegion> regions;
  mem::MrTable mrs;
  RecvRing ring;
  RecvQueue queue;
  WorkQueueView sends;
  RoceCounters counters;
};

// "QP 0x000011 RC  RTS  ", the beginning of each queue pair's line.
template <typename Qp>
std::string QpText(const Qp& qp, const char* service) {
  return FormatText("QP 0x%06x %-3s %-5s", qp.limits().qpn, service,
                    kQpStateNames[static_cast<size_t>(qp.state())]);
}

// "  timer in 12.345 ms"; none: the timer is not running. The clock of a
// restored image shows 0.
std::string TimerText(Time due);

}  // namespace urnic
