// The weights of one number that plugins added to joins, under their names.
#include "programs/diagnostic.h"
#include "programs/programs.h"

namespace rewire::programs {

extern const DiagnosticRow kJoinParameters{
    .name = "parameters",
    .doc = "the scalar weights that plugins have added to joins",
    .of_network = [](Observation& seen) {
      for (const std::string& name : trained_parameters(seen.module())) {
        const ir::Parameter& parameter = *seen.module().find_parameter(name);
        if (parameter.role == "join" && parameter.type.elements() == 1)
          seen.add(name, seen.build().reshape(seen.wide(seen.build().param(name)), {}));
      }
    }};

}  // namespace rewire::programs
