#pragma once

// What verbs_peer keeps by name: memory, windows, queues. One thread. Whatever
// the verbs refuse is thrown as Refused, with the verb's name and errno's
// text; the program answers with it and goes on.

#include <infiniband/verbs.h>

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

// The words of a request: "post qp=q op=send .."; missing ones have defaults.
class Words {
 public:
  explicit Words(const std::string& line);

  const std::string& verb() const { return verb_; }
  bool Has(const std::string& key) const { return pairs_.count(key) != 0; }
  // Refused if absent.
  const std::string& Text(const std::string& key) const;
  std::string TextOr(const std::string& key, const std::string& other) const;
  uint64_t Number(const std::string& key, uint64_t other = 0) const;

 private:
  std::string verb_;
  std::map<std::string, std::string> pairs_;
};

// Letters of tests/interop/README.md to IBV_ACCESS_* bits.
int AccessOf(const std::string& letters);

struct Memory {
  std::vector<uint8_t> bytes;
  ibv_mr* mr = nullptr;

  // The byte at `at`, with room for `count`; Refused if there is none.
  uint8_t* At(uint64_t at, uint64_t count);
};

struct Queue {
  ibv_qp* qp = nullptr;
  ibv_srq* srq = nullptr;
  ibv_cq* cq = nullptr;
  std::string type;
};

// Everything of one device. Objects live until Destroy or the end.
class Objects {
 public:
  Objects();  // opens the first device; its port is active then

  ibv_context* context() { return context_; }
  // Refused if nothing has that name.
  Memory& memory(const std::string& name);
  Queue& queue(const std::string& name);
  ibv_mw* window(const std::string& name);
  ibv_ah* handle(const std::string& name);

  Memory& AddMemory(const Words& words);
  ibv_mw* AddWindow(const Words& words);
  Queue& AddQueue(const Words& words);
  Queue& AddShared(const Words& words);
  void AddHandle(const Words& words);
  // Through INIT and RTR to RTS.
  void Connect(const Words& words);
  void Destroy(const std::string& name);  // a queue or memory
  // Destroys everything and closes the device; nothing may be called then.
  void Close();
  // The kinds of objects that this device lets one create: "rc ud ..".
  std::string Abilities();

 private:
  void AwaitPort();
  void DestroyQueue(const Queue& made);
  ibv_cq* AddCq();
  ibv_ah_attr Path(const Words& words);
  bool CanCreate(const std::string& type);

  ibv_context* context_;
  ibv_pd* pd_;
  std::map<std::string, Memory> memories_;
  std::map<std::string, Queue> queues_;
  std::map<std::string, ibv_mw*> windows_;
  std::map<std::string, ibv_ah*> handles_;
};

inline constexpr uint32_t kQkey = 0x11111111;

}  // namespace urnic::interop
