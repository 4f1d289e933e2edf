// Engines for the goldens of tests/reference that apply each golden's own plugins.
#pragma once

#include <string>

#include "runtime/plugin/plugin.h"
#include "tests/parity/parity.h"
#include "tests/support/catch.h"
#include "tests/support/slice.h"

namespace rewire::parity {

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

/// In f64 by the evaluator, in f32 compiled.
inline void check_both(const Golden& golden) {
  {
    INFO("the evaluator in f64");
    check_golden(golden, rewriting_evaluator(golden), kExact);
  }
  INFO("compiled, in f32");
  check_golden(golden, compiled(golden), kSingle);
}

/// check_both of the goldens of a family of networks that the slice has, and always of "_decay", which each family has. What
/// a strategy computes is checked with every option by its own test, on a ViT.
inline void check_both_in_slice(const std::string& name) {
  if (name.ends_with("_decay") || testing::slice().takes(name)) check_both(read_golden(name));
}

}  // namespace rewire::parity
