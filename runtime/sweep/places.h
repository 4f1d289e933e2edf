// Where the processes of a sweep that run at once compute.
#pragma once

#include <string>
#include <vector>

namespace rewire::runtime {

/// What one process may use of this machine.
struct ProcessPlace {
  std::vector<int> cores;  // processors by the system's number; empty: all of the parent's
  std::string device;      // the value of its CUDA_VISIBLE_DEVICES; empty: the parent's
};

/// Divides this process's cores, those of a socket and of a physical core together, and, `on_gpu`, its GPUs among `count` processes. More processes
/// than cores or GPUs share them in turn. One process gets all.
std::vector<ProcessPlace> divided_places(int count, bool on_gpu);

}  // namespace rewire::runtime
