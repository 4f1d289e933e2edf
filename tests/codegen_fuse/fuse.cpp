#include "tests/codegen_fuse/fuse.h"

#include <algorithm>

#include "ir/passes/pass.h"
#include "ir/text.h"

namespace rewire::test {
namespace {

using codegen::Program;

template <class Launch>
int count(const Program& program) {
  return static_cast<int>(
      std::count_if(program.launches.begin(), program.launches.end(),
                    [](const auto& launch) { return std::holds_alternative<Launch>(launch); }));
}

}  // namespace

Program fuse(const std::string& text, bool pipeline, codegen::FuseOptions options) {
  options.tables = false;
  ir::Module module = ir::parse(text, "test.rir");
  if (pipeline) {
    ir::PassContext context;
    ir::run_pipeline(module, context);
  }
  return codegen::lower(module, module.function("main"), options);
}

int kernels(const Program& program) {
  return count<codegen::KernelLaunch>(program);
}
int gemms(const Program& program) {
  return count<codegen::GemmLaunch>(program);
}
int host_calls(const Program& program) {
  return count<codegen::OpCall>(program);
}

int arguments(const Program& program, int kernel, codegen::tile::ArgumentUse use) {
  for (const auto& launch : program.launches) {
    const auto* k = std::get_if<codegen::KernelLaunch>(&launch);
    if (k == nullptr || kernel-- != 0) continue;
    return static_cast<int>(std::count_if(k->kernel.arguments.begin(), k->kernel.arguments.end(),
                                          [&](const auto& a) { return a.use == use; }));
  }
  return -1;
}

std::string module(const std::string& body) {
  return "module @m {\n" + body + "}\n";
}

}  // namespace rewire::test
