#pragma once

// The named objects of verbs_peer: memory, windows, queues. One thread. If a
// verb fails, Refused is thrown, with the verb's name and the text of errno;
// the program sends it as its answer and goes on.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace urnic::interop {

class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Refused with the text of `error`, an errno.
[[noreturn]] void Refuse(const std::string& what, int error);

// The words of a request: "post qp=q op=send ..". Missing words have defaults.
class Words {
 public:
  explicit Words(const std::string& line);

  const std::string& verb() const { return verb_; }
  bool Has(const std::string& key) const { return pairs_.count(key) != 0; }
  // Throws Refused if it is missing.
  const std::string& Text(const std::string& key) const;
  std::string TextOr(const std::string& key, const std::string& other) const;
  uint64_t Number(const std::string& key, uint64_t other = 0) const;

 private:
  std::string verb_;
  std::map<std::string, std::string> pairs_;
};

// The IBV_ACCESS_* bits for the letters of tests/interop/README.md.
int AccessOf(const std::string& letters);

struct Memory {
  std::vector<uint8_t> bytes;
  ibv_mr* mr = nullptr;

  // The address of byte `at`, which has `count` bytes of room; throws Refused
  // if it does not.
  uint8_t* At(uint64_t at, uint64_t count);
};

struct Queue {
  ibv_qp* qp = nullptr;
  ibv_srq* srq = nullptr;
  ibv_cq* cq = nullptr;
  std::string type;
};

// All objects of one device. They live until Destroy() or Close().
class Objects {
 public:
  // Opens the first device, as librdmacm does, so that its ids can have the
  // queue pairs. Waits until its port is active.
  Objects();

  ibv_context* context() { return context_; }
  // Throw Refused if there is no object of this name.
  Memory& memory(const std::string& name);
  Queue& queue(const std::string& name);
  ibv_mw* window(const std::string& name);
  ibv_ah* handle(const std::string& name);

  Memory& AddMemory(const Words& words);
  ibv_mw* AddWindow(const Words& words);
  // With `id`: its queue pair, in INIT; the connection does the rest.
  Queue& AddQueue(const Words& words, rdma_cm_id* id = nullptr);
  Queue& AddShared(const Words& words);
  void AddHandle(const Words& words);
  // Through INIT and RTR to RTS.
  void Connect(const Words& words);
  void Destroy(const std::string& name);  // a queue or memory
  void DestroyQueues();
  // Destroys everything and closes the device. Must be the last call.
  void Close();
  // The kinds of objects that can be created on this device: "rc ud ..".
  std::string Abilities();

 private:
  void AwaitPort();
  void DestroyQueue(const Queue& made);
  ibv_cq* AddCq();
  ibv_ah_attr Path(const Words& words);
  bool CanCreate(const std::string& type);

  ibv_context** devices_;  // librdmacm's
  ibv_context* context_;
  ibv_pd* pd_;
  std::map<std::string, Memory> memories_;
  std::map<std::string, Queue> queues_;
  std::map<std::string, ibv_mw*> windows_;
  std::map<std::string, ibv_ah*> handles_;
};

inline constexpr uint32_t kQkey = 0x11111111;

}  // namespace urnic::interop
