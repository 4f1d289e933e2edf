// Plugin specs, and what stands where a plugin's library should.
#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

Words with_plugin(const std::string& spec) {
  return Words{"dump"} + kModel + Words{"--stage", "rewritten", "--quiet", "--plugin", spec};
}

void add_specs(std::vector<Case>& cases) {
  Table table(cases, "plugin spec");
  const std::string gain = plugin_file("gain");
  table.row("sound", with_plugin(gain + ":factor=0.5"), {}, fine());
  const auto refuse = [&](const std::string& spec, const std::string& phrase) {
    table.row((spec.starts_with(gain) ? "gain" + spec.substr(gain.size()) : spec).substr(0, 60),
              with_plugin(spec), {}, refused(phrase));
  };
  for (const char* spec : {":", ":a=1", "/", "./", "//", "@/", ":=", "::"}) refuse(spec, "plugin");
  for (const char* spec : {"nothing", "Gain", "gain.so", "..", ".", "none:a=1", "none,none", "gain gain", "-",
                           "--", "\x1b[2J", "\xff\xfe", "a\nb", "a\tb", "\xe2\x80\xae", "\xc2\x9b"})
    refuse(spec, "plugin");
  for (const char* values : {":",
                             ":factor",
                             ":=1",
                             ":factor=",
                             ":,",
                             ":factor=1,",
                             ":,factor=1",
                             ":factor=1,,power=1",
                             ":factor=1,factor=2",
                             ":factr=1",
                             ":factor=1=2",
                             ":FACTOR=1",
                             ": factor=1",
                             ":factor =1",
                             ":factor=nan",
                             ":factor=inf",
                             ":factor=-1",
                             ":factor=11",
                             ":factor=1e999",
                             ":factor=0x1",
                             ":factor=1,5",
                             ":factor=one",
                             ":power=0",
                             ":power=1.5",
                             ":power=9223372036854775808",
                             ":power=-9223372036854775808",
                             ":negate=2",
                             ":negate=yes",
                             ":negate=",
                             ":slot=none",
                             ":slot=",
                             ":slot=BRANCH",
                             ":sites=none",
                             ":sites=",
                             ":sites=attn+",
                             ":sites=attn+attn+x",
                             ":sites=conv",
                             ":layers=-1",
                             ":layers=1-0",
                             ":layers=0-",
                             ":layers=a",
                             ":layers=",
                             ":layers=0-9223372036854775807",
                             ":layers=99999999999999999999",
                             ":layers=7",
                             ":scope=",
                             ":scope=none",
                             ":scope=A",
                             ":from_epoch=-1",
                             ":from_epoch=x",
                             ":from_epoch=9223372036854775808",
                             ":to_epoch=0",
                             ":to_epoch=-1",
                             ":to_epoch=",
                             ":from_epoch=2,to_epoch=1",
                             ":factor=\x1b[2J",
                             ":\x1b[2J=1",
                             ":factor=\xff",
                             ":slot=\xe2\x80\xae",
                             ":factor=a\nb"})
    refuse(gain + values, "plugin");
  refuse(gain + ":factor=" + std::string(100'000, '1'), "plugin");
  refuse(gain + ":" + std::string(100'000, 'k') + "=1", "plugin");
  refuse(std::string(100'000, 'n'), "plugin");
  refuse("/" + std::string(100'000, 'n'), "plugin");
  table.row("30,000 values",
            with_plugin(gain + ":" +
                        [] {
                          std::string text = "factor=1";
                          for (int i = 0; i < 10'000; ++i) text += ",k" + std::to_string(i) + "=1";
                          return text;
                        }()),
            {}, refused("plugin"));
  table.row("the same claim twice", with_plugin(gain) + Words{"--plugin", gain}, {},
            refused("plugin 'gain'"));
  table.row("none beside another", with_plugin(gain) + Words{"--plugin", "none"}, {}, refused("none"));
}

void add_libraries(std::vector<Case>& cases) {
  const std::string file = "p.so";
  Table table(cases, "plugin file", with_plugin("@/p.so"), {copy(plugin_file("gain"), file)});
  table.row("sound", {}, fine());
  const Expectation no = refused("cannot load plugin '@/p.so'");
  add_odd_files(table, file, Origin::folder, no);
  add_lost_links(table, file, no);
  const std::size_t size = read_bytes(plugin_file("gain")).size();
  add_cuts(table, file, size / 2, 12, no);  // its second half is what no segment loads, in part
  constexpr std::size_t kIdent = 7;         // the magic, the class, the order of bytes, the version
  add_flips(table, file, 0, kIdent, 7, no);
  table.row("a text", {put(file, "int main() {}")}, no);
  table.row("an ELF header alone", {cut(file, 64)}, no);
  table.row("a program", {copy("/bin/true", file)}, no);
  table.row("a library that is no plugin", {copy(plugin_file("no_symbol"), file)}, no);
  table.row("of another ABI", {copy(plugin_file("newer_major"), file)}, no);
  table.row("anybody may write to it", {forbid(file, 0666)}, no);
  table.row("anybody may write to its folder", {forbid(".", 0777)}, no);
  table.row("the group may write to it", {forbid(file, 0660)}, no);
  table.row("the group may write to its folder", {forbid(".", 0770)}, no);
  table.row("a link into a folder where anybody may write",
            {put("open/x", ""), copy(plugin_file("gain"), "open/p.so"), forbid("open", 0777),
             become_link(file, "open/p.so")},
            no);
  table.row("a link that stands where anybody may write", with_plugin("@/open/l.so"),
            {put("open/x", ""), become_link("open/l.so", "../p.so"), forbid("open", 0777)},
            refused("cannot load plugin '@/open/l.so'"));
  table.row("below a folder where anybody may write", with_plugin("@/open/in/p.so"),
            {copy(plugin_file("gain"), "open/in/p.so"), forbid("open", 0777)},
            refused("cannot load plugin '@/open/in/p.so'"));
  // What a network's files may not do: name code.
  const std::string recipe = "[model]\nname = \"vit_tiny_28\"\n[[plugin]]\nname = \"./p.so\"\n";
  table.row("a recipe beside it names it", {"dump", "@/r.toml", "--quiet"}, {put("r.toml", recipe)},
            refused("p.so", "--trust"));
  table.row("a run that names it", {"eval", "@/run", "--quiet"},
            {copy(good().file("run"), "run"), extend("run/recipe.toml", "\n[[plugin]]\nname = \"./p.so\"\n")},
            refused("p.so", "--trust"));
  table.row("a run that names it, gone on with", {"train", "--resume", "@/run", "--quiet"},
            {copy(good().file("run"), "run"), extend("run/recipe.toml", "\n[[plugin]]\nname = \"./p.so\"\n")},
            refused("p.so", "--trust"));
  for (const char* act :
       {"throw",          "throw_int",         "nonsense_op",    "no_op_name",    "forbidden_op",
        "wrong_operands", "unknown_attribute", "huge_type",      "rank_nine",     "wrong_shape",
        "wrong_dtype",    "later_value",       "no_value",       "kept_value",    "kept_call",
        "other_thread",   "no_such_join",      "claim_twice",    "weight_twice",  "weight_name",
        "weight_int",     "weight_fan",        "unknown_weight", "not_in_schema", "other_kind",
        "ignored_error",  "write_in_rewrite",  "status",         "raw_throw",     "throw_lines",
        "raw_lines"}) {
    Expectation answer = refused("misbehave");
    if (std::string_view(act) == "throw_lines") answer.lines = 3;  // its message has as many
    table.row(std::string("that misbehaves: ") + act, with_plugin(plugin_file("misbehave") + ":act=" + act),
              {}, answer);
  }
}

}  // namespace

void add_plugin_cases(std::vector<Case>& cases) {
  add_specs(cases);
  add_libraries(cases);
}

}  // namespace rewire::test
