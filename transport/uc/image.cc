#include "transport/uc/image.h"

#include "transport/base/mutation.h"
#include "transport/cc/image_fields.h"
#include "transport/work/unreliable_image.h"

namespace urnic {

template <>
struct FieldsOf<uc::Qp::Incoming> {
  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    URNIC_MEMBERS(f, s, expected, established, message, offset, write_address,
                  write_length, write_key, notifier, refused, writes_refused,
                  refused_untold);
    f("expected", expected);
    f("established", established);
    static constexpr const char* kMessages[] = {"none", "send", "write"};
    MUTATION(images_forget_a_message,
             f("message", message, uc::Qp::Message::kWrite, kMessages),
             f.Elsewhere(message));
    f("offset", offset);
    f.Hex("write_address", write_address);
    f("write_length", write_length);
    f("write_key", write_key);
    f.Group("notifier", notifier);
    f.Elsewhere(refused, writes_refused, refused_untold);  // for people
    f.Require(offset <= URNIC_MAX_MESSAGE_BYTES, "offset", offset,
              "is more than a message can have");
  }
};

template <>
struct FieldsOf<uc::Qp> {
  // Fails if there is another member, which would be missing here.
  static_assert(sizeof(uc::Qp) ==
                sizeof(UnreliableQp) + sizeof(uc::Qp::Incoming));

  template <typename F, typename S>
  static void Visit(F& f, S& s) {
    f.Element("", AsUnreliable(s));
    f.Element("receive", s.in_);
  }
};

namespace uc {

size_t ExtractImage(const Qp& qp, Time now, std::span<uint8_t> out) {
  return ExtractUnreliable(qp, QpService::kUc, now, out);
}

ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  return InsertUnreliable(image, now, QpService::kUc, qp);
}

ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  return ReadUnreliable(image, now, QpService::kUc, qp);
}

void ShowState(const Qp& qp, Time now, std::string& out) {
  ImagePrinter(now, out).Element("qp", qp);
}

}  // namespace uc
}  // namespace urnic
