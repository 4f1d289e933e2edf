// Programs that read a text token by token, made of any network of language: forward(tokens i32|i64[1, T]) -> (logits
// [1, T, words]).
//
//   whole(tokens [1, T], position i32[]) -> (logits f32[words])
//       the logits after token `position`, by all of forward
//   read_N(tokens [1, N], position i32[], last i32[]) -> (logits f32[words])
//       reads N tokens that follow `position` earlier ones; the logits after token `last` of these. Keys and values of
//       earlier tokens are in states "cache.I.keys" and "cache.I.values" [1, heads, T, width]; those of the N tokens
//       are added to them. Tokens after `last` may be anything: the next call begins at position + last + 1.
//
// read_N is forward with T replaced by N. That is right if each op but causal attention computes a token's result from
// that token alone, which is true of joins, norms and products of any residual strategy over channels. The rule of each
// op says along which axis of its result the tokens are; constants and weights of T tokens, such as positions, are read
// at `position`.
#pragma once

#include <cstdint>

#include "ir/module.h"

namespace rewire::programs {

/// Adds `whole`. Throws UserError if forward does not take tokens [1, T] alone or gives no logits [1, T, words].
void add_whole_program(ir::Module& module);

/// Returns the tokens of a prompt to read at once: 64, or all T if these are fewer.
std::int64_t prompt_tokens(const ir::Module& module);

/// Adds `read_<count>`. Throws UserError with the op's place if an op mixes tokens.
void add_read_program(ir::Module& module, std::int64_t count);

}  // namespace rewire::programs
