/* A block service with a lock manager (third-party transfers of document C).
 * The manager knows which owner has a block. When a client asks for a block,
 * the manager tells the owner's RNIC to write it into the client's memory, and
 * is told when it has arrived. The owner's program does nothing.
 *
 *   cc -o block_service block_service.c $(pkg-config --cflags --libs urnic-dv)
 *   urnic run --port loop --addr 10.9.0.1/24 -- ./block_service
 *
 * The three windows are in one program, so that the example runs anywhere. Lost
 * packets are not retransmitted. */

#include "example_end.h"

enum { kBlockBytes = 4096, kBlocks = kMemoryBytes / kBlockBytes };

/* What a client asks for, and where the data should go. */
struct question {
  uint64_t context; /* of the client */
  uint64_t pvo;
  uint32_t block;
};

/* What the manager knows about the others. */
struct manager {
  struct end end;
  uint32_t to_owner;
  uint32_t to_client;
  uint64_t owner_pvo;
  uint64_t owner_context;
  uint64_t transfers; /* so far; gives all three contexts their tids */
};

static void ask(const struct end* client, uint32_t to_manager,
                const struct end* manager, uint32_t block) {
  const struct question question = {
      .context = client->context, .pvo = client->pvo, .block = block};
  const struct urnic_rud_send packet =
      packet_of(to_manager, manager, &question, sizeof(question));
  post(client, &packet);
}

/* Answers one question. */
static void serve(struct manager* manager, const struct end* owner,
                  const struct end* client) {
  struct question question;
  receive(&manager->end, URNIC_RUD_GOT_PACKET, &question);
  const uint64_t offset = (uint64_t)(question.block % kBlocks) * kBlockBytes;
  const struct urnic_rud_send command = {
      .opcode = URNIC_RUD_THIRD_READ,
      .notify = URNIC_RUD_NOTIFY_THIRD | URNIC_RUD_NOTIFY_TARGET,
      .peer = manager->to_owner,
      .window = owner->at.number,
      .context = manager->owner_context,
      .local_context = manager->end.context,
      .tid = ++manager->transfers << 8,
      .remote_pvo = manager->owner_pvo + offset,
      .local_pvo = question.pvo,
      .bytes = kBlockBytes,
      .stride = kStride,
      .packets = packets_of(kBlockBytes),
      .target_peer = manager->to_client,
      .target_window = client->at.number,
      .target_context = question.context};
  post(&manager->end, &command);
  receive(&manager->end, URNIC_RUD_GOT_COMPLETION, NULL);
}

int main(void) {
  static struct manager manager;
  static struct end owner, client;
  struct ibv_pd* const pd = open_device();
  open_end(&manager.end, pd);
  open_end(&owner, pd);
  open_end(&client, pd);
  /* Each of the three is a peer of the other two. */
  manager.to_owner = introduce(&manager.end, &owner);
  manager.to_client = introduce(&manager.end, &client);
  introduce(&owner, &manager.end);
  introduce(&owner, &client);
  const uint32_t to_manager = introduce(&client, &manager.end);
  introduce(&client, &owner);
  manager.owner_pvo = owner.pvo;
  manager.owner_context = owner.context;
  for (int block = 0; block < kBlocks; ++block)
    memset(owner.memory + block * kBlockBytes, 'a' + block, kBlockBytes);

  for (int block = 0; block < kBlocks; ++block) {
    ask(&client, to_manager, &manager.end, (uint32_t)block);
    serve(&manager, &owner, &client);
    receive(&client, URNIC_RUD_GOT_TRANSFER, NULL);
    if (memcmp(client.memory, owner.memory + block * kBlockBytes,
               kBlockBytes) != 0) {
      fprintf(stderr, "block %d has arrived, and not all bytes\n", block);
      return 1;
    }
    printf("block %d: %d bytes of %c\n", block, kBlockBytes, client.memory[0]);
  }
  close_end(&manager.end);
  close_end(&owner);
  close_end(&client);
  close_device(pd);
  return 0;
}
