# Everything the project is built from, all of it Debian packages (12 and 13); scripts/setup.sh installs them.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(Boost REQUIRED)
find_package(LLVM 19.1 REQUIRED CONFIG)
set(REWIRE_LLVM LLVM)
if(REWIRE_STATIC_LLVM)
  # The JIT, the passes and the host's own code generator: a tenth of the shared library.
  llvm_map_components_to_libnames(REWIRE_LLVM core orcjit native passes)
endif()
find_package(OpenMP REQUIRED)
# Debian 12's oneDNN package asks for OpenCL headers that the CPU path never needs, so the library is found by name.
find_path(REWIRE_DNNL_INCLUDE dnnl.hpp REQUIRED)
find_library(REWIRE_DNNL_LIBRARY dnnl REQUIRED)
# FFTW's CMake package is broken on Debian (it names no library), so it is found by name as well.
find_path(REWIRE_FFTW_INCLUDE fftw3.h REQUIRED)
find_library(REWIRE_FFTW_LIBRARY fftw3f REQUIRED)
