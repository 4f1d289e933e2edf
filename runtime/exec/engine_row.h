// An engine as the rest of the runtime knows it: a row, kept with the engine's own files. A new engine is
// its folder and its row in make_engine.cpp; no other file names its types.
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
#include "runtime/exec/others_updates.h"
#include "runtime/exec/tune/choice_record.h"
#include "runtime/exec/tune/tuner.h"

namespace rewire::runtime {

/// The facts besides the program that decide the bits of an engine's results.
struct EngineFacts {
  std::string target;  // the processor's instructions, or the device
  std::vector<LibraryVersion> libraries;
  Environment environment;  // the variables that affect results
};

/// The caller's settings of an engine.
struct EngineSettings {
  int threads = 0;                             // compute threads, if the engine has any; 0: usable_cores()
  ChoiceRecord choices = {};                   // a tuner's record, for the engine's own choices
  std::vector<KernelOverride> overrides = {};  // for a GPU's kernels
  StatesOfOthers others = {};  // this process neither updates nor, as far as they are absent, has them
};

/// Options for opening an engine.
struct EngineOptions : EngineSettings {
  std::string cache_directory;  // for compiled kernels; "": none
  bool check_memory = false;    // poisons memory and checks the gaps of the memory plan in every run
};

struct EngineRow {
  std::string_view name;
  bool on_cpu;
  /// Returns in one line why this machine cannot have the engine; "": it can. Null: every machine can.
  std::string (*missing)() = nullptr;
  /// Opens the engine for a verified module. Null: the evaluator, which compiles nothing.
  std::unique_ptr<JitEngine> (*open)(const ir::Module&, const EngineOptions&) = nullptr;
  EngineFacts (*facts)();
  /// Takes the device of this number or UUID; "": the first. Throws UserError if there is none. Null: there is nothing to
  /// choose.
  void (*choose_device)(std::string_view which) = nullptr;
  /// Chooses this rank's device; all ranks call it, before anything else of the engine. Throws UserError if a host has more
  /// ranks than devices. Null: there is nothing to choose.
  void (*share_devices)(Group&) = nullptr;
  /// Makes a module's function "trial" ready to be timed with the record's choices.
  Trial (*make_trial)(const ir::Module&, const EngineOptions&) = nullptr;
  /// Makes the choices that remain once ops are lowered.
  void (*choose_late)(const ir::Module&, const std::vector<std::string>& functions, const EngineOptions&,
                      Tuner&) = nullptr;
};

extern const EngineRow kJitEngineRow, kEvaluatorEngineRow, kCudaEngineRow;

}  // namespace rewire::runtime
