// One end of a verbs scenario: on our RNIC, and on siw in the guest. It
// executes the requests of the harness, one per line; README.md describes them.
// guest/verbs_peer.py understands those without rdma_cm, for rxe.
//
//   urnic run .. -- verbs_peer SOCKET     a unix socket the harness listens on
//   verbs_peer -                          standard input is a socket
//
// Ends with status 0 when the harness closes the socket.

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "tests/interop/peer_connections.h"
#include "tests/interop/peer_objects.h"

namespace urnic::interop {
namespace {

using Clock = std::chrono::steady_clock;

const std::map<std::string, ibv_wr_opcode> kOperations = {
    {"send", IBV_WR_SEND},
    {"send-imm", IBV_WR_SEND_WITH_IMM},
    {"send-inv", IBV_WR_SEND_WITH_INV},
    {"write", IBV_WR_RDMA_WRITE},
    {"write-imm", IBV_WR_RDMA_WRITE_WITH_IMM},
    {"read", IBV_WR_RDMA_READ},
    {"swap", IBV_WR_ATOMIC_CMP_AND_SWP},
    {"add", IBV_WR_ATOMIC_FETCH_AND_ADD},
    {"bind", IBV_WR_BIND_MW},
    {"local-inv", IBV_WR_LOCAL_INV}};

const std::map<char, unsigned> kFlags = {
    {'s', IBV_SEND_SOLICITED}, {'f', IBV_SEND_FENCE}, {'i', IBV_SEND_INLINE}};

// Byte `i` of the pattern; as in guest/verbs_peer.py.
uint8_t PatternByte(uint64_t seed, uint64_t i) {
  return static_cast<uint8_t>((i & 0xffff) * 7 + (i >> 8 & 0xff) * 13 +
                              (i >> 16) * 31 + seed);
}

class Peer {
 public:
  void Close() {
    objects_.DestroyQueues();
    connections_.Close();
    objects_.Close();
  }

  // Executes one request and returns the answer without its first word.
  std::string Answer(const Words& words) {
    static const std::map<std::string, std::string (Peer::*)(const Words&)>
        kVerbs = {{"hello", &Peer::Hello},
                  {"memory", &Peer::AddMemory},
                  {"fill", &Peer::Fill},
                  {"check", &Peer::Check},
                  {"put", &Peer::Put},
                  {"get", &Peer::Get},
                  {"window", &Peer::Window},
                  {"shared", &Peer::Shared},
                  {"create", &Peer::Create},
                  {"connect", &Peer::Connect},
                  {"handle", &Peer::Handle},
                  {"error", &Peer::Error},
                  {"state", &Peer::State},
                  {"destroy", &Peer::Destroy},
                  {"receive", &Peer::Receive},
                  {"post", &Peer::Post},
                  {"poll", &Peer::Poll},
                  {"event", &Peer::Event},
                  {"listen", &Peer::Call<&Connections::Listen>},
                  {"resolve", &Peer::Call<&Connections::Resolve>},
                  {"request", &Peer::Call<&Connections::Connect>},
                  {"accept", &Peer::Call<&Connections::Accept>},
                  {"reject", &Peer::Call<&Connections::Reject>},
                  {"disconnect", &Peer::Call<&Connections::Disconnect>}};
    const auto verb = kVerbs.find(words.verb());
    if (verb == kVerbs.end()) throw Refused("no request " + words.verb());
    return (this->*verb->second)(words);
  }

 private:
  std::string Hello(const Words&) { return "can=" + objects_.Abilities(); }

  std::string AddMemory(const Words& words) {
    const ibv_mr* mr = objects_.AddMemory(words).mr;
    return "address=" + std::to_string(reinterpret_cast<uintptr_t>(mr->addr)) +
           " rkey=" + std::to_string(mr->rkey);
  }

  std::string Fill(const Words& words) {
    const uint64_t count = words.Number("bytes");
    uint8_t* to = At(words, count);
    const uint64_t begin = words.Number("begin");
    for (uint64_t i = 0; i < count; ++i)
      to[i] = PatternByte(words.Number("seed"), begin + i);
    return "";
  }

  std::string Check(const Words& words) {
    const uint64_t count = words.Number("bytes");
    const uint64_t begin = words.Number("begin");
    const uint64_t seed = words.Number("seed");
    const uint8_t* found = At(words, count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint8_t wanted = PatternByte(seed, begin + i);
      if (found[i] == wanted) continue;
      throw Refused("byte " + std::to_string(i) + " of " +
                    std::to_string(count) + " is " + std::to_string(found[i]) +
                    ", not " + std::to_string(wanted));
    }
    return "";
  }

  std::string Put(const Words& words) {
    const uint64_t value = words.Number("value");
    std::memcpy(At(words, sizeof(value)), &value, sizeof(value));
    return "";
  }

  std::string Get(const Words& words) {
    uint64_t value;
    std::memcpy(&value, At(words, sizeof(value)), sizeof(value));
    return "value=" + std::to_string(value);
  }

  std::string Window(const Words& words) {
    return "rkey=" + std::to_string(objects_.AddWindow(words)->rkey);
  }

  std::string Shared(const Words& words) {
    objects_.AddShared(words);
    return "";
  }

  std::string Create(const Words& words) {
    if (words.Has("id")) {
      objects_.AddQueue(words, connections_.id(words.Text("id")));
      return "";
    }
    const ibv_qp* qp = objects_.AddQueue(words).qp;
    ibv_gid gid;
    if (ibv_query_gid(objects_.context(), 1,
                      static_cast<int>(words.Number("gid_index")), &gid) != 0) {
      Refuse("ibv_query_gid", errno);
    }
    char text[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
    return "qpn=" + std::to_string(qp->qp_num) + " gid=" + text;
  }

  std::string Connect(const Words& words) {
    objects_.Connect(words);
    return "";
  }

  std::string Handle(const Words& words) {
    objects_.AddHandle(words);
    return "";
  }

  std::string Error(const Words& words) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    const int error = ibv_modify_qp(objects_.queue(words.Text("qp")).qp,
                                    &attributes, IBV_QP_STATE);
    if (error != 0) Refuse("ibv_modify_qp", error);
    return "";
  }

  std::string State(const Words& words) {
    static const std::map<ibv_qp_state, std::string> kNames = {
        {IBV_QPS_RESET, "reset"}, {IBV_QPS_INIT, "init"}, {IBV_QPS_RTR, "rtr"},
        {IBV_QPS_RTS, "rts"},     {IBV_QPS_ERR, "err"},
    };
    ibv_qp_attr attributes;
    ibv_qp_init_attr init;
    const int error = ibv_query_qp(objects_.queue(words.Text("qp")).qp,
                                   &attributes, IBV_QP_STATE, &init);
    if (error != 0) Refuse("ibv_query_qp", error);
    const auto name = kNames.find(attributes.qp_state);
    return "state=" + (name != kNames.end()
                           ? name->second
                           : std::to_string(attributes.qp_state));
  }

  std::string Destroy(const Words& words) {
    if (words.Has("id")) {
      connections_.Destroy(words.Text("id"));
    } else {
      objects_.Destroy(words.Text("name"));
    }
    return "";
  }

  // The requests of rdma_cm without an answer.
  template <void (Connections::*kRequest)(const Words&)>
  std::string Call(const Words& words) {
    (connections_.*kRequest)(words);
    return "";
  }

  std::string Event(const Words& words) {
    return connections_.NextEvent(words);
  }

  std::string Receive(const Words& words) {
    const Queue& queue = objects_.queue(words.Text("qp"));
    ibv_sge entry = Entry(words);
    ibv_recv_wr request = {};
    request.wr_id = words.Number("id");
    request.sg_list = &entry;
    request.num_sge = 1;
    ibv_recv_wr* bad;
    const int error = queue.qp != nullptr
                          ? ibv_post_recv(queue.qp, &request, &bad)
                          : ibv_post_srq_recv(queue.srq, &request, &bad);
    if (error != 0) Refuse("ibv_post_recv", error);
    return "";
  }

  std::string Post(const Words& words) {
    const std::string op = words.Text("op");
    if (kOperations.count(op) == 0) throw Refused("no operation " + op);
    ibv_sge entry = {};
    ibv_send_wr request = {};
    request.wr_id = words.Number("id");
    request.opcode = kOperations.at(op);
    request.send_flags = IBV_SEND_SIGNALED;
    for (const char letter : words.TextOr("flags", ""))
      request.send_flags |= kFlags.at(letter);
    if (words.Has("memory") && op != "bind") {
      entry = Entry(words);
      request.sg_list = &entry;
      request.num_sge = 1;
    }
    const auto rkey = static_cast<uint32_t>(words.Number("rkey"));
    std::string answer;
    if (op == "swap" || op == "add") {
      request.wr.atomic = {words.Number("address"), words.Number("compare"),
                           words.Number("swap"), rkey};
    } else if (op == "write" || op == "write-imm" || op == "read") {
      request.wr.rdma = {words.Number("address"), rkey};
    } else if (words.Has("handle")) {
      request.wr.ud = {objects_.handle(words.Text("handle")),
                       static_cast<uint32_t>(words.Number("qpn")),
                       static_cast<uint32_t>(words.Number("qkey", kQkey))};
    } else if (op == "bind") {
      answer = Bind(words, &request);
    }
    if (op == "send-imm" || op == "write-imm")
      request.imm_data = htonl(static_cast<uint32_t>(words.Number("imm")));
    if (op == "send-inv" || op == "local-inv") request.invalidate_rkey = rkey;
    ibv_send_wr* bad;
    const int error =
        ibv_post_send(objects_.queue(words.Text("qp")).qp, &request, &bad);
    if (error != 0) Refuse("ibv_post_send", error);
    return answer;
  }

  std::string Bind(const Words& words, ibv_send_wr* request) {
    ibv_mw* window = objects_.window(words.Text("window"));
    Memory& memory = objects_.memory(words.Text("memory"));
    const uint64_t bytes = words.Number("bytes");
    request->bind_mw.mw = window;
    request->bind_mw.rkey = ibv_inc_rkey(window->rkey);
    request->bind_mw.bind_info = {
        memory.mr,
        reinterpret_cast<uintptr_t>(memory.At(words.Number("at"), bytes)),
        bytes, static_cast<unsigned>(AccessOf(words.TextOr("access", "")))};
    return "rkey=" + std::to_string(request->bind_mw.rkey);
  }

  std::string Poll(const Words& words) {
    ibv_cq* cq = objects_.queue(words.Text("qp")).cq;
    const uint64_t count = words.Number("count", 1);
    const auto end =
        Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(
                           1000 * std::stod(words.TextOr("seconds", "10"))));
    std::string answer;
    for (uint64_t found = 0; found < count;) {
      ibv_wc wc;
      const int got = ibv_poll_cq(cq, 1, &wc);
      if (got < 0) throw Refused("ibv_poll_cq failed");
      if (got == 0 && Clock::now() > end) break;
      if (got == 0) {
        sched_yield();  // in the guest, both ends may share its only processor
        continue;
      }
      const std::string imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0
                                  ? std::to_string(ntohl(wc.imm_data))
                                  : "";
      answer += (found == 0 ? "c" : " c") + std::to_string(found) + "=" +
                std::to_string(wc.wr_id) + ":" + std::to_string(wc.status) +
                ":" + std::to_string(wc.opcode) + ":" +
                std::to_string(wc.byte_len) + ":" + imm;
      ++found;
    }
    return answer;
  }

  uint8_t* At(const Words& words, uint64_t count) {
    return objects_.memory(words.Text("memory")).At(words.Number("at"), count);
  }

  ibv_sge Entry(const Words& words) {
    Memory& memory = objects_.memory(words.Text("memory"));
    const uint64_t bytes = words.Number("bytes");
    return {reinterpret_cast<uintptr_t>(memory.At(words.Number("at"), bytes)),
            static_cast<uint32_t>(bytes), memory.mr->lkey};
  }

  Objects objects_;
  Connections connections_;
};

// A socket that is connected to `path`.
int ConnectTo(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address),
                        sizeof(address)) != 0) {
    throw Refused(std::string(path) + ": " + std::strerror(errno));
  }
  return fd;
}

int Serve(const std::string& path) {
  const int fd = path == "-" ? STDIN_FILENO : ConnectTo(path.c_str());
  FILE* stream = fdopen(fd, "r+");
  if (stream == nullptr) throw Refused("not a socket: " + path);
  Peer peer;
  char line[4096];
  while (std::fgets(line, sizeof(line), stream) != nullptr) {
    std::string answer;
    try {
      answer = "ok " + peer.Answer(Words(line)) + "\n";
    } catch (const std::exception& error) {
      answer = std::string("error ") + error.what() + "\n";
    }
    if (send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
  }
  std::fclose(stream);
  peer.Close();
  return 0;
}

}  // namespace
}  // namespace urnic::interop

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: verbs_peer SOCKET\n");
    return 2;
  }
  try {
    return urnic::interop::Serve(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verbs_peer: %s\n", error.what());
    return 1;
  }
}
