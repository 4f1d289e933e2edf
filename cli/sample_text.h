// rewire sample of a run of language: text after a prompt.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/engine.h"
#include "runtime/run/trained_network.h"

namespace rewire::cli {

struct TextRequest {
  std::string prompt, tokenizer;
  std::int64_t tokens = 200, texts = 1, top_k = 0;
  double temperature = 1, top_p = 1;
  bool no_cache = false, json = false;

  /// Returns the first option that is not at its default; "" if all are.
  std::string given() const;
};

void declare_text(TextRequest& request, Options& options);

/// Prints the texts. Throws UserError if the network is none of language, or has no tokenizer.
void sample_text(const TextRequest& request, runtime::TrainedNetwork& trained, const EngineRequest& engine,
                 std::uint64_t seed);

}  // namespace rewire::cli
