// write_graduates FILE: writes one plugin that holds the sources of all graduates, each in a namespace of its own. Its
// parameter `which` chooses one.
#include <cstdio>
#include <fstream>
#include <string>

#include "formula/cpp.h"
#include "tests/plugins/formula_graduates.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::string text =
      "#include <rewire_formula.hpp>\n"
      "#pragma push_macro(\"REWIRE_PLUGIN\")\n#undef REWIRE_PLUGIN\n#define REWIRE_PLUGIN(...)\n";
  std::string rewrites, starts;
  const auto& all = rewire::test::graduates();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = "graduate_" + std::to_string(i);
    const std::string source = formula::plugin_source("graduates", all[i]);
    text += "namespace " + name + " {\n" + source + "}\n";
    rewrites += "    " + name + "::rewrite,\n";
    starts += source.find("void initialise(") == std::string::npos ? "    nullptr,\n"
                                                                   : "    " + name + "::initialise,\n";
  }
  text +=
      "#pragma pop_macro(\"REWIRE_PLUGIN\")\n"
      "namespace {\nusing namespace rewire::plugin;\n"
      "constexpr rewire_parameter kParameters[] = {int_parameter(\"which\", \"0\", \"the index\")};\n"
      "constexpr void (*kRewrite[])(const Rewrite&) = {\n" +
      rewrites +
      "};\n"
      "constexpr void (*kInitialise[])(const Initialise&) = {\n" +
      starts +
      "};\n"
      "void rewrite(const Rewrite& call) { kRewrite[call.get_int(\"which\")](call); }\n"
      "void initialise(const Initialise& call) {\n"
      "  if (const auto start = kInitialise[call.get_int(\"which\")]) start(call);\n}\n}\n"
      "REWIRE_PLUGIN(\"graduates\", \"1.0.0\", \"all graduates\", kParameters, rewrite, initialise)\n";
  std::ofstream file(arguments[1]);
  file << text;
  file.close();
  return file ? 0 : 1;
}
