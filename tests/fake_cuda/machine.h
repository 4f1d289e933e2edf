// The machine that the fake libraries make up: $REWIRE_FAKE_CUDA_MACHINE has words NAME=value that change it.
//
//   driver=12020        the driver's CUDA version; release=535.183.01: its own version
//   device=NAME:120:170:101376:32:31.5   a device: compute capability times ten, multiprocessors, bytes of a block's
//                       shared memory, GiB of memory, GiB of it that are free; for each device once. Without any there
//                       are as many of one kind as $REWIRE_FAKE_CUDA_DEVICES says (1)
//   nvrtc=12.4 archs=80,90   NVRTC's version, and the architectures that it knows
//   cublaslt=120402 cufft=11203 cudnn=91002 nccl=22105   the libraries' numbers, as each writes them
//   cudnn_for=12090     the CUDA that cuDNN was built with
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rewire::fake_cuda {

struct FakeDevice {
  std::string name = "Fake CUDA device";
  int arch = 90, multiprocessors = 132, shared_bytes = 232448;
  std::size_t memory = std::size_t{4} << 30, free = memory;  // bytes
};

struct Machine {
  int driver = 13000;
  std::string release = "580.00";
  std::vector<FakeDevice> devices;
  // Not a version that NVRTC has: what is kept on disk by version is never taken for a device's code.
  int nvrtc_major = 12, nvrtc_minor = 99;
  std::vector<int> archs = {80, 90, 100};
  int cublaslt = 129999, cufft = 12903, cudnn = 99900, cudnn_for = 12090, nccl = 29901;
};
const Machine& machine();

/// The own numbers of the devices that $CUDA_VISIBLE_DEVICES lists, by number or UUID; of all if it is not set.
std::vector<int> visible_devices();
/// The 16 bytes of a device's UUID, by its own number.
std::string uuid_bytes(int number);

}  // namespace rewire::fake_cuda
