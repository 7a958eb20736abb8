#include "tests/interop/peer_objects.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>

namespace urnic::interop {

namespace {

constexpr int kCqEntries = 256;
constexpr uint8_t kPort = 1;

const std::map<std::string, ibv_qp_type> kTypes = {
    {"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD}};

ibv_mtu MtuOf(uint64_t bytes) {
  for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; ++mtu) {
    if (bytes == 128u << mtu) return static_cast<ibv_mtu>(mtu);
  }
  throw Refused("no MTU of " + std::to_string(bytes));
}

template <typename Map, typename Key>
auto& Find(Map& map, const Key& name) {
  const auto found = map.find(name);
  if (found == map.end())
    throw Refused(std::string("nothing is named ") + name);
  return found->second;
}

template <typename T>
T* Made(T* object, const char* verb) {
  if (object == nullptr) Refuse(verb, errno);
  return object;
}

void Modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask) {
  const int error = ibv_modify_qp(qp, &attributes, mask);
  if (error != 0) Refuse("ibv_modify_qp", error);
}

}  // namespace

void Refuse(const std::string& what, int error) {
  throw Refused(what + ": " + std::strerror(error));
}

Words::Words(const std::string& line) {
  std::istringstream in(line);
  in >> verb_;
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw Refused("not key=value: " + word);
    pairs_[word.substr(0, equals)] = word.substr(equals + 1);
  }
}

const std::string& Words::Text(const std::string& key) const {
  const auto found = pairs_.find(key);
  if (found == pairs_.end()) throw Refused(verb_ + " without " + key);
  return found->second;
}

std::string Words::TextOr(const std::string& key,
                          const std::string& other) const {
  return Has(key) ? Text(key) : other;
}

uint64_t Words::Number(const std::string& key, uint64_t other) const {
  return Has(key) ? std::stoull(Text(key), nullptr, 0) : other;
}

int AccessOf(const std::string& letters) {
  static const std::map<char, int> kBits = {{'l', IBV_ACCESS_LOCAL_WRITE},
                                            {'w', IBV_ACCESS_REMOTE_WRITE},
                                            {'r', IBV_ACCESS_REMOTE_READ},
                                            {'a', IBV_ACCESS_REMOTE_ATOMIC},
                                            {'b', IBV_ACCESS_MW_BIND}};
  int access = 0;
  for (const char letter : letters) access |= Find(kBits, letter);
  return access;
}

uint8_t* Memory::At(uint64_t at, uint64_t count) {
  if (at > bytes.size() || count > bytes.size() - at)
    throw Refused("outside the memory");
  return bytes.data() + at;
}

Objects::Objects() {
  devices_ = Made(rdma_get_devices(nullptr), "rdma_get_devices");
  context_ = devices_[0];
  if (context_ == nullptr) throw Refused("there is no device");
  pd_ = Made(ibv_alloc_pd(context_), "ibv_alloc_pd");
  AwaitPort();
}

void Objects::AwaitPort() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    ibv_port_attr attributes;
    const int error = ibv_query_port(context_, kPort, &attributes);
    if (error != 0) Refuse("ibv_query_port", error);
    if (attributes.state == IBV_PORT_ACTIVE) return;
    if (std::chrono::steady_clock::now() > end)
      throw Refused("the port is not active");
    usleep(1000);
  }
}

Memory& Objects::memory(const std::string& name) {
  return Find(memories_, name);
}
Queue& Objects::queue(const std::string& name) { return Find(queues_, name); }
ibv_mw* Objects::window(const std::string& name) {
  return Find(windows_, name);
}
ibv_ah* Objects::handle(const std::string& name) {
  return Find(handles_, name);
}

Memory& Objects::AddMemory(const Words& words) {
  Memory& memory = memories_[words.Text("name")];
  memory.bytes.resize(words.Number("bytes"));
  memory.mr = Made(ibv_reg_mr(pd_, memory.bytes.data(), memory.bytes.size(),
                              AccessOf(words.TextOr("access", "lwra"))),
                   "ibv_reg_mr");
  return memory;
}

ibv_mw* Objects::AddWindow(const Words& words) {
  return windows_[words.Text("name")] =
             Made(ibv_alloc_mw(pd_, IBV_MW_TYPE_2), "ibv_alloc_mw");
}

ibv_cq* Objects::AddCq() {
  return Made(ibv_create_cq(context_, kCqEntries, nullptr, nullptr, 0),
              "ibv_create_cq");
}

Queue& Objects::AddQueue(const Words& words, rdma_cm_id* id) {
  Queue made;
  made.type = words.TextOr("type", "rc");
  ibv_qp_init_attr init = {};
  init.qp_type = Find(kTypes, made.type);
  made.cq = AddCq();
  init.send_cq = init.recv_cq = made.cq;
  init.cap.max_send_wr = static_cast<uint32_t>(words.Number("sends", 64));
  init.cap.max_recv_wr = static_cast<uint32_t>(words.Number("receives", 64));
  init.cap.max_send_sge = init.cap.max_recv_sge = 2;
  init.cap.max_inline_data = 64;
  init.sq_sig_all = 1;
  if (words.Has("shared")) init.srq = queue(words.Text("shared")).srq;
  if (id == nullptr) {
    made.qp = ibv_create_qp(pd_, &init);
  } else if (rdma_create_qp(id, pd_, &init) == 0) {
    made.qp = id->qp;
  }
  if (made.qp == nullptr) {
    const int error = errno;
    ibv_destroy_cq(made.cq);
    Refuse("creating a queue pair", error);
  }
  return queues_[words.Text("name")] = made;
}

Queue& Objects::AddShared(const Words& words) {
  Queue made;
  ibv_srq_init_attr init = {};
  init.attr.max_wr = static_cast<uint32_t>(words.Number("receives", 64));
  init.attr.max_sge = 1;
  made.srq = Made(ibv_create_srq(pd_, &init), "ibv_create_srq");
  return queues_[words.Text("name")] = made;
}

ibv_ah_attr Objects::Path(const Words& words) {
  ibv_ah_attr path = {};
  if (inet_pton(AF_INET6, words.Text("gid").c_str(), path.grh.dgid.raw) != 1)
    throw Refused("no GID: " + words.Text("gid"));
  path.is_global = 1;
  path.port_num = kPort;
  path.grh.sgid_index = static_cast<uint8_t>(words.Number("gid_index"));
  path.grh.hop_limit = 64;
  return path;
}

void Objects::AddHandle(const Words& words) {
  ibv_ah_attr path = Path(words);
  handles_[words.Text("name")] =
      Made(ibv_create_ah(pd_, &path), "ibv_create_ah");
}

void Objects::Connect(const Words& words) {
  const Queue& made = queue(words.Text("qp"));
  const bool datagrams = made.type == "ud";
  const bool reliable = made.type == "rc";
  const auto byte = [&](const char* key, uint64_t other) {
    return static_cast<uint8_t>(words.Number(key, other));
  };
  ibv_qp_attr a = {};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = kPort;
  a.qkey = kQkey;
  a.qp_access_flags =
      static_cast<unsigned>(AccessOf(words.TextOr("access", "wra")));
  Modify(made.qp, a,
         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
             (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  int mask = IBV_QP_STATE;
  a = {};
  a.qp_state = IBV_QPS_RTR;
  if (!datagrams) {
    a.path_mtu = MtuOf(words.Number("mtu", 1024));
    a.dest_qp_num = static_cast<uint32_t>(words.Number("qpn"));
    a.rq_psn = static_cast<uint32_t>(words.Number("peer_psn"));
    a.ah_attr = Path(words);
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  if (reliable) {
    a.max_dest_rd_atomic = byte("reads", 4);
    a.min_rnr_timer = byte("rnr_timer", 12);
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  Modify(made.qp, a, mask);
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  a = {};
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = static_cast<uint32_t>(words.Number("psn"));
  if (reliable) {
    a.timeout = byte("timeout", 16);
    a.retry_cnt = byte("retries", 7);
    a.rnr_retry = byte("rnr_retries", 7);
    a.max_rd_atomic = byte("reads", 4);
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
            IBV_QP_MAX_QP_RD_ATOMIC;
  }
  Modify(made.qp, a, mask);
}

void Objects::DestroyQueue(const Queue& made) {
  int error =
      made.qp != nullptr ? ibv_destroy_qp(made.qp) : ibv_destroy_srq(made.srq);
  if (error == 0 && made.cq != nullptr) error = ibv_destroy_cq(made.cq);
  if (error != 0) Refuse("destroying a queue", error);
}

void Objects::Destroy(const std::string& name) {
  if (queues_.count(name) != 0) {
    DestroyQueue(queues_[name]);
    queues_.erase(name);
    return;
  }
  const int error = ibv_dereg_mr(memory(name).mr);
  if (error != 0) Refuse("ibv_dereg_mr", error);
  memories_.erase(name);
}

void Objects::DestroyQueues() {
  // Shared queues last: the others receive from them.
  for (const bool shared : {false, true}) {
    for (const auto& [name, made] : queues_)
      if ((made.srq != nullptr) == shared) DestroyQueue(made);
  }
  queues_.clear();
}

void Objects::Close() {
  const auto check = [](int error, const char* verb) {
    if (error != 0) Refuse(verb, error);
  };
  for (const auto& [name, handle] : handles_)
    check(ibv_destroy_ah(handle), "ibv_destroy_ah");
  DestroyQueues();
  for (const auto& [name, window] : windows_)
    check(ibv_dealloc_mw(window), "ibv_dealloc_mw");
  for (const auto& [name, memory] : memories_)
    check(ibv_dereg_mr(memory.mr), "ibv_dereg_mr");
  check(ibv_dealloc_pd(pd_), "ibv_dealloc_pd");
  rdma_free_devices(devices_);
}

bool Objects::CanCreate(const std::string& type) {
  const std::string name = "probe-" + type;
  try {
    if (type == "srq") {
      AddShared(Words("shared name=" + name));
    } else if (type == "mw") {
      AddWindow(Words("window name=" + name));
    } else {
      AddQueue(Words("create type=" + type + " name=" + name));
    }
    return true;
  } catch (const Refused&) {
    return false;
  }
}

std::string Objects::Abilities() {
  std::string found;
  for (const char* type : {"rc", "uc", "ud", "srq", "mw"}) {
    if (CanCreate(type))
      found += (found.empty() ? "" : ",") + std::string(type);
  }
  // librdmacm's device, if the preload shows it.
  const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    close(fd);
    found += ",cm";
  }
  return found;
}

}  // namespace urnic::interop
