#include "transport/iwarp/rdmap/image.h"

#include "transport/base/check.h"
#include "transport/iwarp/rdmap/image_fields.h"

namespace urnic::rdmap {

namespace {

using Fields = FieldsOf<Qp>;

void Read(ImageReader& reader, Qp& qp) {
  ImageShape wanted = Fields::ShapeOf(qp);
  wanted.service = QpService::kIwarp;
  ReadShape(reader, wanted);
  reader.Element("", qp);
  reader.Finish();
  if (!reader.ok()) return;
  reader.Require(qp.state() != QpState::kRts, "state",
                 static_cast<uint64_t>(qp.state()), "needs a connection");
  Fields::Check(reader, qp);
}

}  // namespace

size_t ExtractImage(const Qp& qp, Time now, std::span<uint8_t> out) {
  URNIC_CHECK(qp.state() != QpState::kRts);
  ImageWriter writer(ImageKind::kIwarpQp, now, out);
  const ImageShape shape = Fields::ShapeOf(qp);
  writer.Element("shape", shape);
  writer.Element("", qp);
  return writer.Finish();
}

ImageRefusal ReadImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  ImageReader reader(image, now);
  Read(reader, qp);
  return reader.refusal();
}

ImageRefusal InsertImage(std::span<const uint8_t> image, Time now, Qp& qp) {
  ImageReader reader(image, now);
  Read(reader, qp);
  if (reader.ok()) Fields::Attach(reader, qp);
  return reader.refusal();
}

void ShowState(const Qp& qp, Time now, std::string& out) {
  ImagePrinter(now, out).Element("qp", qp);
}

}  // namespace urnic::rdmap
