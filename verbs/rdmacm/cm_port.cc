#include "verbs/rdmacm/cm_port.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "transport/base/check.h"
#include "transport/cm/image.h"
#include "transport/wire/be.h"

namespace urnic::rdmacm {

namespace {

// As in Linux: a program may take 68 s to answer.
constexpr uint8_t kServiceTimeoutCode = 24;

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

CmPort::CmPort(Rnic& rnic, CmEvents& events, const NumberKey& key,
               Lessor* lessor)
    : rnic_(rnic),
      events_(events),
      config_(MakeConfig(rnic.info(), key, lessor)) {}

int CmPort::Open() {
  std::lock_guard lock(open_mutex_);
  if (open_.load()) return 0;
  if (!cm_.has_value()) cm_.emplace(config_);
  const int error = rnic_.Open(*this);
  if (error == 0) open_.store(true);
  return error;
}

int CmPort::AddListener(cm::ConnectionManager& cm, uint64_t service_id) {
  for (Listener& listener : listeners_) {
    if (listener.service_id != service_id) continue;
    ++listener.uses;
    return 0;
  }
  cm::Handle handle;
  if (const int error = cm.Listen(service_id, 0, 0, handle)) return error;
  listeners_.push_back({service_id, handle, 1});
  return 0;
}

void CmPort::RemoveListener(cm::ConnectionManager& cm, uint64_t service_id) {
  const auto it = std::find_if(
      listeners_.begin(), listeners_.end(),
      [&](const Listener& l) { return l.service_id == service_id; });
  URNIC_CHECK(it != listeners_.end());
  if (--it->uses > 0) return;
  URNIC_CHECK(cm.Unlisten(it->handle) == 0);
  listeners_.erase(it);
}

uint32_t CmPort::Connections() {
  uint32_t count = 0;
  Call([&](const cm::ConnectionManager& cm, Time, cm::Sink&) {
    count = cm.in_use() - static_cast<uint32_t>(listeners_.size());
    return 0;
  });
  return count;
}

bool CmPort::SendImages(const std::function<bool(std::string_view)>& reply) {
  constexpr size_t kBatchBytes = 16 * 1024;
  std::vector<uint32_t> ids;
  Call([&](const cm::ConnectionManager& cm, Time, cm::Sink&) {
    ids = cm.CommIds();
    return 0;
  });
  std::vector<uint8_t> images;
  for (size_t next = 0; next < ids.size();) {
    images.clear();
    Call([&](const cm::ConnectionManager& cm, Time now, cm::Sink&) {
      for (; next < ids.size() && images.size() < kBatchBytes; ++next) {
        const size_t at = images.size();
        // 0 bytes if the connection has ended in the meantime.
        images.resize(at + cm::ExtractImage(cm, ids[next], now, {}));
        (void)cm::ExtractImage(cm, ids[next], now,
                               std::span(images).subspan(at));
      }
      return 0;
    });
    const auto* bytes = reinterpret_cast<const char*>(images.data());
    if (!reply(std::string_view(bytes, images.size()))) return false;
  }
  return true;
}

RxVerdict CmPort::OnMad(std::span<const uint8_t> mad,
                        const net::PathQuery& from, Time now) {
  const RxVerdict verdict = cm_->OnMad(mad, from, now, *this);
  DoLater(now);
  return verdict;
}

void CmPort::OnTimer(Time now) {
  cm_->OnTimer(now, *this);
  DoLater(now);
}

Time CmPort::NextDeadline() const { return cm_->NextDeadline(); }

void CmPort::DoLater(Time now) {
  // None of these calls causes events, so nothing is added to later_ here.
  for (const Deferred& deferred : later_) {
    const cm::Handle handle = deferred.handle;
    switch (deferred.what) {
      case What::kAdopt:
        cm_->SetUser(handle, deferred.value);
        // Fails for datagrams: there is no MRA for their requests.
        cm_->PrepareMra(handle, kServiceTimeoutCode);
        break;
      case What::kPrepareMra:
        cm_->PrepareMra(handle, kServiceTimeoutCode);
        break;
      case What::kForget:
        cm_->Destroy(handle, now, *this);
        break;
      case What::kRefuse: {
        cm::RejectParams reject;
        reject.reason = static_cast<uint16_t>(deferred.value);
        cm_->Reject(handle, reject, now, *this);
        cm_->Destroy(handle, now, *this);
        break;
      }
      case What::kRefuseSidr: {
        cm::SidrReplyParams reply;
        reply.status = static_cast<uint8_t>(deferred.value);
        cm_->SidrReply(handle, reply, *this);
        cm_->Destroy(handle, now, *this);
        break;
      }
    }
  }
  later_.clear();
}

void CmPort::SendMad(std::span<const uint8_t, wire::kMadBytes> mad,
                     const net::PathQuery& to) {
  rnic_.SendMad(mad, to);
}

void CmPort::OnEvent(const cm::Event& event) {
  events_.OnCmEvent(*this, event);
}

}  // namespace urnic::rdmacm
