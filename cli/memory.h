// The error message when memory is exhausted.
#pragma once

#include <string_view>

namespace rewire::cli {

/// If the process has a memory limit, makes all threads share one heap; a heap of its own would reserve 64
/// MB per thread. Call it before any thread starts.
void share_one_heap_if_limited();

/// Makes exhausted memory end the process in one line with exit code 2 if it happens in a library that
/// cannot report it; elsewhere it is a std::bad_alloc. `less` is the advice: "a smaller batch".
void answer_exhausted_memory(std::string_view less);
/// Returns "out of memory: try a smaller batch", for code that catches the std::bad_alloc.
const char* exhausted_memory();

}  // namespace rewire::cli
