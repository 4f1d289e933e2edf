// What the rest of the runtime knows of an engine: a row, which stands with the engine's own files. A new engine is its folder and
// its row in make_engine.cpp; nothing else names a type of its.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/device/environment.h"
#include "runtime/device/probe.h"
#include "runtime/exec/engine.h"
#include "runtime/exec/kernel_override.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// What beside the program decides the bits that an engine computes.
struct EngineFacts {
  std::string target;  // the processor's instructions, or the device
  std::vector<LibraryVersion> libraries;
  Environment environment;  // what of it has a say
};

/// How an engine is opened for a module.
struct EngineOptions {
  int threads = 0;              // that compute, where the engine has threads; 0: usable_cores()
  std::string cache_directory;  // of compiled kernels; "": none
  ChoiceRecord choices = {};    // a tuner's record, for what the engine itself takes from it
  std::vector<KernelOverride> overrides = {};
  bool check_memory = false;  // poisons the gaps of the memory plan and checks them with every run
};

struct EngineRow {
  std::string_view name;
  bool on_cpu;
  /// Why this machine cannot have it, in one line; "": it can. Null: every machine can.
  std::string (*missing)() = nullptr;
  /// For a verified module. Null: the evaluator, which compiles nothing.
  std::unique_ptr<JitEngine> (*open)(const ir::Module&, const EngineOptions&) = nullptr;
  EngineFacts (*facts)();
  /// A module's function "trial", ready to be timed with what the record chooses.
  Trial (*make_trial)(const ir::Module&, const EngineOptions&) = nullptr;
  /// Makes what is to choose once ops are lowered.
  void (*choose_late)(const ir::Module&, const std::vector<std::string>& functions, const EngineOptions&,
                      Tuner&) = nullptr;
};

extern const EngineRow kJitEngineRow, kEvaluatorEngineRow, kCudaEngineRow;

}  // namespace rewire::runtime
