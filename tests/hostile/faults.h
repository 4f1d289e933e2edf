// What faults.cpp and journal.cpp, the two halves of libfaults.so, share. The library is preloaded into the
// program under test, and is told by the environment what to do:
//
//   FAULT_UNDER=FOLDER   the calls on files below it count (all but malloc)
//   FAULT_CALL=write     the kind of call: open, close, read, write, fsync, ftruncate, rename (and linkat),
//   mkdir,
//                        unlink, malloc (operator new is one)
//   FAULT_AT=17          the first of them that fails, from 1; 0: none, they are counted
//   FAULT_TIMES=1        how many in a row; 0: all from there on
//   FAULT_ERROR=28       with this errno; "short": half of the bytes; "kill": SIGKILL before the call
//   FAULT_REPORT=FILE    is made when the fault has come, or at the end, as long as the calls were many
//   FAULT_JOURNAL=FILE   each change of a file below FAULT_UNDER is appended to it (journal.h)
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace rewire::faults {

/// The absolute path behind a descriptor, and of a path relative to one (AT_FDCWD: to the current folder).
std::string path_of(int descriptor);
std::string path_at(int folder, const char* path);
bool is_watched(const std::string& path);

/// What came of a call on a watched file, told after it has succeeded; each keeps errno.
void note_opened(int descriptor, const std::string& path, int flags, bool existed);
void note_written(int descriptor, const void* bytes, std::size_t count, off_t at);
void note_resized(int descriptor, off_t size);
void note_synced(int descriptor);
void note_folder(const std::string& path);
void note_renamed(const std::string& from, const std::string& to);
void note_linked(const std::string& path);
void note_removed(const std::string& path);

}  // namespace rewire::faults
