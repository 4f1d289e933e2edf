// rewire data on tokens and text: what is said of them, and the files of tokens that are written.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/io/files.h"
#include "tests/cli/fixture.h"
#include "tests/support/catch.h"

namespace rewire::test {
namespace {

using nlohmann::json;

TEST_CASE("data info counts the tokens of a text, and says how often the frequent ones come") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  write_text(path, "a bit of text, a bit more of it\n");
  const Words words = {"data", "info", path, "--set", "data.validation_fraction=0.25"};
  const Outcome outcome = rewire_command(words);
  CHECK(outcome.code == 0);
  CHECK(outcome.out ==
        path + ": text\ntrain: " + path +
            "\n"
            "  tokens      24\n"
            "  documents   1\n"
            "  bytes       24, 1.000 per token\n"
            "  vocabulary  12 different ids from 32 to 120, of 257\n"
            "  frequent    32 ' ': 6, 116 't': 4, 97 'a': 2, 98 'b': 2, 105 'i': 2, 111 'o': 2, 44 ',': 1, "
            "101 'e': 1, "
            "102 'f': 1, 109 'm': 1\n"
            "  text        32 bytes in 1 document, both splits together\n"
            "  SHA-256     6ce501484e4788b127a7548bba642106f4a96bb751f244b4700c5df3dc9b520b\n"
            "test: " +
            path +
            "\n"
            "  tokens      9\n"
            "  documents   1\n"
            "  bytes       8, 0.889 per token\n"
            "  vocabulary  8 different ids from 10 to 256, of 257\n"
            "  frequent    32 ' ': 2, 10 '\\x0a': 1, 101 'e': 1, 102 'f': 1, 105 'i': 1, 111 'o': 1, 116 "
            "'t': 1, "
            "256: 1\n"
            "  text        32 bytes in 1 document, both splits together\n"
            "  SHA-256     6ce501484e4788b127a7548bba642106f4a96bb751f244b4700c5df3dc9b520b\n");
  const json object = json::parse(rewire_command(words + Words{"--json"}).out);
  CHECK(object.at("format") == "text");
  CHECK(object.at("splits")[0].at("tokens") == 24);
  CHECK(object.at("splits")[0].at("frequent")[0] == json{{"id", 32}, {"count", 6}, {"text", " "}});
  CHECK(object.at("splits")[1].at("text") == json{{"documents", 1}, {"bytes", 32}});
}

TEST_CASE("data pack writes a text's tokens, which data info finds again") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt"), output = folder.file("tokens");
  write_text(path, "0123456789");
  const Outcome packed = rewire_command({"data", "pack", path, "--format", "text", "--output", output});
  CHECK(packed.code == 0);
  CHECK(packed.out ==
        output + "/train.bin  9 tokens, 0.0 MB\n" + output +
            "/val.bin  2 tokens, 0.0 MB\n257 ids; train on them with data.format=tokens data.path=" + output +
            "\n");
  const json object = json::parse(rewire_command({"data", "info", output, "--json"}).out);
  CHECK(object.at("format") == "tokens");
  CHECK(object.at("splits")[0].at("tokens") == 9);
  CHECK(object.at("splits")[0].at("types") == json{"uint16"});
  CHECK(object.at("splits")[1].at("max") == 256);
  const Outcome whole =
      rewire_command({"data", "pack", path, "--format", "text", "--output", folder.file("whole"), "--tokens",
                      "shards", "--set", "data.validation_fraction=0"});
  CHECK(whole.code == 0);
  CHECK(std::filesystem::file_size(folder.file("whole/tokens_train_000000.bin")) == 1024 + 22);
  CHECK_FALSE(std::filesystem::exists(folder.file("whole/tokens_val_000000.bin")));
}

const Words kTinyGpt = {"gpt2_nano",      "--set", "model.depth=1",    "--set", "model.dim=16",  "--set",
                        "model.heads=2",  "--set", "model.context=8",  "--set", "train.batch=4", "--set",
                        "train.epochs=1", "--set", "train.max_steps=2"};

TEST_CASE("A language model trains on text, and knows its bits per byte if it knows the tokenizer") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i * 37 % 100) + "\n";
  write_text(folder.file("x.txt"), text);
  const auto evaluated = [&](const std::string& run, const Words& data) {
    const Outcome outcome = rewire_command(Words{"train"} + kTinyGpt + data +
                                           Words{"--out", folder.file(run), "--json", "--quiet"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    return json::parse(outcome.out);
  };
  const json of_text =
      evaluated("text", {"--set", "data.format=text", "--set", "data.path=" + folder.file("x.txt")});
  CAPTURE(of_text.dump());
  CHECK(of_text.at("bits_per_byte") > 0);
  CHECK(of_text.at("perplexity").get<double>() ==
        Approx(std::exp(of_text.at("test_loss").get<double>())).epsilon(1e-12));
  REQUIRE(rewire_command(
              {"data", "pack", folder.file("x.txt"), "--format", "text", "--output", folder.file("tokens")})
              .code == 0);
  const Words tokens = {"--set", "data.format=tokens", "--set", "data.path=" + folder.file("tokens")};
  const json of_tokens = evaluated("unknown", tokens);
  CHECK_FALSE(of_tokens.contains("bits_per_byte"));
  // From a file of these ids the loss is equal; with their tokenizer, so are the bits per byte.
  const json of_known = evaluated("known", tokens + Words{"--set", "data.tokenizer=bytes"});
  CHECK(of_known.at("bits_per_byte") == of_text.at("bits_per_byte"));
  CHECK(of_tokens.at("test_loss") == of_text.at("test_loss"));
}

TEST_CASE("data preview prints the windows of a batch with the ends of documents") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += static_cast<char>('a' + i % 26);
  write_text(folder.file("x.txt"), text);
  const Words words = Words{"data", "preview"} + kTinyGpt +
                      Words{"--set", "data.format=text",     "--set", "data.path=" + folder.file("x.txt"),
                            "--set", "data.order=sequential"};
  CHECK(rewire_command(words + Words{"--images", "2"}).out ==
        "=== train 0 of batch 0, epoch 0 ===\nabcdefgh\n=== train 1 of batch 0, epoch 0 ===\nijklmnop\n");
  CHECK(rewire_command(words + Words{"--split", "test", "--images", "1"}).out ==
        "=== test 0 of batch 0, epoch 0 ===\ncdefgh\n--- 2 positions of padding ---\n");
  const json object =
      json::parse(rewire_command(words + Words{"--batch", "1", "--images", "1", "--json"}).out);
  CHECK(object == json{{"split", "train"}, {"epoch", 1}, {"batch", 0}, {"windows", {"abcdefgh\n"}}});
  CHECK(rewire_command(words + Words{"--output", folder.file("x.png")}).err ==
        "rewire: data preview: windows of text are printed: leave out --output\n");
  CHECK(rewire_command(words + Words{"--split", "test", "--batch", "1"}).err ==
        "rewire: data preview: --batch 1: the test split has 1 batches of 1 windows, counted from 0\n");
}

TEST_CASE("data info says once that documents without text are left out") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("d"));
  write_text(folder.file("d/a.txt"), "some text");
  write_text(folder.file("d/b.txt"), "");
  const Outcome outcome = rewire_command({"data", "info", folder.file("d"), "--format", "text"});
  CHECK(outcome.code == 0);
  const std::string line =
      folder.file("d") + ": 1 of 2 documents without text left out, the first is " + folder.file("d/b.txt");
  CHECK_THAT(outcome.err, REWIRE_CATCH_CONTAINS(line));
  CHECK(outcome.err.find(line) == outcome.err.rfind(line));
}

TEST_CASE("What the data commands are asked of tokens in vain is refused in one line") {
  const TemporaryFolder folder;
  const auto refused = [](const Words& words) {
    const Outcome outcome = rewire_command(Words{"data"} + words);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(refused({"info"}) == "rewire: data info: give PATH, or --format text to examine the default text\n");
  CHECK(refused({"pack", "--output", folder.file("y")}) ==
        "rewire: data pack: give PATH, the folder of images\n");
  CHECK(refused({"pack", "x", "--output", folder.file("y"), "--set", "data.tokenizer=bytes"}) ==
        "rewire: data pack: --set has no effect without --format text\n");
  CHECK_THAT(refused({"pack", "--format", "text", "--output", folder.file("y"), "--set", "data.dtype=uint8"}),
             REWIRE_CATCH_CONTAINS("data.dtype"));
  write_text(folder.file("x.txt"), "text");
  CHECK_THAT(refused({"info", folder.file("x.txt"), "--set", "data.tokenizer=bpe"}),
             REWIRE_CATCH_CONTAINS("data.tokenizer=bpe is unknown: it takes bytes, gpt2:FOLDER, "));
  CHECK_THAT(refused({"preview", "vit_tiny_28", "--set", "data.format=synthetic"}),
             REWIRE_CATCH_CONTAINS("data preview: give the PNG file to write: --output FILE"));
  CHECK_THAT(
      refused({"preview", "vit_tiny_28", "--set", "data.format=text", "--set",
               "data.path=" + folder.file("x.txt")}),
      REWIRE_CATCH_CONTAINS("the data are tokens, but the network takes no tokens i32[batch,context]"));
}

}  // namespace
}  // namespace rewire::test
