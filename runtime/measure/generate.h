// Text of a network of language, one token after the other, by the programs of programs/generate.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/exec/engine.h"

namespace rewire::runtime {

struct Drawing {
  double temperature = 1;  // the logits are divided by it; 0: the largest is taken, the first of a tie
  std::int64_t top_k = 0;  // only the k largest logits can be drawn; 0: all
  double top_p = 1;        // only the fewest of the likeliest tokens that have this probability together
  std::uint64_t seed = 0;
  std::uint64_t number = 0;  // of the text: texts of one seed differ
};

/// Returns the token that is drawn for place `place` of a text. A number in [0, 1) is a function of seed, number and
/// place; it selects from the tokens in descending order of probability.
std::int32_t draw_token(std::span<const float> logits, const Drawing& drawing, std::int64_t place);

struct GenerateRequest {
  std::vector<std::int32_t> prompt = {};  // one token or more
  std::int64_t tokens = 0;                // drawn tokens
  std::int32_t end = -1;                  // stops after this token; -1: none
  bool cached = true;  // keys and values are kept; else every token is computed from all before it
  Drawing drawing = {};
};

/// Passes on each token drawn, with its logits. Of a longer prompt, the last T tokens are read, for a context
/// of T. When the context is full, cached generation goes on from the last T / 2, uncached from the last T. The
/// engine's module has the programs that it asks for. Throws UserError if the prompt is empty, a token is not in
/// the vocabulary, or a logit is not finite.
void generate(Engine& engine, const ir::Module& module, const GenerateRequest& request,
              const std::function<void(std::int32_t token, std::span<const float> logits)>& take);

}  // namespace rewire::runtime
