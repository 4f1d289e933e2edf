# Everything the project is built from, all of it Debian packages (12 and 13); scripts/setup.sh installs them.
set(THREADS_PREFER_PTHREAD_FLAG ON)
set(shared_first ${CMAKE_FIND_LIBRARY_SUFFIXES})
if(REWIRE_BUNDLE)
  list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(Boost REQUIRED)
find_package(Protobuf REQUIRED)
# FFTW's CMake package is broken on Debian (it names no library), so it is found by name.
find_path(REWIRE_FFTW_INCLUDE fftw3.h REQUIRED)
find_library(REWIRE_FFTW_LIBRARY fftw3f REQUIRED)
find_path(REWIRE_PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(REWIRE_PCRE2_LIBRARY pcre2-8 REQUIRED)
set(CMAKE_FIND_LIBRARY_SUFFIXES ${shared_first})
if(REWIRE_BUNDLE)
  # Debian has these two shared only, so they are compiled in from their headers; --as-needed then drops the libraries.
  set_property(TARGET fmt::fmt PROPERTY INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
  set_property(TARGET spdlog::spdlog PROPERTY INTERFACE_COMPILE_DEFINITIONS SPDLOG_FMT_EXTERNAL)
endif()
find_package(LLVM 19.1 REQUIRED CONFIG)
set(REWIRE_LLVM LLVM)
if(REWIRE_BUNDLE)
  # The JIT, the passes and the host's own code generator: a tenth of the shared library.
  llvm_map_components_to_libnames(REWIRE_LLVM core orcjit native passes)
endif()
find_package(OpenMP REQUIRED)
# Debian 12's oneDNN package asks for OpenCL headers that the CPU path never needs, so the library is found by name.
find_path(REWIRE_DNNL_INCLUDE dnnl.hpp REQUIRED)
find_library(REWIRE_DNNL_LIBRARY dnnl REQUIRED)
find_path(REWIRE_SENTENCEPIECE_INCLUDE sentencepiece_processor.h REQUIRED)
find_library(REWIRE_SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
# libarchive reads tar files and no others here: then its static library needs none of the libraries that it has for other
# formats. Where it does, the shared one is taken.
find_path(REWIRE_ARCHIVE_INCLUDE archive.h REQUIRED)
find_library(REWIRE_ARCHIVE_STATIC libarchive.a)
if(REWIRE_ARCHIVE_STATIC)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_INCLUDES "${REWIRE_ARCHIVE_INCLUDE}")
  set(CMAKE_REQUIRED_LIBRARIES "${REWIRE_ARCHIVE_STATIC}")
  check_cxx_source_compiles("
    #include <archive.h>
    #include <archive_entry.h>
    int main() {
      archive* reader = archive_read_new();
      archive_entry* entry = nullptr;
      const bool good = archive_read_support_format_tar(reader) == ARCHIVE_OK &&
                        archive_read_open2(reader, nullptr, nullptr, nullptr, nullptr, nullptr) == ARCHIVE_OK &&
                        archive_read_next_header(reader, &entry) == ARCHIVE_OK &&
                        archive_entry_pathname_utf8(entry) != nullptr &&
                        archive_read_data(reader, nullptr, 0) == 0 && archive_filter_bytes(reader, 0) == 0;
      archive_read_free(reader);
      return good;
    }" REWIRE_ARCHIVE_IS_STATIC)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
if(REWIRE_ARCHIVE_IS_STATIC)
  set(REWIRE_ARCHIVE_LIBRARY "${REWIRE_ARCHIVE_STATIC}")
else()
  find_library(REWIRE_ARCHIVE_SHARED archive REQUIRED)
  set(REWIRE_ARCHIVE_LIBRARY "${REWIRE_ARCHIVE_SHARED}")
endif()
