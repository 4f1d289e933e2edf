#include "cli/memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <new>

#include "cli/streams.h"
#include "codegen/library_call.h"

namespace rewire::cli {
namespace {

constexpr std::string_view kLead = "out of memory: try ";

/// The last message, which can be read without allocating.
std::array<char, 256> said_at_end = {"out of memory"};
std::atomic_flag ended;

[[noreturn]] void end_in_one_line() {
  while (ended.test_and_set()) ::pause();  // another thread is about to end the process
  write_unbuffered("rewire: ");
  if (const char* less = codegen::LibraryCall::less()) {
    write_unbuffered(kLead);
    write_unbuffered(less);
  } else {
    write_unbuffered(said_at_end.data());
  }
  write_unbuffered("\n");
  ::_exit(2);
}

void on_exhausted() {
  if (!codegen::LibraryCall::under_way()) throw std::bad_alloc();
  end_in_one_line();
}

std::terminate_handler terminate_otherwise = nullptr;

/// Handles bad_alloc in code that must not throw, such as a destructor that ends a library's session.
void on_terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      end_in_one_line();
    } catch (...) {
      // The previous handler reports it.
    }
  }
  terminate_otherwise();
}

}  // namespace

void share_one_heap_if_limited() {
  for (const auto kind : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(kind, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
  }
}

void answer_exhausted_memory(std::string_view less) {
  said_at_end = {};
  std::ranges::copy(kLead, said_at_end.begin());
  std::ranges::copy(less.substr(0, said_at_end.size() - kLead.size() - 1),
                    said_at_end.begin() + kLead.size());
  std::set_new_handler(on_exhausted);
  if (terminate_otherwise == nullptr) terminate_otherwise = std::set_terminate(on_terminate);
}

const char* exhausted_memory() {
  return said_at_end.data();
}

}  // namespace rewire::cli
