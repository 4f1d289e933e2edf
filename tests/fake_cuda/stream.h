// The streams of the fake device. The libraries that put work on a stream (the fake cuBLASLt and cuFFT) stand
// on this header alone.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "tests/fake_cuda/calls.h"

namespace rewire::fake_cuda {

/// Puts work on a stream: it runs when the stream comes to it. On a stream that is being captured it is
/// recorded instead and runs at each launch of the graph, so `run` holds by value all that it needs. `run`
/// throws RuntimeFailure for what no device survives. Returns the driver's error; 0: none.
int enqueue(void* stream, std::string label, std::function<void()> run);

/// The bytes from `address` to the end of the allocation on the device that holds it; 0: none does. Asked by
/// the work when it runs.
std::size_t device_bytes_at(const void* address);

}  // namespace rewire::fake_cuda
