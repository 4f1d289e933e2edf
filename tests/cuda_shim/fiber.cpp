// Fibers by fcontext: a switch is some ten nanoseconds.
#include "tests/cuda_shim/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>

#include "ir/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define REWIRE_SHIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define REWIRE_SHIM_ASAN 1
#endif
#endif
#ifdef REWIRE_SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace rewire::cuda_shim {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t kPage = 4096;
#ifdef REWIRE_SHIM_ASAN
constexpr std::size_t kStackBytes = 256 * 1024;  // redzones around every local
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif

void start_switch([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t size) {
#ifdef REWIRE_SHIM_ASAN
  __sanitizer_start_switch_fiber(save, bottom, size);
#endif
}

void finish_switch([[maybe_unused]] void* save, [[maybe_unused]] const void** bottom,
                   [[maybe_unused]] std::size_t* size) {
#ifdef REWIRE_SHIM_ASAN
  __sanitizer_finish_switch_fiber(save, bottom, size);
#endif
}

}  // namespace

FiberStacks::~FiberStacks() {
  for (std::byte* memory : memory_) ::munmap(memory, kStackBytes + kPage);
}

void FiberStacks::reserve(std::size_t count) {
  while (memory_.size() < count) {
    void* memory = ::mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || ::mprotect(memory, kPage, PROT_NONE) != 0)
      throw RuntimeFailure(fmt::format("no memory for {} fiber stacks of {} bytes", count, kStackBytes));
    memory_.push_back(static_cast<std::byte*>(memory));
  }
}

std::byte* FiberStacks::top(std::size_t index) const {
  return memory_[index] + kPage + kStackBytes;
}

std::size_t FiberStacks::size() {
  return kStackBytes;
}

struct Fiber::Entry {
  static void run(transfer_t from) {
    auto* fiber = static_cast<Fiber*>(from.data);
    fiber->context_ = from.fctx;
    finish_switch(nullptr, &fiber->resumer_bottom_, &fiber->resumer_size_);
    fiber->function_(fiber->data_);
    fiber->finished_ = true;
    fiber->leave(true);
  }
};

void Fiber::prepare(std::byte* stack_top, Function function, void* data) {
#ifdef REWIRE_SHIM_ASAN
  __asan_unpoison_memory_region(stack_top - kStackBytes, kStackBytes);
#endif
  stack_top_ = stack_top;
  function_ = function;
  data_ = data;
  finished_ = false;
  fake_stack_ = nullptr;
  context_ = make_fcontext(stack_top, kStackBytes, &Entry::run);
}

bool Fiber::resume() {
  start_switch(&resumer_fake_stack_, stack_top_ - kStackBytes, kStackBytes);
  context_ = jump_fcontext(context_, this).fctx;
  finish_switch(resumer_fake_stack_, nullptr, nullptr);
  return finished_;
}

void Fiber::suspend() {
  leave(false);
}

void Fiber::leave(bool for_good) {
  start_switch(for_good ? nullptr : &fake_stack_, resumer_bottom_, resumer_size_);
  context_ = jump_fcontext(context_, this).fctx;
  finish_switch(fake_stack_, &resumer_bottom_, &resumer_size_);
}

}  // namespace rewire::cuda_shim
