#include "runtime/group/mpi_library.h"

#include <dlfcn.h>

#include "ir/error.h"

namespace rewire::runtime {
namespace {

constexpr const char* kLibrary = "libmpi.so.40";

template <class Symbol>
void find(void* library, const char* name, Symbol& symbol) {
  symbol = reinterpret_cast<Symbol>(::dlsym(library, name));
  if (symbol == nullptr)
    user_error("{} lacks {}: install Open MPI 4 or 5 (libopenmpi3 on Debian)", kLibrary, name);
}

MpiLibrary opened() {
  // Its components, libraries that it opens itself, need its symbols.
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    user_error("several processes need Open MPI, and {} cannot be opened: install openmpi-bin", kLibrary);
  MpiLibrary mpi;
  find(library, "MPI_Init_thread", mpi.init_thread);
  find(library, "MPI_Finalize", mpi.finalize);
  find(library, "MPI_Abort", mpi.abort);
  find(library, "MPI_Comm_rank", mpi.comm_rank);
  find(library, "MPI_Comm_size", mpi.comm_size);
  find(library, "MPI_Isend", mpi.isend);
  find(library, "MPI_Irecv", mpi.irecv);
  find(library, "MPI_Ibcast", mpi.ibcast);
  find(library, "MPI_Iallgather", mpi.iallgather);
  find(library, "MPI_Ibarrier", mpi.ibarrier);
  find(library, "MPI_Test", mpi.test);
  find(library, "MPI_Cancel", mpi.cancel);
  find(library, "MPI_Request_free", mpi.request_free);
  find(library, "MPI_Get_library_version", mpi.get_library_version);
  find(library, "ompi_mpi_comm_world", mpi.world);
  find(library, "ompi_mpi_byte", mpi.bytes);
  find(library, "ompi_request_null", mpi.no_request);
  return mpi;
}

}  // namespace

const MpiLibrary& mpi_library() {
  static const MpiLibrary library = opened();
  return library;
}

}  // namespace rewire::runtime
