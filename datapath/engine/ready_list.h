#pragma once

// A queue of the nodes that have something to send, linked through the nodes
// themselves. Node has members `Node* ready_next` and `bool ready`, which
// belong to the list. One thread (the token holder).

namespace urnic {

template <typename Node>
class ReadyList {
 public:
  bool empty() const { return head_ == nullptr; }

  // A node that is already in the list keeps its place.
  void Push(Node& node) {
    if (node.ready) return;
    node.ready = true;
    Append(node);
  }

  // The next node. REQUIRES: !empty()
  Node& front() const { return *head_; }

  // REQUIRES: !empty()
  Node& Pop() {
    Node& node = *head_;
    head_ = node.ready_next;
    node.ready = false;
    return node;
  }

  // Skips the node for now: Restore() puts it back in front of all nodes that
  // wait. REQUIRES: it has just been popped.
  void PassOver(Node& node, ReadyList& passed_over) {
    node.ready = true;
    passed_over.Append(node);
  }
  // Puts the skipped nodes back in front, in their order.
  void Restore(ReadyList& passed_over) {
    if (passed_over.empty()) return;
    passed_over.tail_->ready_next = head_;
    if (head_ == nullptr) tail_ = passed_over.tail_;
    head_ = passed_over.head_;
    passed_over.head_ = nullptr;
  }

  // Takes time in proportion to the list's length. Does nothing if the node is
  // not in the list.
  void Remove(Node& node) {
    if (!node.ready) return;
    node.ready = false;
    Node* before = nullptr;
    for (Node* at = head_; at != &node; at = at->ready_next) before = at;
    (before == nullptr ? head_ : before->ready_next) = node.ready_next;
    if (tail_ == &node) tail_ = before;
  }

 private:
  void Append(Node& node) {
    node.ready_next = nullptr;
    (head_ == nullptr ? head_ : tail_->ready_next) = &node;
    tail_ = &node;
  }

  Node* head_ = nullptr;
  Node* tail_ = nullptr;
};

}  // namespace urnic
