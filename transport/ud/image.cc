#include "transport/ud/image.h"

#include "transport/work/unreliable_image.h"

namespace urnic {

// ud::Qp has no members of its own. If it had one, this would not compile.
template <>
struct FieldsOf<ud::Qp> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, limits, config, sender, rq, mrs, counters, state,
                  recv_status, event);
    f.Elsewhere(limits, config, sender, rq, mrs, counters, state, recv_status,
                event);
    f.Element("", AsUnreliable(s));
  }
};

namespace ud {

size_t ExtractImage(const Qp& qp, Time now, std::span<uint8_t> out) {
  return ExtractUnreliable(qp, QpService::kUd, now, out);
}

ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  return InsertUnreliable(image, now, QpService::kUd, qp);
}

ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  return ReadUnreliable(image, now, QpService::kUd, qp);
}

void ShowState(const Qp& qp, Time now, std::string& out) {
  ImagePrinter(now, out).Element("qp", qp);
}

}  // namespace ud
}  // namespace urnic
