#include "tests/ir_passes/goldens.h"

#include <fstream>
#include <iterator>

#include "ir/passes/dce.h"
#include "ir/text.h"
#include "tests/support/catch.h"

namespace rewire::ir {

Module load_golden(std::string_view name) {
  const std::string path = IR_PASSES_GOLDENS "/" + std::string(name) + ".rir";
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  return parse(std::string(std::istreambuf_iterator<char>(stream), {}), path);
}

std::string text_of(const Module& module, std::string_view function_name) {
  Module copy = module;
  PassContext context;
  dce(copy, context);
  const std::string text = print(copy, copy.function(function_name));
  return text.substr(text.find('('));
}

}  // namespace rewire::ir
