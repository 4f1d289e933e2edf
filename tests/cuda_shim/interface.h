// Between a kernel's text that was compiled for the host (device.h) and the runner (block.cpp): a thread of a
// block, and the calls it makes.
#pragma once

#include <stdint.h>

namespace rewire_shim {

constexpr unsigned kWarp = 32;

struct Index3 {
  unsigned x, y, z;
};

/// Where in the text a thread stands.
struct Place {
  const char* what;  // "__syncthreads"
  const char *file, *function;
  int line;
};

struct Thread;

/// The runner's side.
struct Runner {
  /// Returns when every thread of the block is here.
  void (*barrier)(Thread*, Place);
  /// Returns when every lane of `mask` is here. The values by lane; all bits set for lanes not in the mask.
  const uint64_t* (*exchange)(Thread*, Place, unsigned mask, uint64_t value);
  /// Copies bytes when the thread finishes its copies.
  void (*copy)(Thread*, void* to, const void* from, unsigned bytes);
  void (*finish_copies)(Thread*);
  /// Ends the launch with this message; does not return.
  void (*fail)(Thread*, Place, const char* message);
};

/// A thread of the block that runs now.
struct Thread {
  Index3 thread, block, threads, blocks;
  unsigned char* shared;
  const Runner* runner;
};

}  // namespace rewire_shim
