#include "verbs/control/failure_text.h"

#include "absl/strings/str_cat.h"
#include "transport/wire/address_text.h"

namespace urnic::control {
namespace {

// Uses the largest unit that leaves at least two digits.
std::string DurationText(Duration d) {
  constexpr int64_t kUs = 1000, kMs = 1000 * kUs, kS = 1000 * kMs;
  if (d.ns() >= 10 * kS) return absl::StrCat(d.ns() / kS, " s");
  if (d.ns() >= 10 * kMs) return absl::StrCat(d.ns() / kMs, " ms");
  return absl::StrCat(d.ns() / kUs, " us");
}

std::string LastAnswer(const Failure& f) {
  if (f.answered_at.ns() == 0)
    return "its host has never acknowledged anything";
  return absl::StrCat("its host last acknowledged something ",
                      DurationText(f.at - f.answered_at), " before");
}

std::string AccessText(const FailedAccess& a, const char* key_name) {
  const std::string key = absl::StrCat(key_name, " 0x", absl::Hex(a.key));
  if (a.length == 0) return key;
  const std::string memory =
      absl::StrCat(a.length, " bytes at 0x", absl::Hex(a.address));
  return a.key == 0 ? memory : absl::StrCat(memory, " with ", key);
}

// "a request (write) for 8 bytes at 0x7f00 with rkey 0x2b".
std::string RequestText(const Failure& f) {
  std::string request = "a request";
  if (!f.operation.empty())
    absl::StrAppend(&request, " (", std::string(f.operation), ")");
  return absl::StrCat(request, " for ", AccessText(*f.access, "rkey"));
}

std::string FaultText(const FailedAccess& a) {
  if (a.by_queue_pair) return "the queue pair does not give the right";
  switch (a.fault) {
    case mem::MemFault::kKey:
      return "the key is not valid";
    case mem::MemFault::kPd:
      return "the key belongs to another protection domain";
    case mem::MemFault::kRange:
      return absl::StrCat("the region has ", a.region_length, " bytes at 0x",
                          absl::Hex(a.region_address));
    case mem::MemFault::kRights:
      return "the key does not give the right";
    default:
      return "the key is right, but the memory cannot be accessed";
  }
}

// Describes what the peer has refused.
std::string RefusalText(const Failure& f) {
  const std::string request =
      f.access.has_value() ? absl::StrCat("of ", RequestText(f)) : "";
  if (f.iwarp) {
    return request.empty() ? "the peer's Terminate names the request"
                           : absl::StrCat("the peer's Terminate is ", request);
  }
  return absl::StrCat("the peer's NAK names PSN ", f.psn,
                      request.empty() ? "" : ", ", request);
}

std::string TerminateText(const Failure& f) {
  const std::string error =
      absl::StrCat("the error (layer, type, code) is 0x",
                   absl::Hex(f.terminate, absl::kZeroPad4));
  if (!f.access.has_value()) return error;
  return absl::StrCat(error, ", of ", RequestText(f),
                      f.code == ErrorCode::kWeTerminated
                          ? absl::StrCat(": ", FaultText(*f.access))
                          : "");
}

std::string Naks(const Failure& f) {
  return absl::StrCat("so far the queue pair had ", f.sequence_naks,
                      " sequence NAKs, ", f.rnr_naks, " RNR NAKs and ",
                      f.timeouts, " time-outs");
}

}  // namespace

std::string WhyText(const Failure& f) {
  if (!f.text.empty()) return f.text;
  switch (f.code) {
    case ErrorCode::kRetriesExceeded:
      return absl::StrCat(
          f.retries + 1, f.retries == 0 ? " time-out of " : " time-outs of ",
          DurationText(f.timeout), " passed, and PSN ", f.psn,
          " was not acknowledged; ", LastAnswer(f), "; ", Naks(f));
    case ErrorCode::kRnrRetriesExceeded:
      return absl::StrCat("PSN ", f.psn, " was answered with an RNR NAK ",
                          f.rnr_retries + 1, " times; ", Naks(f));
    case ErrorCode::kRemoteAccess:
    case ErrorCode::kRemoteInvalidRequest:
    case ErrorCode::kRemoteOperation:
      return RefusalText(f);
    case ErrorCode::kLocalProtection:
      if (!f.access.has_value()) break;
      return absl::StrCat(
          "element ", f.access->element, " of ", f.access->elements, ", ",
          AccessText(*f.access, "lkey"), ": ", FaultText(*f.access));
    case ErrorCode::kQpAccess:
    case ErrorCode::kLocalAccess:
      if (!f.access.has_value()) break;
      return absl::StrCat(RequestText(f), ": ", FaultText(*f.access));
    case ErrorCode::kPeerTerminated:
    case ErrorCode::kWeTerminated:
      return TerminateText(f);
    default:
      break;
  }
  if (f.cause == RxVerdict::kAccept) return "";
  return absl::StrCat("a packet was refused: ",
                      kRxVerdictTexts[static_cast<size_t>(f.cause)]);
}

std::string PeerText(const Failure& f) {
  if (!f.has_peer) return "";
  if (f.iwarp || f.remote_qpn == 0)
    return wire::SocketText(f.remote, f.remote_port);
  return absl::StrCat("qp ", f.remote_qpn, " of ", wire::IpText(f.remote));
}

std::optional<ErrorCode> CodeOfEvent(QpEvent event) {
  switch (event) {
    case QpEvent::kFatal:
      return ErrorCode::kQpFatal;
    case QpEvent::kRequestError:
      return ErrorCode::kQpRequest;
    case QpEvent::kAccessError:
      return ErrorCode::kQpAccess;
    default:
      return std::nullopt;
  }
}

}  // namespace urnic::control
