#include "verbs/regcache/index.h"

namespace urnic::regcache {

Index::Fragment* Index::FragmentOf(uint64_t fragment) const {
  const Segment* segment = SegmentOf(SegmentNumber(fragment));
  return segment == nullptr ? nullptr
                            : segment->fragments[fragment % 256].load();
}

Index::Fragment* Index::MakeFragment(uint64_t fragment) {
  const uint64_t number = SegmentNumber(fragment);
  Segment* segment = SegmentOf(number);
  if (segment == nullptr) {
    segment = arena_.New<Segment>();
    if (segment == nullptr) return nullptr;
    segment->number = number;
    auto& bucket = buckets_[BucketOf(number)];
    segment->in_bucket = bucket.load();
    segment->in_all = all_;
    all_ = segment;
    ++segments_;
    bucket.store(segment, std::memory_order_release);
  }
  auto& place = segment->fragments[fragment % 256];
  if (place.load() == nullptr) {
    place.store(arena_.New<Fragment>(), std::memory_order_release);
  }
  return place.load();
}

bool Index::InsertAt(uint64_t number, Entry* entry) {
  Fragment* fragment = MakeFragment(number);
  if (fragment == nullptr) return false;
  Slots* slots = &fragment->slots;
  for (;;) {
    for (auto& slot : slots->entries) {
      if (slot.load() != nullptr) continue;
      slot.store(entry, std::memory_order_release);
      ++fragment->count;
      const uint32_t i = number % 256;
      SegmentOf(SegmentNumber(number))
          ->mapped[i / 64]
          .fetch_or(uint64_t{1} << (i % 64), std::memory_order_release);
      return true;
    }
    if (slots->next.load() == nullptr) {
      Slots* more = arena_.New<Slots>();
      if (more == nullptr) return false;
      slots->next.store(more, std::memory_order_release);
    }
    slots = slots->next.load();
  }
}

void Index::RemoveAt(uint64_t number, Entry* entry) {
  Fragment* fragment = FragmentOf(number);
  for (Slots* slots = &fragment->slots; slots != nullptr;
       slots = slots->next.load()) {
    for (auto& slot : slots->entries) {
      if (slot.load() != entry) continue;
      slot.store(nullptr);
      if (--fragment->count != 0) return;
      const uint32_t i = number % 256;
      SegmentOf(SegmentNumber(number))
          ->mapped[i / 64]
          .fetch_and(~(uint64_t{1} << (i % 64)));
      return;
    }
  }
}

bool Index::Insert(Entry* entry) {
  const Range range = entry->range();
  const uint64_t first = range.begin >> kFragmentBits;
  const uint64_t last = (range.end - 1) >> kFragmentBits;
  for (uint64_t f = first; f <= last; ++f) {
    if (InsertAt(f, entry)) continue;
    while (f-- > first) RemoveAt(f, entry);
    return false;
  }
  return true;
}

void Index::Narrow(Entry* entry, Range range) {
  const Range old = entry->range();
  const Range keep = range.RoundedOut(kFragmentBytes);
  for (uint64_t f = old.begin >> kFragmentBits;
       f <= (old.end - 1) >> kFragmentBits; ++f) {
    if (!keep.Covers({f << kFragmentBits, (f + 1) << kFragmentBits})) {
      RemoveAt(f, entry);
    }
  }
  if (range.bytes() != 0) entry->set_range(range);
}

bool Index::IsEmpty(uint64_t number) const {
  const Fragment* fragment = FragmentOf(number);
  return fragment == nullptr || fragment->count == 0;
}

uint64_t Index::pages_until(uint64_t number) const {
  const Fragment* fragment = FragmentOf(number);
  return fragment == nullptr ? 0 : fragment->pages_until;
}

void Index::set_pages_until(uint64_t number, uint64_t tick) {
  if (Fragment* fragment = FragmentOf(number)) fragment->pages_until = tick;
}

}  // namespace urnic::regcache
