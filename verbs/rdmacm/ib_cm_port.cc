#include "verbs/rdmacm/ib_cm_port.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "transport/base/check.h"
#include "transport/cm/image.h"
#include "transport/wire/be.h"

namespace urnic::rdmacm {

namespace {

cm::Config MakeConfig(const RnicInfo& info, const NumberKey& key,
                      Lessor* lessor) {
  wire::Be<uint64_t> guid;
  std::memcpy(&guid, info.node_guid.data(), sizeof(guid));
  cm::Config config;
  config.ca_guid = guid.value();
  config.ack_delay_code = info.ack_delay_code;
  config.first_communication_id = static_cast<uint32_t>(SipHash(key, 0));
  config.transaction_prefix = static_cast<uint32_t>(SipHash(key, 1));
  config.number_key = key.For(2);
  config.lessor = lessor;
  return config;
}

}  // namespace

IbCmPort::IbCmPort(Rnic& rnic, CmEvents& events, const NumberKey& key,
                   Lessor* lessor)
    : CmPort(rnic, events), config_(MakeConfig(rnic.info(), key, lessor)) {}

void IbCmPort::Attach() {
  cm_.emplace(config_);
  rnic().ServeMads(*this);
}

int IbCmPort::AddListener(const Listening& place) {
  const uint64_t service_id = ServiceId(place.space, place.address.port());
  for (Listener& listener : listeners_) {
    if (listener.service_id != service_id) continue;
    ++listener.uses;
    return 0;
  }
  cm::Handle handle;
  if (const int error = cm_->Listen(service_id, 0, 0, handle)) return error;
  listeners_.push_back({service_id, handle, 1});
  return 0;
}

void IbCmPort::RemoveListener(const Listening& place) {
  const uint64_t service_id = ServiceId(place.space, place.address.port());
  const auto it = std::find_if(
      listeners_.begin(), listeners_.end(),
      [&](const Listener& l) { return l.service_id == service_id; });
  URNIC_CHECK(it != listeners_.end());
  if (--it->uses > 0) return;
  URNIC_CHECK(cm_->Unlisten(it->handle) == 0);
  listeners_.erase(it);
}

uint32_t IbCmPort::connections() const {
  return cm_->in_use() - static_cast<uint32_t>(listeners_.size());
}

void IbCmPort::HurryFarewells(Duration interval, uint8_t repeats) {
  cm_->HurryDisconnects(interval, repeats, now(), *this);
}

uint32_t IbCmPort::unanswered_farewells() const {
  return cm_->unanswered_dreqs();
}

bool IbCmPort::SendImages(const std::function<bool(std::string_view)>& reply) {
  constexpr size_t kBatchBytes = 16 * 1024;
  std::vector<uint32_t> ids;
  Call([&] {
    ids = cm_->CommIds();
    return 0;
  });
  std::vector<uint8_t> images;
  for (size_t next = 0; next < ids.size();) {
    images.clear();
    Call([&] {
      for (; next < ids.size() && images.size() < kBatchBytes; ++next) {
        const size_t at = images.size();
        // 0 bytes if the connection has ended in the meantime.
        images.resize(at + cm::ExtractImage(*cm_, ids[next], now(), {}));
        (void)cm::ExtractImage(*cm_, ids[next], now(),
                               std::span(images).subspan(at));
      }
      return 0;
    });
    const auto* bytes = reinterpret_cast<const char*>(images.data());
    if (!reply(std::string_view(bytes, images.size()))) return false;
  }
  return true;
}

RxVerdict IbCmPort::OnMad(std::span<const uint8_t> mad,
                          const net::PathQuery& from, Time now) {
  const RxVerdict verdict = cm_->OnMad(mad, from, now, *this);
  DoLater(now);
  return verdict;
}

void IbCmPort::OnTimer(Time now) {
  cm_->OnTimer(now, *this);
  DoLater(now);
}

Time IbCmPort::NextDeadline() const { return cm_->NextDeadline(); }

void IbCmPort::SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
                       const net::PathQuery& to) {
  rnic().SendMad(mad, to);
}

}  // namespace urnic::rdmacm
