// Engines for the goldens of tests/reference that apply each golden's own plugins.
#pragma once

#include "runtime/plugin/plugin.h"
#include "tests/parity/parity.h"

namespace rewire::parity {

/// As the evaluator's own parity (tests/parity/parity_test.cpp); the last weights are f32 in the golden.
inline constexpr Tolerance kExact{1e-12, 1e-10, 1e-10, 1e-5};

/// What a backend in f32 is held to.
inline constexpr Tolerance kSingle{1e-5, 1e-4, 1e-4, 1e-3};

/// The evaluator in f64, with the golden's plugins.
inline Backend rewriting_evaluator(const Golden& golden) {
  Backend backend;
  backend.make_engine = [](const ir::Module& module) { return runtime::make_evaluator_engine(module); };
  backend.dtype = ir::DType::f64;
  backend.rewrite = [plugins = golden.plugins](ir::Module& module) {
    std::vector<runtime::PluginHandle> handles;
    for (const std::string& spec : plugins) {
      handles.push_back(runtime::load_plugin(runtime::parse_plugin_spec(spec), {}));
    }
    runtime::apply_plugins(module, handles, 0);
  };
  return backend;
}

/// The compiling engine in f32, with the golden's plugins.
inline Backend compiled(const Golden& golden) {
  Backend backend = rewriting_evaluator(golden);
  backend.dtype = ir::DType::f32;
  backend.make_engine = [](const ir::Module& module) -> std::unique_ptr<runtime::Engine> {
    runtime::JitEngineOptions options;
    options.threads = 2;
    options.check_memory = true;
    return runtime::make_jit_engine(module, options);
  };
  return backend;
}

}  // namespace rewire::parity
