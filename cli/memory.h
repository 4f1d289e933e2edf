// What is said where memory is exhausted.
#pragma once

#include <string_view>

namespace rewire::cli {

/// Before a thread is started: where the process has a limit of memory, all threads take from one heap. One
/// of its own would reserve 64 MB for each.
void share_one_heap_if_limited();

/// From here on, memory that is exhausted in a library that cannot say so ends the process in one line, with
/// exit code 2; elsewhere it is a std::bad_alloc. `less` is what would take less: "a smaller batch".
void answer_exhausted_memory(std::string_view less);
/// "out of memory: try a smaller batch", for whoever catches the std::bad_alloc.
const char* exhausted_memory();

}  // namespace rewire::cli
