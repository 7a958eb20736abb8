#pragma once

// Where each member lies in an image, for tests that change one.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "transport/base/check.h"
#include "transport/work/image_codec.h"

namespace urnic::testing {

class ImageMap : public FieldVisitor<ImageMap> {
 public:
  static constexpr bool kReads = false;
  // The map of the image that would be made of `qp` now, or of `state`. The
  // shape's members of a queue pair come first.
  template <typename Qp>
  ImageMap(const Qp& qp, QpService service) : FieldVisitor(Time()) {
    ImageShape shape{.service = service, .limits = qp.limits()};
    this->Element("shape", shape);
    this->Element("", qp);
  }
  template <typename State>
  explicit ImageMap(const State& state) : FieldVisitor(Time()) {
    this->Element("", state);
  }

  uint64_t Scalar(const char* name, FieldType type, uint64_t value) {
    const std::string group = this->group();
    fields_.push_back(
        {group.empty() ? name : group + "." + name, at_, type.bytes});
    at_ += type.bytes;
    return value;
  }

  // One line for each member: offset, width, name.
  std::string Layout() const {
    std::string text;
    for (const Field& field : fields_) {
      text += std::to_string(field.at) + " " + std::to_string(field.bytes) +
              " " + field.name + "\n";
    }
    return text;
  }
  const auto& fields() const { return fields_; }

  // Gives the first member of that name another value, and corrects the CRC.
  void Set(std::vector<uint8_t>& image, const std::string& name,
           uint64_t value) const {
    const auto field = std::ranges::find(fields_, name, &Field::name);
    URNIC_CHECK(field != fields_.end());
    Set(image, *field, value);
  }

  struct Field {
    std::string name;
    size_t at;
    unsigned bytes;
  };
  static void Set(std::vector<uint8_t>& image, const Field& field,
                  uint64_t value) {
    std::memcpy(image.data() + field.at, &value, field.bytes);
    Seal(image);
  }
  // REQUIRES: a length that is a multiple of four.
  static void Seal(std::vector<uint8_t>& image) {
    const size_t body = image.size() - kImageTrailerBytes;
    const uint32_t crc = ImageCrc(std::span(image).first(body));
    std::memcpy(image.data() + body, &crc, sizeof(crc));
  }

 private:
  std::vector<Field> fields_;
  size_t at_ = kImageHeaderBytes;
};

}  // namespace urnic::testing
