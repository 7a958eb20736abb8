#include "transport/work/image.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "transport/work/image_codec.h"
#include "transport/work/image_fields.h"

namespace urnic {

namespace {

constexpr size_t kVersionAt = 8;
constexpr size_t kKindAt = 10;
constexpr size_t kReservedAt = 11;
constexpr size_t kLengthAt = 12;

uint64_t Load(std::span<const uint8_t> bytes, size_t at, unsigned count) {
  uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) {
    value |= uint64_t{bytes[at + i]} << (8 * i);
  }
  return value;
}

std::string HexText(uint64_t value, int digits) {
  std::string text;
  for (int i = 0; i < digits || value != 0; ++i, value >>= 4) {
    text.insert(text.begin(), "0123456789abcdef"[value & 15]);
  }
  return "0x" + text;
}

}  // namespace

std::string ImageRefusal::Text() const {
  if (ok()) return "";
  std::string text = group;
  if (!text.empty()) text += '.';
  return text + field + " is " + std::to_string(value) + ": " + rule;
}

uint32_t ImageCrc(std::span<const uint8_t> bytes) {
  return crc32_gzip_refl(0, bytes.data(), bytes.size());
}

size_t ImageLength(std::span<const uint8_t> bytes) {
  if (bytes.size() < kImageHeaderBytes ||
      std::memcmp(bytes.data(), kImageMagic, 8) != 0) {
    return 0;
  }
  return Load(bytes, kLengthAt, 4);
}

ImageRefusal ReadImageKind(std::span<const uint8_t> image, ImageKind& out) {
  const ImageReader reader(image, Time());
  if (reader.ok()) out = reader.kind();
  return reader.refusal();
}

ImageRefusal ReadImageShape(std::span<const uint8_t> image, ImageShape& out) {
  ImageReader reader(image, Time());
  out.service = reader.service();
  reader.Element("shape", out);
  return reader.refusal();
}

ImageWriter::ImageWriter(ImageKind kind, Time now, std::span<uint8_t> out)
    : FieldVisitor(now), out_(out) {
  for (int i = 0; i < 8; ++i) Put(static_cast<uint8_t>(kImageMagic[i]), 1);
  Put(kImageVersion, 2);
  Put(static_cast<uint64_t>(kind), 1);
  Put(0, 1);
  Put(0, 4);  // the length: set by Finish()
}

void ImageWriter::PutBytes(uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i, ++at_) {
    if (at_ < out_.size()) out_[at_] = static_cast<uint8_t>(value >> (8 * i));
  }
}

size_t ImageWriter::Finish() {
  while (at_ % 4 != 0) Put(0, 1);
  const size_t length = at_ + kImageTrailerBytes;
  if (length > out_.size()) return length;
  at_ = kLengthAt;
  PutBytes(length, 4);
  at_ = length - kImageTrailerBytes;
  PutBytes(ImageCrc(out_.first(at_)), 4);
  return length;
}

ImageReader::ImageReader(std::span<const uint8_t> image, Time now,
                         FrameMaker* frames)
    : FieldVisitor(now), image_(image), frames_(frames) {
  const ImageRefusal refusal = CheckEnvelope();
  Require(refusal.ok(), refusal.field, refusal.value, refusal.rule);
}

ImageRefusal ImageReader::CheckEnvelope() const {
  const size_t size = image_.size();
  if (size < kImageHeaderBytes + kImageTrailerBytes || size % 4 != 0 ||
      Load(image_, kLengthAt, 4) != size) {
    return {"", "length", size, "differs from the header"};
  }
  if (std::memcmp(image_.data(), kImageMagic, 8) != 0) {
    return {"", "magic", Load(image_, 0, 8), "is not an image's"};
  }
  const uint64_t version = Load(image_, kVersionAt, 2);
  if (version != kImageVersion) {
    return {"", "version", version, "is not supported"};
  }
  if (image_[kKindAt] > static_cast<uint8_t>(ImageKind::kIwarpCounts)) {
    return {"", "kind", image_[kKindAt], "is unknown"};
  }
  if (image_[kReservedAt] != 0)
    return {"", "reserved", image_[kReservedAt], "is not 0"};
  const size_t body = size - kImageTrailerBytes;
  if (Load(image_, body, 4) != ImageCrc(image_.first(body))) {
    return {"", "crc", Load(image_, body, 4), "does not match the contents"};
  }
  return {};
}

ImageKind ImageReader::kind() const {
  return ok() ? static_cast<ImageKind>(image_[kKindAt]) : ImageKind::kRc;
}

QpService ImageReader::service() {
  const bool is_qp = kind() <= ImageKind::kUd || kind() == ImageKind::kIwarpQp;
  Require(is_qp, "kind", static_cast<uint64_t>(kind()),
          "is not a queue pair's");
  switch (kind()) {
    case ImageKind::kUc:
      return QpService::kUc;
    case ImageKind::kUd:
      return QpService::kUd;
    case ImageKind::kIwarpQp:
      return QpService::kIwarp;
    default:
      return QpService::kRc;
  }
}

uint64_t ImageReader::Scalar(const char* name, FieldType type, uint64_t value) {
  if (!ok()) return value;
  if (!Require(type.bytes <= image_.size() - kImageTrailerBytes - at_, name,
               image_.size(), "is beyond the end of the image")) {
    return value;
  }
  const uint64_t got = Load(image_, at_, type.bytes);
  if (!Require(got <= type.max, name, got, "is out of range")) {
    return value;
  }
  at_ += type.bytes;
  return got;
}

std::span<const uint8_t> ImageReader::Part(const char* name, size_t bytes) {
  if (!ok() || !Require(bytes <= image_.size() - kImageTrailerBytes - at_, name,
                        bytes, "is beyond the end of the image")) {
    return {};
  }
  at_ += bytes;
  return image_.subspan(at_ - bytes, bytes);
}

void ImageReader::Finish() {
  if (!ok()) return;
  const size_t left = image_.size() - kImageTrailerBytes - at_;
  const auto padding = image_.subspan(at_, left);
  Require(left < 4 &&
              std::ranges::all_of(padding, [](uint8_t b) { return b == 0; }),
          "length", image_.size(), "is more than the state needs");
}

uint64_t ImagePrinter::Scalar(const char* name, FieldType type,
                              uint64_t value) {
  if (type.show == FieldType::Show::kSilent) return value;
  std::string text = std::to_string(value);
  switch (type.show) {
    case FieldType::Show::kBoolean:
      text = value != 0 ? "yes" : "no";
      break;
    case FieldType::Show::kHex:
      text = HexText(value, type.digits);
      break;
    case FieldType::Show::kDuration:
      text = value == kImageNever ? "never" : text + " ns";
      break;
    case FieldType::Show::kWire:
      text = HexText(__builtin_bswap64(value), 16);
      break;
    case FieldType::Show::kName:
      if (value < type.names.size() && type.names[value] != nullptr) {
        text = type.names[value];
      }
      break;
    case FieldType::Show::kNothing:
      text = "none";
      break;
    case FieldType::Show::kNumber:
    case FieldType::Show::kSilent:
      break;
  }
  out_ += std::string(group()) + '.' + name + ' ' + text + '\n';
  return value;
}

}  // namespace urnic
