#include "verbs/cli/ctf.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace urnic {
namespace {

// CTF 1.8.3, 5.1
constexpr uint32_t kMagic = 0xc1fc1fc1;

template <typename T>
void AppendNumber(std::string& out, T number) {
  for (size_t i = 0; i != sizeof(T); ++i)
    out += static_cast<char>(number >> (8 * i));
}

uint64_t NumberOf(const std::string& text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Those that are not said by the event's name and time.
bool IsField(const Fact& fact) {
  constexpr std::string_view kSaid[] = {"at", "at-ns", "component", "point"};
  return std::ranges::find(kSaid, fact.name) == std::end(kSaid);
}

// The underscore keeps names apart from keywords; readers take it away.
std::string FieldName(std::string name) {
  std::ranges::replace(name, '-', '_');
  return absl::StrCat("_", name);
}

constexpr char kHead[] =
    R"(/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace {
  major = 1;
  minor = 8;
  byte_order = le;
  packet.header := struct { uint32_t magic; uint32_t stream_id; };
};
env { domain = "ust"; tracer_name = "urnic"; };
clock { name = wall; freq = 1000000000; offset = 0; absolute = true; };
typealias integer {
  size = 64; align = 8; signed = false; map = clock.wall.value;
} := time_t;
stream {
  id = 0;
  event.header := struct { uint32_t id; time_t timestamp; };
};
)";

}  // namespace

uint32_t CtfTrace::ClassOf(const Facts& event) {
  std::string description =
      absl::StrCat("  name = \"", *event.Find("component"), ":",
                   *event.Find("point"), "\";\n  fields := struct {\n");
  for (const Fact& fact : event.facts) {
    if (!IsField(fact)) continue;
    absl::StrAppend(&description, "    ",
                    fact.is_number ? "uint64_t " : "string ",
                    FieldName(fact.name), ";\n");
  }
  description += "  };\n";
  const auto next = static_cast<uint32_t>(classes_.size());
  return classes_.try_emplace(description, next).first->second;
}

void CtfTrace::Add(const Facts& event) {
  for (const char* needed : {"at-ns", "component", "point", "pid"}) {
    if (event.Find(needed) == nullptr) return;
  }
  std::string& stream = streams_[*event.Find("pid")];
  if (stream.empty()) {
    AppendNumber(stream, kMagic);
    AppendNumber(stream, uint32_t{0});  // stream_id
  }
  AppendNumber(stream, ClassOf(event));
  AppendNumber(stream, NumberOf(*event.Find("at-ns")));
  for (const Fact& fact : event.facts) {
    if (!IsField(fact)) continue;
    if (fact.is_number) {
      AppendNumber(stream, NumberOf(fact.value));
    } else {
      stream += fact.value;
      stream += '\0';
    }
  }
}

std::string CtfTrace::Metadata() const {
  std::string text = kHead;
  for (const auto& [description, id] : classes_) {
    absl::StrAppend(&text, "event {\n  id = ", id, ";\n  stream_id = 0;\n",
                    description, "};\n");
  }
  return text;
}

}  // namespace urnic
