// Completion: what is offered where, and that no code of a plugin runs for it unless that was agreed on.
#include "cli/complete.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "models/model.h"
#include "programs/optimizer.h"
#include "runtime/io/files.h"
#include "runtime/io/sha256.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/trust_list.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::cli {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using Words = std::vector<std::string>;

std::vector<Candidate> offered(const Words& words) {
  static const std::vector<Command> all = commands();
  return complete(all, words);
}

Words words_at(const Words& words) {
  Words result;
  for (const Candidate& candidate : offered(words)) result.push_back(candidate.word);
  return result;
}

std::string doc_of(const Words& words, const std::string& word) {
  for (const Candidate& candidate : offered(words)) {
    if (candidate.word == word) return candidate.doc;
  }
  return "(not offered)";
}

bool offers(const Words& words, const std::string& word) {
  const Words all = words_at(words);
  return std::ranges::find(all, word) != all.end();
}

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

/// Where a user has agreed to nothing yet, and has the plugins of one folder.
class NewUser {
 public:
  NewUser() {
    ::setenv("XDG_DATA_HOME", folder.file("data").c_str(), 1);
    fs::create_directories(plugins);
  }
  ~NewUser() { ::setenv("XDG_DATA_HOME", before_.c_str(), 1); }
  NewUser(const NewUser&) = delete;
  NewUser& operator=(const NewUser&) = delete;

  TemporaryFolder folder;
  std::string plugins = folder.file("data/rewire/plugins");

 private:
  std::string before_ = ::getenv("XDG_DATA_HOME");
};

void agree_to(const std::string& file) {
  runtime::remember_trusted(runtime::sha256_hex(runtime::read_file(file)), file);
}

TEST_CASE("Commands are completed by word, those of two words behind their first") {
  CHECK(words_at({"tr"}) == Words{"train", "trace", "transforms"});
  CHECK(words_at({"dum"}) == Words{"dump"});
  CHECK(offers({""}, "train"));
  CHECK(offers({""}, "data"));
  CHECK_FALSE(offers({""}, "--help"));
  CHECK(words_at({"--v"}) == Words{"--version"});
  CHECK(words_at({"data", "p"}) == Words{"preview", "pack"});
  CHECK(words_at({"plugin", "t"}) == Words{"test"});
  CHECK(words_at({"plugins", "i"}) == Words{"info"});
  CHECK_FALSE(doc_of({"d"}, "dump").empty());
  CHECK(doc_of({"dat"}, "data") == "data info, preview, try, pack, bench");
  CHECK(words_at({"nosuch", ""}).empty());
  CHECK(words_at({}).empty());
}

TEST_CASE("What is rare in a large folder is completed") {
  const TemporaryFolder folder;
  constexpr int kOthers = 2500;
  for (int i = 0; i < kOthers; ++i) std::ofstream(folder.file("other_" + std::to_string(i)));
  for (const char* name : {"wanted_1.toml", "wanted_2.toml"}) std::ofstream(folder.file(name));
  CHECK(offers({"train", folder.file("wanted")}, folder.file("wanted_1.toml")));
  CHECK(offers({"train", folder.file("wanted")}, folder.file("wanted_2.toml")));
}

TEST_CASE("Options are those that the command declares and that do not stand there yet") {
  CHECK(words_at({"dump", "vit", "--st"}) == Words{"--stage"});
  CHECK(words_at({"dump", "vit", "--stage", "ir", "--st"}).empty());
  CHECK(words_at({"dump", "vit", "--set", "a=1", "--se"}) == Words{"--set"});
  CHECK(words_at({"dump", "vit", "--stage", "f"}) == Words{"fused"});
  CHECK(words_at({"dump", "vit", "--stage=f"}) == Words{"--stage=fused"});
  CHECK(words_at({"dump", "--stage", "ir", "vit", "--device", ""}) == Words{"cpu", "cuda"});
  CHECK(words_at({"dump", "vit", "--", "--st"}).empty());
  CHECK(doc_of({"dump", "vit", "--stage", "i"}, "ir") == "the default");
  CHECK(words_at({"dump", "vit", "--json=", ""}).size() > 3);  // there is nothing left but options
  CHECK(words_at({"plugins", "info", "x", "--qu"}) == Words{"--quiet"});
  for (const Command& command : commands()) {
    CAPTURE(command.name);
    Words words = {command.name.substr(0, command.name.find(' '))};
    if (command.name != words[0]) words.push_back(command.name.substr(command.name.find(' ') + 1));
    words.emplace_back("--");
    Words declared;
    for (const OptionInfo& option : declaration_of(command).options) {
      if (!option.is_argument()) declared.push_back(option.name);
    }
    CHECK(words_at(words) == declared);
  }
}

TEST_CASE("Settings are completed by section, key and value, as far as the model has them") {
  CHECK(words_at({"train", "vit", "--set", ""}) == Words{"seed=", "model.", "data.", "transforms.",
                                                         "objective.", "optimizer.", "schedule.", "train.",
                                                         "eval.", "diagnose."});
  CHECK(words_at({"train", "vit", "--set", "train.bat"}) == Words{"train.batch="});
  CHECK(offers({"train", "vit", "--set", "opt"}, "optimizer.lr="));
  CHECK(words_at({"train", "vit", "--set", "train.dtype="}) == Words{"train.dtype=f32", "train.dtype=bf16"});
  CHECK(words_at({"train", "vit", "--set=train.dtype=b"}) == Words{"--set=train.dtype=bf16"});
  Words names;
  for (const std::string& name : ir::row_names(programs::optimizers()))
    names.push_back("optimizer.name=" + name);
  CHECK(words_at({"train", "vit", "--set", "optimizer.name="}) == names);
  CHECK_FALSE(doc_of({"train", "vit", "--set", "train.b"}, "train.batch=").empty());
  // A key is there where it has an effect.
  CHECK_FALSE(offers({"train", "vit", "--set", "optimizer.m"}, "optimizer.momentum="));
  CHECK(
      offers({"train", "vit", "--set", "optimizer.name=sgd", "--set", "optimizer.m"}, "optimizer.momentum="));
  CHECK_FALSE(offers({"train", "vit", "--set", "model."}, "model.embed_dims="));
  CHECK(offers({"train", "pvt", "--set", "model."}, "model.embed_dims="));
  // Sections that a command is about.
  for (const std::string& word : words_at({"data", "info", "x", "--set", ""}))
    CHECK(word.starts_with("data."));
  for (const std::string& word : words_at({"models", "--set", ""})) CHECK(word.starts_with("model."));
}

TEST_CASE("A recipe's own choices decide which keys are offered; one that cannot be read is no harm") {
  const TemporaryFolder folder;
  write(folder.file("a.toml"), "[optimizer]\nname = \"sgd\"\n");
  write(folder.file("bad.toml"), "[optimizer\n");
  CHECK(offers({"train", folder.file("a.toml"), "--set", "optimizer."}, "optimizer.momentum="));
  CHECK_FALSE(offers({"train", folder.file("bad.toml"), "--set", "optimizer."}, "optimizer.momentum="));
  CHECK(offers({"train", folder.file("bad.toml"), "--set", "optimizer."}, "optimizer.lr="));
  REQUIRE(::mkfifo(folder.file("pipe.toml").c_str(), 0600) == 0);
  CHECK(offers({"train", folder.file("pipe.toml"), "--set", "optimizer."}, "optimizer.lr="));
  CHECK(offers({"train", folder.file("none.toml"), "--set", "nonsense", "--set", "seed"}, "seed="));
}

TEST_CASE("Models are recipes, modules and the zoo; files have the endings that are taken") {
  const TemporaryFolder folder;
  for (const char* name : {"a.toml", "b.rir", "c.txt", ".hidden.toml", "sub/d.toml", "with blank.toml"})
    write(folder.file(name), "");
  const std::string base = folder.path().string() + "/";
  CHECK(words_at({"train", base}) ==
        Words{base + "a.toml", base + "b.rir", base + "sub/", base + "with blank.toml"});
  CHECK(words_at({"train", base + ".h"}) == Words{base + ".hidden.toml"});
  CHECK(words_at({"train", base + "s"}) == Words{base + "sub/"});
  CHECK(words_at({"train", base + "sub/"}) == Words{base + "sub/d.toml"});
  CHECK(words_at({"train", base + "none/"}).empty());
  for (const models::Model* model : models::models()) CHECK(offers({"train", ""}, std::string(model->name)));
  CHECK(words_at({"init", "vit", "--output", base}) == Words{base + "sub/"});
  CHECK(words_at({"train", "vit", "--out", base}) == Words{base + "sub/"});
  CHECK(words_at({"dump", "vit", "--override-kernel", "k=" + base + "s"}) == Words{"k=" + base + "sub/"});
  CHECK(std::ranges::all_of(offered({"train", base}), &Candidate::is_path));
}

TEST_CASE("Run folders are told from others, with their checkpoints; those in runs/ come at once") {
  const TemporaryFolder folder;
  const std::string run = folder.file("runs/one"), base = folder.path().string() + "/";
  write(run + "/recipe.toml", "[optimizer]\nname = \"sgd\"\n");
  write(run + "/metrics.jsonl", "");
  write(folder.file("runs/two/recipe.toml"), "");
  write(folder.file("runs/two/metrics.jsonl"), "");
  write(folder.file("runs/two/weights.safetensors"), "");
  write(folder.file("other/x"), "");
  CHECK(words_at({"train", "--resume", base}) == Words{base + "other/", base + "runs/"});
  CHECK(words_at({"train", "--resume", base + "runs/"}) == Words{run, base + "runs/two"});
  CHECK(doc_of({"eval", base + "runs/"}, run) == "a run that can be resumed");
  CHECK(doc_of({"eval", base + "runs/"}, base + "runs/two") == "a complete run");
  CHECK(words_at({"report", run, base + "runs/t"}) == Words{base + "runs/two"});
  CHECK(offers({"train", "--resume", run, "--set", "optimizer."}, "optimizer.momentum="));
  CHECK(words_at({"eval", run, "--checkpoint", ""}) == Words{"last", "best"});
  CHECK(words_at({"analyze", run, "--checkpoint", "a"}) == Words{"all"});

  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  CHECK(words_at({"train", "--resume", ""}) == Words{"runs/one", "runs/two", "other/"});
  fs::current_path(before);
}

TEST_CASE("Plugins are found now; what one can be told is offered where its code may be run") {
  NewUser user;
  CHECK(words_at({"train", "vit", "--plugin", "no"}) == Words{"none"});
  const std::string file = user.plugins + "/mine.so";
  fs::copy_file(REWIRE_FIXTURES "/gain.so", file);
  CHECK(offers({"train", "vit", "--plugin", ""}, "mine"));
  // Of one that nobody has agreed to, the host's own parameters.
  CHECK(doc_of({"train", "vit", "--plugin", "mi"}, "mine").empty());
  CHECK_FALSE(offers({"train", "vit", "--plugin", "mine:"}, "mine:factor="));
  CHECK(offers({"train", "vit", "--plugin", "mine:"}, "mine:layers="));
  CHECK(offers({"train", "vit", "--plugin", "mine:note='a, b',la"}, "mine:note='a, b',layers="));
  CHECK_FALSE(offers({"train", "vit", "--plugin", "mine:note='a, la"}, "mine:note='a, layers="));

  agree_to(file);
  const runtime::PluginInfo info = runtime::inspect_plugin("mine", {});
  CHECK(doc_of({"train", "vit", "--plugin", "mi"}, "mine") == info.doc);
  CHECK(doc_of({"plugins", "info", "m"}, "mine") == info.doc);
  REQUIRE_FALSE(info.parameters.empty());
  for (const ir::ParameterInfo& parameter : info.parameters)
    CHECK(doc_of({"train", "vit", "--plugin", "mine:"}, "mine:" + parameter.name + "=") == parameter.doc);
  const std::string first = info.parameters.front().name + "=", value = "mine:" + first + "1";
  CHECK_FALSE(offers({"train", "vit", "--plugin", value + ","}, value + "," + first));
  CHECK(offers({"train", "vit", "--plugin", value + ",lay"}, value + ",layers="));
  CHECK(offers({"train", "vit", "--plugin", file + ":"}, file + ":" + first));
  CHECK(offers({"train", "vit", "--plugin-path", REWIRE_FIXTURES, "--plugin", ""}, "gain"));
  CHECK(words_at({"train", "vit", "--plugin", user.plugins + "/m"}) == Words{file});
}

TEST_CASE("A formula is completed name by name") {
  CHECK(words_at({"train", "vit_tiny_28", "--join", "x + sig"}) == Words{"x + sigmoid("});
  CHECK(words_at({"train", "vit_tiny_28", "--join=x + prog"}) == Words{"--join=x + progress"});
  CHECK(words_at({"train", "vit_tiny_28", "--join", "x + mean(f, tok"}) == Words{"x + mean(f, tokens"});
  CHECK(words_at({"train", "vit_tiny_28", "--join", "x + tok"}).empty());
  CHECK(words_at({"plugin", "new", "mine", "--join", "x + stop"}) == Words{"x + stop_gradient("});
}

TEST_CASE("No code of a library runs for completion until the user has agreed to run it") {
  NewUser user;
  const std::string file = user.plugins + "/trace.so", trace = user.folder.file("trace");
  fs::copy_file(REWIRE_TRACE_LIBRARY, file);
  ::setenv("REWIRE_TRACE", trace.c_str(), 1);
  CHECK(offers({"train", "vit", "--plugin", "t"}, "trace"));
  offered({"train", "vit", "--plugin", "trace:"});
  offered({"train", "vit", "--plugin", file + ":"});
  offered({"plugin", "test", file + ":"});
  offered({"plugins", "info", ""});
  CHECK_FALSE(fs::exists(trace));
  agree_to(file);  // it leaves a trace, then: the test would see one
  offered({"train", "vit", "--plugin", "trace:"});
  CHECK(fs::exists(trace));
  ::unsetenv("REWIRE_TRACE");
}

TEST_CASE("help offers topics and commands, by word") {
  CHECK(words_at({"help", "rec"}) == Words{"recipes"});
  CHECK(words_at({"help", "data", "t"}) == Words{"try"});
  CHECK(offers({"help", ""}, "data"));
  CHECK(words_at({"completion", ""}) == Words{"bash", "zsh", "fish"});
  CHECK(words_at({"optimizers", "info", "so"}) == Words{"soap"});
}

TEST_CASE("A line is taken apart as the shell does it") {
  const auto check = [](const std::string& line, const Words& words, char quote = 0, std::size_t kept = 0) {
    const ShellWords result = shell_words(line, " \t\n\"'@><=;|&(:");
    CAPTURE(line);
    CHECK(result.words == words);
    CHECK(result.quote == quote);
    CHECK(result.kept == kept);
  };
  check("rewire tr", {"rewire", "tr"});
  check("rewire  train ", {"rewire", "train", ""});
  check("rewire 'a b' c\\ d", {"rewire", "a b", "c d"});
  check("rewire \"a \\\"b", {"rewire", "a \"b"}, '"');
  check("rewire --set=x 'y", {"rewire", "--set=x", "y"}, '\'');
  check("rewire '' ", {"rewire", "", ""});
  check("", {""});
  // bash goes on after a break of words that is not quoted, or after the quote that is open.
  check("rewire p:a=1,b", {"rewire", "p:a=1,b"}, 0, 4);
  check("rewire p\\:a\"=1\"b", {"rewire", "p:a=1b"}, 0, 0);
  check("rewire --set=\"a", {"rewire", "--set=a"}, '"', 6);
  check("rewire a=b c", {"rewire", "a=b", "c"});
}

TEST_CASE("A word is escaped by the quote that is open, so that bash reads it back and runs nothing of it") {
  const std::string word = "a b'c\"d$(e)`f`\\g!h;i{j,k}~é";
  CHECK(shell_escaped(word, 0) == "a\\ b\\'c\\\"d\\$\\(e\\)\\`f\\`\\\\g\\!h\\;i\\{j,k\\}\\~é");
  CHECK(shell_escaped(word, '\'') == "a b'\\''c\"d$(e)`f`\\g!h;i{j,k}~é");
  CHECK(shell_escaped(word, '"') == "a b'c\\\"d\\$(e)\\`f\\`\\\\g\"'!'\"h;i{j,k}~é");
  CHECK(shell_escaped("--set=train.batch=1:2", 0) == "--set=train.batch=1:2");
  for (const char quote : {'\0', '\'', '"'}) {
    const std::string open = quote == 0 ? "" : std::string(1, quote);
    CHECK(shell_words("rewire " + open + shell_escaped(word, quote) + open, "").words.back() == word);
  }
}

}  // namespace
}  // namespace rewire::cli
