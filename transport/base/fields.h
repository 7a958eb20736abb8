#pragma once

namespace urnic {

// The list of T's members, for the code that writes and reads images
// (transport/work/image_codec.h). States with private members befriend it, so
// that lists and their code stay out of the headers of the packet path.
template <typename T>
struct FieldsOf;

}  // namespace urnic
