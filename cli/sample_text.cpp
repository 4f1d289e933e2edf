#include "cli/sample_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/json.h"
#include "cli/streams.h"
#include "ir/error.h"
#include "ir/schema.h"
#include "runtime/data/source.h"
#include "runtime/data/text/tokenizer.h"
#include "runtime/exec/make_engine.h"
#include "runtime/measure/generate.h"
#include "runtime/network/run_programs.h"
#include "runtime/network/weights.h"

namespace rewire::cli {
namespace {

std::unique_ptr<const runtime::Tokenizer> tokenizer_of(const TextRequest& request,
                                                       const runtime::Recipe& recipe) {
  std::string name = request.tokenizer;
  const runtime::SourceRow& row = ir::find_row(runtime::sources(), "data.format", recipe.source.name);
  if (name.empty()) {
    const ir::Attributes values = ir::settle(row.schema, recipe.source.values, "data");
    if (values.has("tokenizer")) name = values.get_string("tokenizer");
  }
  if (name.empty())
    user_error(
        "sample: no data.tokenizer is set: add --tokenizer bytes, gpt2:FOLDER, tiktoken:FILE or "
        "sentencepiece:FILE");
  return runtime::make_tokenizer(name);
}

std::vector<std::int32_t> prompt_of(const TextRequest& request, const runtime::Tokenizer& tokenizer) {
  std::vector<std::int32_t> tokens;
  if (!request.prompt.empty()) {
    tokenizer.encode(request.prompt, "--prompt", [&](std::span<const std::int32_t> ids) {
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    });
  } else if (tokenizer.end() >= 0) {
    tokens.push_back(tokenizer.end());
  } else {
    user_error("sample: this tokenizer has no token that ends a document, so that a text needs a --prompt");
  }
  return tokens;
}

/// Returns the bytes at the end of `text` that begin a character of UTF-8 without ending it.
std::size_t open_bytes(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t back = 1; back <= std::min(kLongest, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string TextRequest::given() const {
  const TextRequest off;
  if (!prompt.empty()) return "--prompt";
  if (!tokenizer.empty()) return "--tokenizer";
  if (tokens != off.tokens) return "--tokens";
  if (texts != off.texts) return "--texts";
  if (top_k != off.top_k) return "--top-k";
  if (temperature != off.temperature) return "--temperature";
  if (top_p != off.top_p) return "--top-p";
  if (no_cache) return "--no-cache";
  return json ? "--json" : "";
}

void declare_text(TextRequest& request, Options& options) {
  options.text("--prompt", request.prompt,
               "with next_token: the text to continue; without it a document begins");
  options.integer("--tokens", request.tokens, 1, "with next_token: the most tokens of a text");
  options.integer("--texts", request.texts, 1, "with next_token: number of texts");
  options.number("--temperature", request.temperature, 0,
                 "with next_token: divides the logits; 0 takes the likeliest token");
  options.integer("--top-k", request.top_k, 0,
                  "with next_token: draw from the k likeliest tokens; 0: from all");
  options.number(
      "--top-p", request.top_p, 0,
      "with next_token: draw from the fewest likeliest tokens that have this probability together");
  options.text("--tokenizer", request.tokenizer, "with next_token: the tokenizer, if the run names none");
  options.flag("--no-cache", request.no_cache,
               "with next_token: compute every token from all before it, not from kept keys and values");
  options.flag("--json", request.json, "with next_token: print an object");
}

void sample_text(const TextRequest& request, runtime::TrainedNetwork& trained,
                 const EngineRequest& engine_request, std::uint64_t seed) {
  if (!(request.top_p > 0 && request.top_p <= 1))
    user_error("sample: --top-p {} is not in (0, 1]", request.top_p);
  const runtime::Recipe& recipe = trained.network.recipe;
  const std::string engine_name = engine_of(engine_request);
  const std::unique_ptr<const runtime::Tokenizer> tokenizer = tokenizer_of(request, recipe);
  runtime::GenerateRequest asked{
      .prompt = prompt_of(request, *tokenizer),
      .tokens = request.tokens,
      .end = tokenizer->end(),
      .cached = !request.no_cache,
      .drawing = {
          .temperature = request.temperature, .top_k = request.top_k, .top_p = request.top_p, .seed = seed}};
  const runtime::NetworkSource source = runtime::network_source(trained.network);
  ir::Module module = runtime::make_generate_module(source, asked.cached, trained.epoch, recipe.train.epochs);
  runtime::require_precision(engine_name, module);
  const runtime::TensorMap weights = runtime::read_trained_weights(trained, module);
  runtime::Tuner tuner = runtime::make_tuner(
      engine_name, {trained.run ? runtime::recorded_choices(*trained.run) : runtime::ChoiceRecord(), false});
  std::vector<std::string> programs;
  for (const ir::Function& function : module.functions) {
    if (function.name == "whole" || function.name.starts_with("read_")) programs.push_back(function.name);
  }
  runtime::make_choices(module, programs, tuner);
  const std::unique_ptr<runtime::Engine> engine =
      runtime::make_engine(engine_name, module, {static_cast<int>(recipe.train.threads), tuner.record()});
  runtime::start_state(*engine, module, weights, static_cast<std::uint64_t>(recipe.seed));

  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (std::int64_t number = 0; number < request.texts; ++number) {
    asked.drawing.number = static_cast<std::uint64_t>(number);
    std::string pending = request.prompt, all = request.prompt;
    std::vector<std::int32_t> tokens;
    const auto show = [&](bool last) {
      if (request.json) return;
      const std::size_t open = last ? 0 : open_bytes(pending);
      write_stdout(pending.substr(0, pending.size() - open));
      flush_stdout();
      pending.erase(0, pending.size() - open);
    };
    show(false);
    runtime::generate(*engine, module, asked, [&](std::int32_t token, std::span<const float>) {
      tokens.push_back(token);
      const std::string_view text = tokenizer->text_of(token);
      pending += text;
      all += text;
      show(false);
    });
    pending += "\n";
    if (request.texts > 1 && number + 1 < request.texts) pending += "---\n";
    show(true);
    texts.push_back({{"text", all}, {"tokens", tokens}});
  }
  if (request.json) print_json({{"texts", texts}});
}

}  // namespace rewire::cli
