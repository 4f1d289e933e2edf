// What a test asks the fake libraries, beside their ABI. Each function is found by dlsym in the library that
// $REWIRE_CUDA_DRIVER names; a process has one of each.
#pragma once

namespace rewire::fake_cuda {

struct Controls {
  /// Forgets counts, faults, traces and what was to fail. What is allocated stays.
  void (*reset)();
  /// The `nth` call (from 1) of `call` from now on answers `code`. "" and 0: none does.
  void (*fail)(const char* call, long nth, int code);
  /// How often `call` was called since the last reset.
  long (*calls)(const char* call);
  /// Everything called since then, a name a line, in the order of the first calls.
  const char* (*called)();
  /// Handles and allocations that live, a line each; "": none.
  const char* (*live)();
  /// What was done wrong since the last reset, a line each; "": nothing.
  const char* (*faults)();
  /// The work that ran since the last reset, "stream 1: label" a line.
  const char* (*trace)();
  /// When work runs: 0: as late as a caller's waiting allows; else drawn from this seed among all that could
  /// run.
  void (*order)(unsigned long seed);
  /// Which products cuBLASLt has no algorithm for, and cuFFT no plan (fft: for none), until the next reset,
  /// rules with a space between them:
  /// bias (with that epilogue), gelu (with either of its epilogues), gelu_gradient (with that one), repeat (a
  /// batch stride of 0), batch (several at once), misaligned (16-bit columns that do not begin at multiples
  /// of 16 bytes), workspace (with less than 64 MiB of it), all; unsteady refuses nothing, but the last bits
  /// of a product differ from one run to the next. And what cuDNN refuses: attention (its
  /// graph), attention_gradient (that of a gradient), attention_engine (its heuristic knows none),
  /// attention_plan (that of any engine); convolution, convolution_engine and convolution_plan alike,
  /// convolution_bf16, convolution_plan_4 (that of the engine 4 of dnn_engines.h).
  void (*refuse)(const char* rules);
};

}  // namespace rewire::fake_cuda
