#include "codegen/library_call.h"

#include <sys/mman.h>

#include <new>

#include "ir/error.h"

namespace rewire::codegen {
namespace {

thread_local int depth = 0;
thread_local const char* takes_less = nullptr;

/// Returns whether the process's limits leave this many bytes. The mapping is never touched.
bool can_have(std::size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) ::munmap(room, bytes);
  return room != MAP_FAILED;
}

}  // namespace

LibraryCall::LibraryCall(std::size_t headroom, const char* less) : outer_(takes_less) {
  if (headroom > 0 && !can_have(headroom)) {
    if (less == nullptr) throw std::bad_alloc();
    throw OutOfMemory(fmt::format("out of memory: try {}", less));
  }
  ++depth;
  takes_less = less;
}

LibraryCall::~LibraryCall() {
  --depth;
  takes_less = outer_;
}

bool LibraryCall::under_way() {
  return depth > 0;
}

const char* LibraryCall::less() {
  return takes_less;
}

}  // namespace rewire::codegen
