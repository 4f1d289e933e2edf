// The text form, `.rir`. print(parse(print(m))) == print(m) byte for byte.
//
//   // a comment runs to the end of the line; comments are not kept
//   module @vit_tiny_28 {
//     attribute dim = 192
//     param @norm.weight : f32[192] {block = 0, decay = false, init = "ones", role = "norm", site = "attn"}
//     state @train.step : i64[] {init = "zeros"}
//
//     func @forward(%x: f32[64,1,28,28]) -> (logits: f32[64,10]) {
//       %0 = param {name = "norm.weight"} : f32[192]
//       %1 = layer_norm %x, %0, %2 {epsilon = 1e-06} : f32[64,49,192] loc("blocks.0.norm1")
//       %o, %l = attention %q, %k, %v {scale = 0.125} : f32[64,3,50,64], f32[64,3,50,1]
//       update %9, %10 {name = "norm.weight"}
//       return logits = %40
//     }
//   }
//
// The printer numbers values in order of definition (%0, %1, …); arguments keep their names. Attributes
// equal to their default are not printed. Doubles print as the shortest text that reads back to the same
// bits, always with '.', 'e', "inf" or "nan" in it.
//
// A name that does not match [A-Za-z_][A-Za-z0-9_.]* is quoted: @"odd name", %"1", {"a b" = 1}. Strings
// escape \" \\ \n \t and \xHH. `param` is trainable, `state` is not. Both take the attributes block, layer,
// decay, init, role, site, average_of, and lr_scale, weight_decay, beta1, beta2 (ir/optimizer_hint.h). init
// is zeros | ones | constant(v) | normal(std) | trunc_normal(std, cut) | uniform(low, high) |
// xavier_uniform. `training` after a function's results makes is_training true in it:
// `func @step() -> () training {`. White space is free, but an op's first operand must be on the op's line.
// ": type" may be omitted if the op infers it; a written type must equal the inferred one.
//
// In a module for any batch, `batch` is the batch's extent where an integer may be, and 4*batch is four times
// as much: `func @forward(%image: f32[batch,3,32,32])`. The reader chooses the number; the printer prints it.
#pragma once

#include <cstdint>

#include <string>
#include <string_view>

#include "ir/module.h"

namespace rewire::ir {

std::string print(const Module& module);
std::string print(const Module& module,
                  const Function& function);  // prints the function alone, indented as in a module

/// A module, and whether its text is for any batch.
struct ParsedModule {
  Module module;
  bool any_batch = false;
};

/// Parses and verifies a module; `batch` takes the place of the batch that the text leaves open. Throws UserError on any fault, with three lines: "file:line:column:
/// message", the source line, a caret. It never crashes, hangs or allocates beyond a small multiple of the
/// text.
ParsedModule parse_for_batch(std::string_view text, std::string_view file_name, std::int64_t batch);
/// Parses a module as parse_for_batch() does, with a batch of 1.
Module parse(std::string_view text, std::string_view file_name = "<text>");

}  // namespace rewire::ir
