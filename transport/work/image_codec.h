#pragma once

// Converts lists of members to images, and back.
//
// A state that belongs to an image has a list, FieldsOf<State>::Visit(f, s),
// which names each member once, in the image's order. The same list writes,
// reads and shows:
//
//   URNIC_MEMBERS(f, s, head, mrs, due);  // all, as they are declared
//   f("head", head);
//   f.Deadline("due", due);
//   f.Elsewhere(mrs);
//
// URNIC_MEMBERS does not compile when the state has more or fewer members than
// it names. A visit of a list that omits one of those members aborts.

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>

#include "transport/base/check.h"
#include "transport/base/fields.h"
#include "transport/base/frame_keeper.h"
#include "transport/base/ids.h"
#include "transport/base/mutation.h"
#include "transport/base/psn.h"
#include "transport/base/seq_num.h"
#include "transport/base/time.h"
#include "transport/work/image.h"

namespace urnic {

// Binds all members of `object` to names, in the order of their declaration.
#define URNIC_MEMBERS(visitor, object, ...) \
  auto& [__VA_ARGS__] = object;             \
  visitor.CountMembers(std::tuple_size_v<decltype(std::tie(__VA_ARGS__))>)

// The names of an enumeration's values, in order; null: there is no such value.
using ValueNames = std::span<const char* const>;

// How a value is stored, which values are valid, and how it is shown.
struct FieldType {
  // kWire: eight bytes as they are on the wire. kNothing: the value has no
  // meaning now. kSilent: bytes of a frame or message, which are not shown.
  enum class Show : uint8_t {
    kNumber,
    kBoolean,
    kHex,
    kDuration,
    kWire,
    kName,
    kNothing,
    kSilent
  };
  uint8_t bytes;
  uint64_t max;
  Show show = Show::kNumber;
  uint8_t digits = 0;     // kHex
  ValueNames names = {};  // kName
};

// The longest time that an image may hold, 36 years: sums of a few such times
// do not overflow.
inline constexpr uint64_t kImageDurationMax = uint64_t{1} << 60;
inline constexpr uint64_t kImageNever = UINT64_MAX;

// The part that the three visitors share. `Sub` has
//   static constexpr bool kReads
//   uint64_t Scalar(const char* name, FieldType type, uint64_t value)
// which returns the new value of the member.
template <typename Sub>
class FieldVisitor {
 public:
  void CountMembers(size_t members) { members_ = members; }

  // A member that is a number, a boolean, a PSN, a sequence number of TCP, a
  // QPN, a key or a duration.
  template <typename T>
  void operator()(const char* name, T& value) {
    ++listed_;
    Value(name, value);
  }
  // The same for a value that is not a member.
  template <typename T>
  void Extra(const char* name, T& value) {
    Value(name, value);
  }
  // A member that is an enumeration with the values 0 to `last`.
  template <typename T>
  void operator()(const char* name, T& value, std::remove_const_t<T> last,
                  ValueNames names) {
    ++listed_;
    const FieldType type = {.bytes = 1,
                            .max = static_cast<uint64_t>(last),
                            .show = Show::kName,
                            .names = names};
    const uint64_t got = sub().Scalar(name, type, static_cast<uint64_t>(value));
    if constexpr (Sub::kReads) value = static_cast<T>(got);
  }
  // A number that is usually written in hexadecimal: a QPN, a key, flags.
  template <typename T>
  void Hex(const char* name, T& value, uint8_t digits = 2 * sizeof(T)) {
    using Type = std::remove_const_t<T>;
    static_assert(std::unsigned_integral<Type>);
    ++listed_;
    const uint64_t got = sub().Scalar(
        name, {sizeof(Type), static_cast<Type>(-1), Show::kHex, digits}, value);
    if constexpr (Sub::kReads) value = static_cast<Type>(got);
  }
  // A member in wire format; its size is a multiple of eight bytes.
  template <typename T, size_t kBytes>
  void Bytes(const char* name, std::span<T, kBytes> bytes) {
    static_assert(sizeof(T) == 1 && kBytes % 8 == 0);
    static_assert(std::endian::native == std::endian::little);
    ++listed_;
    for (size_t at = 0; at < kBytes; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, &bytes[at], 8);
      word = sub().Scalar(name, {8, UINT64_MAX, Show::kWire}, word);
      if constexpr (Sub::kReads) std::memcpy(&bytes[at], &word, 8);
    }
  }
  // A member that has a list of its own.
  template <typename T>
  void Group(const char* name, T& object) {
    ++listed_;
    Element(name, object);
  }
  // A time in the future, or never. A time in the past becomes now.
  template <typename T>
  void Deadline(const char* name, T& time) {
    ++listed_;
    const uint64_t left =
        time.IsInfinite() ? kImageNever
        : time > now_
            ? static_cast<uint64_t>(
                  MUTATION(images_carry_a_clock, (time - now_).ns(), time.ns()))
            : 0;
    const uint64_t got =
        sub().Scalar(name, {8, kImageNever, FieldType::Show::kDuration}, left);
    Require(got == kImageNever || got <= kImageDurationMax, name, got,
            "is too far ahead");
    if constexpr (Sub::kReads) {
      if (!sub().ok()) return;
      time = got == kImageNever ? Time::Infinite() : now_ + FromBits(got);
    }
  }
  // A time in the past. If `counts` is false, it has not been set, or is set
  // again before it is read.
  template <typename T>
  void Since(const char* name, T& time, bool counts) {
    ++listed_;
    const uint64_t age =
        time < now_ ? static_cast<uint64_t>((now_ - time).ns()) : 0;
    const Show show = counts ? Show::kDuration : Show::kNothing;
    const uint64_t got = sub().Scalar(name, {8, kImageDurationMax, show}, age);
    if constexpr (Sub::kReads) time = now_ + FromBits(got) * -1;
  }
  // Members that are not part of the state: addresses, values that can be read
  // or counted again, and values that an image carries elsewhere.
  template <typename... T>
  void Elsewhere(const T&...) {
    listed_ += sizeof...(T);
  }

  // Bytes that are not a member by themselves; the image has their number
  // before them.
  template <typename T>
  void Octets(const char* name, std::span<T> bytes) {
    static_assert(sizeof(T) == 1);
    static_assert(std::endian::native == std::endian::little);
    for (size_t at = 0; at < bytes.size(); at += 8) {
      const size_t count = std::min<size_t>(8, bytes.size() - at);
      const FieldType type = {static_cast<uint8_t>(count), UINT64_MAX,
                              Show::kSilent};
      uint64_t word = 0;
      std::memcpy(&word, &bytes[at], count);
      word = sub().Scalar(name, type, word);
      if constexpr (Sub::kReads) std::memcpy(&bytes[at], &word, count);
    }
  }
  // The same for bytes that are stored elsewhere, at `data`. Reading returns
  // their place in the image.
  std::span<const uint8_t> Payload(const char* name, const uint8_t* data,
                                   size_t bytes) {
    if constexpr (Sub::kReads) {
      return sub().Part(name, bytes);
    } else {
      const std::span<const uint8_t> payload(data, bytes);
      Octets(name, payload);
      return payload;
    }
  }

  // A part that is not a member, for example one of many objects that a member
  // points to.
  template <typename T>
  void Element(const char* name, T& object) {
    const auto saved = std::tuple(group_, members_, listed_);
    if (*name != 0) group_ = name;
    members_ = listed_ = 0;
    FieldsOf<std::remove_const_t<T>>::Visit(sub(), object);
    URNIC_CHECK(members_ == listed_ || !ok());
    std::tie(group_, members_, listed_) = saved;
  }

  // Refuses an image in which `condition` does not hold.
  bool Require(bool condition, const char* field, uint64_t value,
               const char* rule) {
    if (Sub::kReads && !condition && refusal_.ok()) {
      refusal_ = {group_, field, value, rule};
    }
    return condition;
  }
  bool ok() const { return refusal_.ok(); }
  const ImageRefusal& refusal() const { return refusal_; }
  Time now() const { return now_; }

 protected:
  explicit FieldVisitor(Time now) : now_(now) {}
  const char* group() const { return group_; }

 private:
  using Show = FieldType::Show;
  Sub& sub() { return static_cast<Sub&>(*this); }
  static Duration FromBits(uint64_t ns) {
    return Duration::Nanoseconds(static_cast<int64_t>(ns));
  }

  template <typename T>
  void Value(const char* name, T& value) {
    using Type = std::remove_const_t<T>;
    const auto pass = [&](FieldType type, uint64_t bits) {
      return sub().Scalar(name, type, bits);
    };
    if constexpr (std::is_same_v<Type, Psn>) {
      const uint64_t got = pass({4, 0xffffff, Show::kHex, 6}, value.value());
      if constexpr (Sub::kReads) value = Psn(static_cast<uint32_t>(got));
    } else if constexpr (std::is_same_v<Type, SeqNum>) {
      const uint64_t got = pass({4, UINT32_MAX, Show::kNumber}, value.value());
      if constexpr (Sub::kReads) value = SeqNum(static_cast<uint32_t>(got));
    } else if constexpr (std::is_same_v<Type, MrKey>) {
      const uint64_t got = pass({4, UINT32_MAX, Show::kHex, 8}, value.value);
      if constexpr (Sub::kReads) value.value = static_cast<uint32_t>(got);
    } else if constexpr (std::is_same_v<Type, Qpn>) {
      const uint64_t got = pass({4, 0xffffff, Show::kHex, 6}, value.value);
      if constexpr (Sub::kReads) value.value = static_cast<uint32_t>(got);
    } else if constexpr (std::is_same_v<Type, Duration>) {
      const uint64_t got = pass({8, kImageDurationMax, Show::kDuration},
                                static_cast<uint64_t>(value.ns()));
      if constexpr (Sub::kReads) value = FromBits(got);
    } else if constexpr (std::is_same_v<Type, bool>) {
      const uint64_t got = pass({1, 1, Show::kBoolean}, value);
      if constexpr (Sub::kReads) value = got != 0;
    } else {
      static_assert(std::unsigned_integral<Type>);
      const uint64_t got =
          pass({sizeof(Type), static_cast<Type>(-1), Show::kNumber}, value);
      if constexpr (Sub::kReads) value = static_cast<Type>(got);
    }
  }

  const Time now_;
  ImageRefusal refusal_;
  const char* group_ = "";
  size_t members_ = 0;
  size_t listed_ = 0;
};

// Writes while there is room, and always counts the bytes.
class ImageWriter : public FieldVisitor<ImageWriter> {
 public:
  static constexpr bool kReads = false;
  // Begins with the header of an image of `kind`.
  ImageWriter(ImageKind kind, Time now, std::span<uint8_t> out);

  uint64_t Scalar(const char*, FieldType type, uint64_t value) {
    Put(value, type.bytes);
    return value;
  }
  // Adds padding, length and CRC. Returns the bytes that the image has or
  // needs.
  size_t Finish();

 private:
  // Writes eight bytes, of which the first `bytes` count; the next value
  // overwrites the rest.
  void Put(uint64_t value, unsigned bytes) {
    if (at_ + sizeof(value) > out_.size()) return PutBytes(value, bytes);
    std::memcpy(&out_[at_], &value, sizeof(value));
    at_ += bytes;
  }
  void PutBytes(uint64_t value, unsigned bytes);

  std::span<uint8_t> out_;
  size_t at_ = 0;
};

// Reads an image whose header has been checked. After the first refusal it
// changes nothing.
class ImageReader : public FieldVisitor<ImageReader> {
 public:
  static constexpr bool kReads = true;
  // Refuses bytes that are not an image of this version. `frames`: null, if
  // images of this kind have no frames.
  ImageReader(std::span<const uint8_t> image, Time now,
              FrameMaker* frames = nullptr);

  ImageKind kind() const;
  // The service of a queue pair's image; refuses any other image.
  QpService service();
  uint64_t Scalar(const char* name, FieldType type, uint64_t value);
  // The next bytes of the image.
  std::span<const uint8_t> Part(const char* name, size_t bytes);
  // A frame with these bytes; buffer null: there is none.
  ReceivedFrame MakeFrame(std::span<const uint8_t> bytes) {
    return frames_ == nullptr ? ReceivedFrame() : frames_->Make(bytes);
  }
  // Called when everything has been read: only padding may be left.
  void Finish();

 private:
  ImageRefusal CheckEnvelope() const;

  std::span<const uint8_t> image_;
  FrameMaker* frames_;
  size_t at_ = kImageHeaderBytes;
};

// One line for each member: "group.name value".
class ImagePrinter : public FieldVisitor<ImagePrinter> {
 public:
  static constexpr bool kReads = false;
  ImagePrinter(Time now, std::string& out) : FieldVisitor(now), out_(out) {}

  uint64_t Scalar(const char* name, FieldType type, uint64_t value);

 private:
  std::string& out_;
};

}  // namespace urnic
