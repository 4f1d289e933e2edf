// Fibers of one OS thread: a stack each, switched by Boost.Context, known to AddressSanitizer. A fiber runs a
// function that must return or stay suspended; no exception may leave it.
#pragma once

#include <cstddef>
#include <vector>

namespace rewire::cuda_shim {

/// Stacks of one size with an unmapped page below each: a stack overflow is a fault and no silent damage.
class FiberStacks {
 public:
  FiberStacks() = default;
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  /// At least this many. RuntimeFailure if memory cannot be had.
  void reserve(std::size_t count);
  /// The highest address of stack `index`.
  std::byte* top(std::size_t index) const;
  static std::size_t size();

 private:
  std::vector<std::byte*> memory_;  // with the guard page
};

/// One side switches to the other: start or resume from the thread's own stack, suspend from the fiber's.
class Fiber {
 public:
  using Function = void (*)(void* data);

  /// Ready to run `function(data)` on this stack. What ran on the stack before is forgotten.
  void prepare(std::byte* stack_top, Function function, void* data);
  /// Runs the fiber until it suspends or returns; true when it has returned.
  bool resume();
  /// Back to the caller of resume().
  void suspend();

 private:
  struct Entry;  // of boost's context
  void leave(bool for_good);

  void* context_ = nullptr;  // where to go on: the fiber's while it is suspended, else its resumer's
  std::byte* stack_top_ = nullptr;
  Function function_ = nullptr;
  void* data_ = nullptr;
  bool finished_ = false;
  // AddressSanitizer's fake stacks, and the resumer's stack.
  void* fake_stack_ = nullptr;
  void* resumer_fake_stack_ = nullptr;
  const void* resumer_bottom_ = nullptr;
  std::size_t resumer_size_ = 0;
};

}  // namespace rewire::cuda_shim
