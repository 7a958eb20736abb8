#include "transport/cm/half_open.h"

namespace urnic::cm {

HalfOpen::HalfOpen(const Config& config, uint64_t salt)
    : per_source_(config.max_half_open_per_source),
      per_listener_(config.max_half_open_per_listener),
      salt_(salt),
      by_gid_(config.max_connections) {
  URNIC_CHECK(per_source_ >= 1 && per_listener_ >= 1);
}

void HalfOpen::Grow(uint32_t places) {
  by_gid_.Grow(places);
  for (AgeLists* links :
       {&links_of_all_, &links_of_source_, &links_of_listener_}) {
    links->Grow(places);
  }
  of_listener_.resize(places);
  listener_of_.resize(places, uint32_t{kNone});
  while (sources_.size() < places) {
    sources_.emplace_back().next_free = first_free_;
    first_free_ = static_cast<uint32_t>(sources_.size() - 1);
  }
}

uint32_t HalfOpen::Find(const wire::Gid& gid) const {
  return by_gid_.Find(HashOf(gid),
                      [&](uint32_t i) { return sources_[i].gid == gid; });
}

void HalfOpen::Attach(Place& c) {
  URNIC_CHECK(c.source == kNone);
  const wire::Gid& gid = c.mad_path.remote;
  c.source = Find(gid);
  if (c.source == kNone) {
    c.source = first_free_;
    URNIC_CHECK(c.source != kNone);
    Source& source = sources_[c.source];
    first_free_ = source.next_free;
    source = Source();
    source.gid = gid;
    by_gid_.Insert(HashOf(gid), c.source);
  }
  ++sources_[c.source].connections;
}

void HalfOpen::Detach(Place& c) {
  if (c.source == kNone) return;
  Source& source = sources_[c.source];
  if (--source.connections == 0) {
    URNIC_CHECK(source.half_open.count == 0);
    by_gid_.Remove(HashOf(source.gid), c.source);
    source.next_free = first_free_;
    first_free_ = c.source;
  }
  c.source = kNone;
}

bool HalfOpen::HasAnswered(const Place& c) const {
  return c.source != kNone && sources_[c.source].answered;
}

void HalfOpen::SetAnswered(const Place& c) {
  sources_[c.source].answered = true;
}

void HalfOpen::Add(Place& c, uint32_t listener) {
  URNIC_CHECK(!c.half_open && c.source != kNone);
  c.half_open = true;
  links_of_all_.Append(all_, c.slot);
  links_of_source_.Append(sources_[c.source].half_open, c.slot);
  if (listener == kNone) return;
  links_of_listener_.Append(of_listener_[listener], c.slot);
  listener_of_[c.slot] = listener;
}

void HalfOpen::Remove(Place& c) {
  URNIC_CHECK(c.half_open);
  c.half_open = false;
  links_of_all_.Remove(all_, c.slot);
  links_of_source_.Remove(sources_[c.source].half_open, c.slot);
  const uint32_t listener = listener_of_[c.slot];
  if (listener == kNone) return;
  links_of_listener_.Remove(of_listener_[listener], c.slot);
  listener_of_[c.slot] = kNone;
}

void HalfOpen::ForgetListener(uint32_t listener) {
  AgeList& list = of_listener_[listener];
  while (list.oldest != kNone) {
    listener_of_[list.oldest] = kNone;
    links_of_listener_.Remove(list, list.oldest);
  }
}

uint32_t HalfOpen::InTheWayOf(const wire::Gid& gid, uint32_t listener) const {
  if (const uint32_t source = Find(gid); source != kNone) {
    const AgeList& same = sources_[source].half_open;
    if (same.count >= per_source_) return same.oldest;
  }
  const AgeList& list = of_listener_[listener];
  return list.count >= per_listener_ ? list.oldest : kNone;
}

}  // namespace urnic::cm
