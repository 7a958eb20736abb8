#include "verbs/control/qp_attributes.h"

namespace urnic::control {

QpAttributes Merged(QpAttributes attributes, const QpAttributes& change,
                    uint32_t mask) {
  constexpr uint32_t kPsnMask = 0xffffff;
  const auto take = [&](uint32_t bit, auto QpAttributes::*member) {
    if ((mask & bit) != 0) attributes.*member = change.*member;
  };
  take(kQpState, &QpAttributes::qp_state);
  take(kQpEnSqdAsyncNotify, &QpAttributes::en_sqd_async_notify);
  take(kQpAccessFlags, &QpAttributes::qp_access_flags);
  take(kQpPkeyIndex, &QpAttributes::pkey_index);
  take(kQpPort, &QpAttributes::port_num);
  take(kQpQkey, &QpAttributes::qkey);
  take(kQpAv, &QpAttributes::ah_attr);
  take(kQpPathMtu, &QpAttributes::path_mtu);
  take(kQpTimeout, &QpAttributes::timeout);
  take(kQpRetryCnt, &QpAttributes::retry_cnt);
  take(kQpRnrRetry, &QpAttributes::rnr_retry);
  take(kQpRqPsn, &QpAttributes::rq_psn);
  take(kQpMaxRdAtomic, &QpAttributes::max_rd_atomic);
  take(kQpMinRnrTimer, &QpAttributes::min_rnr_timer);
  take(kQpSqPsn, &QpAttributes::sq_psn);
  take(kQpMaxDestRdAtomic, &QpAttributes::max_dest_rd_atomic);
  take(kQpDestQpn, &QpAttributes::dest_qp_num);
  attributes.rq_psn &= kPsnMask;
  attributes.sq_psn &= kPsnMask;
  return attributes;
}

}  // namespace urnic::control
