#include "transport/rud/context_pool.h"

#include "transport/base/mutation.h"
#include "transport/base/random.h"

namespace urnic::rud {

ContextPool::ContextPool(std::span<Context> storage, uint64_t seed)
    : contexts_(storage) {
  URNIC_CHECK(!storage.empty() && storage.size() <= kMaxContexts);
  Random random(seed);
  recoveries_ = random.Byte();
  for (uint32_t i = 0; i < contexts_.size(); ++i) {
    contexts_[i] = Context();
    contexts_[i].key = static_cast<uint32_t>(random.Next());
    Append(i);
  }
}

void ContextPool::Append(uint32_t number) {
  if (free_++ == 0) {
    head_ = number;
  } else {
    contexts_[tail_].next = number;
  }
  tail_ = number;
}

std::optional<ContextId> ContextPool::Acquire(uint32_t window) {
  URNIC_CHECK(window != 0);
  if (free_ == 0) return std::nullopt;
  const uint32_t number = head_;
  Context& context = contexts_[number];
  head_ = context.next;
  --free_;
  const uint32_t uses =
      context.key + MUTATION(rud_gives_a_context_the_same_key, 1, 0);
  context = Context();
  context.window = window;
  context.key =
      uint32_t{recoveries_} << kUseBits | (uses & ((1u << kUseBits) - 1));
  return ContextId{number, context.key};
}

void ContextPool::Release(uint32_t number) {
  Context& context = contexts_[number];
  URNIC_CHECK(context.window != 0);
  // Otherwise it would be in two lists.
  URNIC_CHECK(context.state != ContextState::kSending);
  context.window = 0;
  Append(number);
}

void ContextPool::OnRecovery() {
  ++recoveries_;
  for (uint32_t i = 0; i < contexts_.size(); ++i) {
    if (contexts_[i].window != 0) Release(i);
  }
}

}  // namespace urnic::rud
