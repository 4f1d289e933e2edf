// Layers of language models, beside those of models/layers.h. x is [batch, tokens, width].
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/schema.h"
#include "models/layers.h"

namespace rewire::models {

/// Reads rows of an embedding table: `weight` [words, width], which starts normal with deviation `std`.
struct Embedding {
  ir::Value rows;   // [batch, tokens, width]
  ir::Value table;  // [words, width]
};
Embedding embed(Layers& layers, std::string_view name, ir::Value tokens, std::int64_t words,
                std::int64_t width, double std);

/// [batch, tokens, heads width] -> [batch, heads, tokens, width], and back.
ir::Value split_heads(ir::Builder& builder, ir::Value x, std::int64_t heads);
ir::Value merge_heads(ir::Builder& builder, ir::Value x);

/// What a token sees of the tokens up to itself.
struct Sight {
  std::int64_t window = 0;   // the last `window`, itself among them; 0: all
  ir::Value documents = {};  // i32 [batch, tokens]: those of its own document; invalid: of all
};
/// Returns the sight by the options `window`, `documents` and `context`; adds the argument `documents` if it is asked for.
Sight sight_of(ir::Builder& builder, const ir::Attributes& options, std::int64_t batch);

/// Returns the attention of each token to what it sees, by 1 / sqrt(width): q [batch, heads, tokens, width], k and v with
/// as many heads or a divisor of them.
ir::Value causal_attention(ir::Builder& builder, ir::Value q, ir::Value k, ir::Value v, const Sight& sight);

/// Value embeddings (nanochat, public training code, 2026): every other block, the last among them, has a table of its
/// own, of which a token's row is added to its values.
class ValueEmbeddings {
 public:
  /// Adds the tables `value_embeds.<block>`, with the values' `heads` and their `width`, that the option
  /// `value_embeddings` asks for.
  ValueEmbeddings(Layers& layers, const ir::Attributes& options, ir::Value tokens, std::int64_t heads,
                  std::int64_t width);
  /// Returns v + 3 sigmoid(ve_gate z) e, or v in a block without a table. v and the rows e are [batch, heads, tokens,
  /// width]; the gate has a number per head and reads the first 12 channels of the branch's input z.
  ir::Value add_to(ir::Value v, ir::Value z, std::int64_t block) const;

 private:
  Layers& layers_;
  std::vector<ir::Value> rows_;  // by block; invalid: it has no table
};

/// Returns cap tanh(logits / cap) (Gemma 2); with cap 0 the logits.
ir::Value capped(ir::Builder& builder, ir::Value logits, double cap);

/// Throws UserError unless the heads divide the width.
void check_heads(std::int64_t dim, std::int64_t heads);

ir::ParameterSpec vocab_parameter(std::int64_t default_value);
ir::ParameterSpec context_parameter(std::int64_t default_value);
ir::ParameterSpec window_parameter();
ir::ParameterSpec documents_parameter();
ir::ParameterSpec softcap_parameter();
ir::ParameterSpec value_embeddings_parameter();
ir::ParameterSpec dropout_parameter();

}  // namespace rewire::models
