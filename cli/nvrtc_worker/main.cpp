// The program that compiles kernels in parallel with `rewire`: nvrtc-worker ARCH. codegen/cuda/nvrtc_workers
// starts it with a socket as its standard input. No user calls it.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "codegen/cuda/nvrtc_worker.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("nvrtc-worker: started by rewire to compile CUDA kernels, and by nobody else\n", stderr);
    return 2;
  }
  // Linux ends this worker when its parent ends. If that was before this line, the socket is closed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return rewire::codegen::cuda::serve_nvrtc(STDIN_FILENO, std::atoi(argv[1]));
}
