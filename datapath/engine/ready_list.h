#pragma once

// The nodes that have something to send, in turn: a queue through the nodes
// themselves. Node has members `Node* ready_next` and `bool ready`, which
// belong to the list. One thread (the token holder).

namespace urnic {

template <typename Node>
class ReadyList {
 public:
  bool empty() const { return head_ == nullptr; }

  // A node that is in the list already keeps its place.
  void Push(Node& node) {
    if (node.ready) return;
    node.ready = true;
    Append(node);
  }

  // REQUIRES: !empty()
  Node& Pop() {
    Node& node = *head_;
    head_ = node.ready_next;
    node.ready = false;
    return node;
  }

  // The node was passed over; Restore() puts it in front of all that wait now.
  // REQUIRES: it has just been popped.
  void PassOver(Node& node, ReadyList& passed_over) {
    node.ready = true;
    passed_over.Append(node);
  }
  // Puts the nodes that were passed over back in front, in their order.
  void Restore(ReadyList& passed_over) {
    if (passed_over.empty()) return;
    passed_over.tail_->ready_next = head_;
    if (head_ == nullptr) tail_ = passed_over.tail_;
    head_ = passed_over.head_;
    passed_over.head_ = nullptr;
  }

  // Takes time in proportion to the list's length. Leaves alone a node that is
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
