// Which files a library of NVIDIA's is searched in, and which of several is the best. Files are judged by their
// names and by what is beside them: nothing is opened.
#pragma once

#include <string>
#include <vector>

namespace rewire::codegen::cuda {

/// What a library is called. `soname_12` and `soname_13` are the files of CUDA 12 and 13, alike where a library is
/// made for both under one name.
struct LibraryNames {
  std::string name;                     // "cuBLASLt"
  std::string variable;                 // "REWIRE_CUBLASLT"
  std::string soname_13;                // "libcublasLt.so.13"
  std::string soname_12;                // "libcublasLt.so.12"
  std::string too_old;                  // "libcublasLt.so.11": found, but of no use; "": none
  std::string wheel_13;                 // "nvidia-cublas", the Python package that brings it; "": none does
  std::string wheel_12;                 // "nvidia-cublas-cu12"
  std::vector<std::string> parts = {};  // the files that it opens from its own folder at need
};
extern const LibraryNames kDriver, kManagement, kNvrtc, kCublasLt, kCufft, kCudnn, kNccl;

/// The oldest CUDA version that a library of `cuda` (12 or 13) needs of the driver, as cuDriverGetVersion says it, and
/// the driver's own number: CUDA Toolkit Release Notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA
/// Minor Version Compatibility".
inline constexpr int kOldestDriver = 12000, kDriverOf13 = 13000;
inline constexpr const char *kOldestBranch = "525", *kBranchOf13 = "580";

/// A file that may be the library.
struct LibraryFile {
  std::string path;  // as it was found
  bool guessed =
      false;     // no variable but VIRTUAL_ENV, CONDA_PREFIX, HOME or PATH led to it: opened only if trusted
  int cuda = 0;  // 12 or 13; 0: its name does not say
  std::vector<int> version = {};  // {9, 10, 2}, as the name of the file or of its wheel says; empty: neither
  std::vector<std::string> lacks = {};  // parts that are not beside it
  std::string refusal = {};             // "for CUDA 13, which needs driver 580 or newer"; "": it may be taken
  bool chosen = false;                  // lies in $CUDA_HOME
};
/// Returns "9.10.2".
std::string version_text(const std::vector<int>& version);

/// Returns all files that may be the library, the best first: what the driver can use, then what has all its parts,
/// lies in $CUDA_HOME, belongs to the newest CUDA, has the newest version, or comes first in this order of folders:
/// $CUDA_HOME; $VIRTUAL_ENV, $CONDA_PREFIX, the Python environments of this program, of the first python3 in $PATH and
/// of $HOME/.local, with PyTorch's folder; $LD_LIBRARY_PATH; the system's; /usr/local/cuda*. $REWIRE_CUDA_ROOT takes
/// the place of "/" in the last two. `driver`: its CUDA version, 12020 for 12.2; 0: there is none, and any will do.
std::vector<LibraryFile> library_files(const LibraryNames& names, int driver);

/// Returns what installs the library for a driver: "pip install nvidia-cudnn-cu12, or set REWIRE_CUDNN to its path".
std::string how_to_install(const LibraryNames& names, int driver);

}  // namespace rewire::codegen::cuda
