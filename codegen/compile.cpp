#include "codegen/compile.h"

#include <chrono>
#include <string>
#include <utility>

#include "codegen/append_maps.h"
#include "codegen/fuse/launches.h"
#include "codegen/fuse/prepare.h"
#include "codegen/lowering_steps.h"
#include "codegen/shared_code.h"
#include "codegen/tables.h"
#include "ir/text.h"

namespace rewire::codegen {
namespace {

/// The state that the lowering passes (kPasses) hand on.
struct State {
  const FuseOptions& options;
  Prepared prepared;  // valid until the pass `launches`
  Program program;    // valid from the pass `launches` on
};

struct Pass {
  std::string_view name;
  void (*run)(State& state);
  bool makes_launches = false;  // from this pass on, the program is printed
};

constexpr Pass kPasses[] = {
    // Rewrites ops until each is part of a kernel, another view of a tensor, or a call.
    {"prepare", [](State& s) { prepare(s.prepared, s.options); }},
    // Forms groups of ops and places values in memory. A group becomes a tile kernel, a call becomes a
    // library call.
    {"launches", [](State& s) { s.program = make_launches(std::move(s.prepared), s.options); }, true},
    // Kernels that end a sum take over the maps that read it (vertical fusion).
    {kAppendMaps,
     [](State& s) {
       if (s.options.fuse && s.options.does(kAppendMaps)) append_maps(s.program);
     },
     true},
    // Kernels that differ only in numbers share one code.
    {kShareCode,
     [](State& s) {
       if (s.options.does(kShareCode)) share_code(s.program);
     },
     true},
    // Merges kernels of one code that do not depend on each other into one launch (horizontal fusion).
    {kTables,
     [](State& s) {
       if (s.options.tables && s.options.does(kTables)) merge_launches(s.program, s.options.grain);
     },
     true},
};

/// Runs passes one by one. Records the time of each in the context, and calls `on_change` if the text
/// changed.
class Observed {
 public:
  Observed(ir::PassContext& context, std::string before) : context_(context), before_(std::move(before)) {}

  template <class Run, class Print>
  void run(std::string_view name, const Run& run, const Print& print) {
    const auto start = std::chrono::steady_clock::now();
    run();
    context_.times.push_back({std::string(name), std::chrono::steady_clock::now() - start});
    if (!context_.on_change) return;
    std::string after = print();
    if (after != before_) context_.on_change(name, after);
    before_ = std::move(after);
  }

 private:
  ir::PassContext& context_;
  std::string before_;
};

Program make_program(const ir::Module& module, const ir::Function& function, const FuseOptions& options,
                     Observed& observed) {
  State state{options, {module, {}}, {}};
  state.prepared.module.functions = {function};
  for (const Pass& pass : kPasses) {
    observed.run(
        pass.name, [&] { pass.run(state); },
        [&] { return pass.makes_launches ? print(state.program) : ir::print(state.prepared.module); });
  }
  return std::move(state.program);
}

}  // namespace

Program lower(const ir::Module& module, const ir::Function& function, const FuseOptions& options) {
  ir::PassContext context;
  Observed observed(context, "");
  return make_program(module, function, options, observed);
}

Compiled compile(const ir::Module& module, const ir::Function& function, const Target& target,
                 ir::PassContext& context) {
  Compiled compiled{module, {}};
  compiled.module.functions = {function};
  context.fourier = target.fourier;
  context.narrow_convolution = target.narrow_convolution;
  context.recompute = target.recompute;
  context.chunk_bytes = target.chunk_bytes;
  ir::run_pipeline(compiled.module, context);

  FuseOptions options = target.fuse;
  options.left_out = context.left_out;
  Observed observed(context, context.on_change ? ir::print(compiled.module) : std::string());
  const std::size_t simplified = context.times.size();
  const auto lowered = [&] {
    context.times.resize(simplified);  // keep only the times of the last try
    return make_program(compiled.module, compiled.module.functions.front(), options, observed);
  };
  Program& program = compiled.program = lowered();
  while (target.accepts && !target.accepts(program, options)) program = lowered();
  if (target.fit_calls)
    observed.run("fit_calls", [&] { target.fit_calls(program); }, [&] { return print(program); });
  return compiled;
}

}  // namespace rewire::codegen
