// Open MPI through dlopen. Its functions are declared here from the MPI standard (version 3.1); handles are pointers, and
// the predefined ones are symbols of the library.
#pragma once

#include <string>

namespace rewire::runtime {

struct MpiLibrary {
  using Handle = void*;  // of a communicator, a datatype, a request
  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*finalize)() = nullptr;
  int (*abort)(Handle comm, int code) = nullptr;
  int (*comm_rank)(Handle comm, int* rank) = nullptr;
  int (*comm_size)(Handle comm, int* size) = nullptr;
  int (*isend)(const void* data, int count, Handle type, int to, int tag, Handle comm,
               Handle* request) = nullptr;
  int (*irecv)(void* data, int count, Handle type, int from, int tag, Handle comm, Handle* request) = nullptr;
  int (*ibcast)(void* data, int count, Handle type, int root, Handle comm, Handle* request) = nullptr;
  int (*iallgather)(const void* own, int count, Handle type, void* all, int each, Handle all_type,
                    Handle comm, Handle* request) = nullptr;
  int (*ibarrier)(Handle comm, Handle* request) = nullptr;
  int (*test)(Handle* request, int* done, void* status) = nullptr;
  int (*cancel)(Handle* request) = nullptr;
  int (*request_free)(Handle* request) = nullptr;
  int (*get_library_version)(char* version, int* length) = nullptr;
  Handle world = nullptr, bytes = nullptr, no_request = nullptr;
};

/// Opens the library. Throws UserError if it is missing or lacks a function.
const MpiLibrary& mpi_library();

}  // namespace rewire::runtime
