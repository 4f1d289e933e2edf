// What every function of the fake libraries begins and ends with: calls are counted, a test may let one fail,
// and what a real device leaves undefined is kept as a fault instead.
#pragma once

#include <string>

#define REWIRE_FAKE_API extern "C" __attribute__((visibility("default")))

namespace rewire::fake_cuda {

/// Counts a call. What it must answer at once: an error that a test injected, or that of work which failed
/// before; 0: go on. A function that releases something does so in any case and answers this afterwards.
int enter(const char* call);

/// Whether a test, or $REWIRE_FAKE_CUDA_REFUSE, named this rule: of products that a library is not to take.
bool refuses(const char* rule);

/// Keeps the message for the test to read, and prints it.
void fault(const std::string& message);

/// From now on every call answers `code`, as after a kernel that has crashed.
void break_context(int code);
/// That code; 0: nothing has crashed.
int broken();

}  // namespace rewire::fake_cuda
