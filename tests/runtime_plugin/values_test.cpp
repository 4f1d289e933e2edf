// Specs, values and filters: what is taken, and what is refused with which words.
#include "tests/runtime_plugin/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using runtime::parse_plugin_spec;
using Values = std::vector<std::pair<std::string, std::string>>;

std::string spec_error(const std::string& text) {
  return message_of<UserError>([&] { parse_plugin_spec(text); });
}

TEST_CASE("A spec is a name, or a name with values") {
  CHECK(parse_plugin_spec("gain").name == "gain");
  CHECK(parse_plugin_spec("gain").values.empty());
  const runtime::PluginSpec spec = parse_plugin_spec("./out/gain.so:factor=0.5,sites=attn+mlp,note=a=b");
  CHECK(spec.name == "./out/gain.so");
  CHECK(spec.values == Values{{"factor", "0.5"}, {"sites", "attn+mlp"}, {"note", "a=b"}});
  CHECK(parse_plugin_spec("gain:note=").values == Values{{"note", ""}});
  CHECK(parse_plugin_spec("gain:note=a,  factor=2").values == Values{{"note", "a"}, {"factor", "2"}});
}

TEST_CASE("A value in quotes may hold commas and the other quote") {
  const auto values = [](const std::string& text) { return parse_plugin_spec(text).values; };
  CHECK(values("gain:note=\"a, b\",factor=2") == Values{{"note", "a, b"}, {"factor", "2"}});
  CHECK(values("gain:factor=2,note='say \"a, b\"'") == Values{{"factor", "2"}, {"note", "say \"a, b\""}});
  CHECK(values("gain:note=\"\"") == Values{{"note", ""}});
  CHECK(values("gain:note=it's") == Values{{"note", "it's"}});  // a quote inside is a letter
  CHECK(values("gain:note='a=b:c+d'") == Values{{"note", "a=b:c+d"}});
  CHECK(spec_error("gain:note=\"a, b") ==
        "plugin spec 'gain:note=\"a, b': the quote of 'note' is not closed");
  CHECK(spec_error("gain:note='a'b,factor=2") ==
        "plugin spec 'gain:note='a'b,factor=2': a comma must follow the closing quote of 'note'");
  CHECK_THAT(spec_error("gain:note='a',"), REWIRE_CATCH_CONTAINS("'' is not key=value"));
}

TEST_CASE("A spec that is none is refused") {
  CHECK(spec_error("./a/:b=1") ==
        "plugin spec './a/:b=1' names a folder: write the path of the library in it, or --plugin-path ./a/");
  CHECK(spec_error("") == "plugin spec '' has no name: write name or name:key=value,key=value");
  CHECK_THAT(spec_error(":factor=2"), REWIRE_CATCH_CONTAINS("has no name"));
  CHECK_THAT(spec_error("gain:"), REWIRE_CATCH_CONTAINS("'' is not key=value"));
  CHECK_THAT(spec_error("gain:factor"), REWIRE_CATCH_CONTAINS("'factor' is not key=value"));
  CHECK_THAT(spec_error("gain:factor=2,,power=1"), REWIRE_CATCH_CONTAINS("'' is not key=value"));
  CHECK_THAT(spec_error("gain:=2"), REWIRE_CATCH_CONTAINS("'=2' is not key=value"));
  CHECK_THAT(spec_error("gain:sites=attn,mlp"), REWIRE_CATCH_CONTAINS("join the values of a list by +"));
  CHECK_THAT(spec_error("gain:factor=2,factor=3"), REWIRE_CATCH_CONTAINS("sets 'factor' twice"));
}

TEST_CASE("The values in force are all parameters and all filters") {
  CHECK(runtime::plugin_values(*load("gain", "negate=on,factor=5e-1,layers=0+1,to_epoch=7")) ==
        Values{{"factor", "5e-1"},
               {"power", "1"},
               {"negate", "true"},
               {"slot", "branch"},
               {"note", ""},
               {"sites", "all"},
               {"layers", "0+1"},
               {"stages", "all"},
               {"scope", "encoder"},
               {"from_epoch", "0"},
               {"to_epoch", "7"}});
}

TEST_CASE("The values in force load the same plugin again") {
  const Values values = runtime::plugin_values(*load("gain", "slot=path,sites=attn+mlp,from_epoch=2"));
  const runtime::PluginHandle again = runtime::load_plugin({fixture_path("gain"), values}, {});
  CHECK(runtime::plugin_values(*again) == values);
}

TEST_CASE("A boolean is true, 1, on, false, 0 or off") {
  const auto negate = [](const std::string& text) {
    return runtime::plugin_values(*load("gain", "negate=" + text)).at(2).second;
  };
  for (const char* text : {"true", "1", "on"}) CHECK(negate(text) == "true");
  for (const char* text : {"false", "0", "off"}) CHECK(negate(text) == "false");
  CHECK(load_error("gain", "negate=yes") == "plugin 'gain': negate=yes is not a bool: it takes a bool");
}

TEST_CASE("An unknown parameter gets the nearest match") {
  CHECK(load_error("gain", "facto=2") ==
        "plugin 'gain': it has no parameter 'facto' (did you mean 'factor'?); `rewire plugins info " +
            fixture_path("gain") + "` lists them");
  CHECK_THAT(load_error("gain", "layer=2"), REWIRE_CATCH_CONTAINS("did you mean 'layers'?"));
}

TEST_CASE("A value of the wrong kind or out of range is refused with the range") {
  CHECK(load_error("gain", "factor=11") ==
        "plugin 'gain': factor=11 is out of range: it takes a float 0 to 10");
  CHECK(load_error("gain", "factor=-0.1") ==
        "plugin 'gain': factor=-0.1 is out of range: it takes a float 0 to 10");
  CHECK(load_error("gain", "factor=fast") ==
        "plugin 'gain': factor=fast is not a finite float: it takes a float 0 to 10");
  for (const char* text : {"nan", "inf", "1e999", "2x", "", " 2", "0x2"}) {
    CAPTURE(text);
    CHECK_THAT(load_error("gain", std::string("factor=") + text),
               REWIRE_CATCH_CONTAINS("is not a finite float"));
  }
  CHECK(load_error("gain", "power=0") == "plugin 'gain': power=0 is out of range: it takes an int >= 1");
  CHECK(load_error("gain", "power=1.5") == "plugin 'gain': power=1.5 is not an int: it takes an int >= 1");
  CHECK_THAT(load_error("gain", "power=99999999999999999999"), REWIRE_CATCH_CONTAINS("is not an int"));
  CHECK(load_error("gain", "slot=brunch") ==
        "plugin 'gain': slot=brunch is unknown: it takes one of "
        "branch|shortcut|path|cleared|untouched|facts (did you mean 'branch'?)");
}

TEST_CASE("The bounds themselves are taken") {
  CHECK_NOTHROW(load("gain", "factor=0"));
  CHECK_NOTHROW(load("gain", "factor=10,power=1"));
}

TEST_CASE("A filter that no model could have is refused") {
  CHECK(load_error("gain", "sites=atn") ==
        "plugin 'gain': sites=atn: 'atn' is not a site (did you mean 'attn'?): it takes all, or some of "
        "attn+mlp+conv");
  for (const char* layers : {"", "x", "-1", "1-", "3-2", "0++1", "1.5", "0-1-2"}) {
    CAPTURE(layers);
    CHECK_THAT(load_error("gain", std::string("layers=") + layers),
               REWIRE_CATCH_CONTAINS("is not a block or range of blocks, such as 3 or 4-5"));
  }
  CHECK_THAT(load_error("gain", "scope="), REWIRE_CATCH_CONTAINS("is not the name of a part of a model"));
  CHECK_THAT(load_error("gain", "from_epoch=-1"), REWIRE_CATCH_CONTAINS("it takes an int >= 0"));
  CHECK_THAT(load_error("gain", "to_epoch=soon"),
             REWIRE_CATCH_CONTAINS("it takes an int > from_epoch, or end"));
  CHECK_THAT(load_error("gain", "from_epoch=3,to_epoch=3"),
             REWIRE_CATCH_CONTAINS("from_epoch=3 and to_epoch=3 leave no epoch"));
}

}  // namespace
}  // namespace rewire::test
