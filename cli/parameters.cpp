#include "cli/parameters.h"

#include "cli/streams.h"

namespace rewire::cli {

void print_parameter(const ir::ParameterInfo& parameter) {
  print("  {:<12} {} = {}{}{}\n      {}\n", parameter.name, parameter.type,
        parameter.default_value.empty() ? "\"\"" : parameter.default_value,
        parameter.range.empty() ? "" : "   ", parameter.range, parameter.doc);
}

nlohmann::ordered_json parameter_json(const ir::ParameterInfo& parameter) {
  return {{"name", parameter.name},
          {"type", parameter.type},
          {"default", parameter.default_value},
          {"range", parameter.range},
          {"doc", parameter.doc}};
}

}  // namespace rewire::cli
