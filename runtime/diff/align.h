// Two texts in SSA form, line by line, whatever their values are numbered: an op that one of them has more changes
// no line but its own and those that read its result.
//
// Lines are aligned by a longest common subsequence of their texts without the numbers of values. Two lines that are
// aligned are the same if their operands are: results of counterparts, or arguments of one name.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rewire::runtime {

/// "%43 = mul %15, %15 : f32[64,50,192]" and its place.
struct DiffLine {
  std::string text, at;
};

/// A line of both texts (' ', as the first has it), of the first alone ('-') or of the second ('+'). In the latter a value
/// has the number of its counterpart in the first text, which is defined by a line that is aligned, or by an op of the same
/// name and place between such lines. One that has none has its own number and a prime: %43'.
struct EditLine {
  char sign = ' ';
  std::string text, at;
};
std::vector<EditLine> align_lines(const std::vector<DiffLine>& first, const std::vector<DiffLine>& second);

/// Lines that changed, with the lines around them.
struct Hunk {
  std::vector<EditLine> lines;
  std::size_t like = 0;  // the first hunk of the list that says the same of another block, or this one
  std::string at;        // the place of the first line that changed
};
/// Those of an alignment, in order; `context` lines before and behind each.
std::vector<Hunk> hunks_of(const std::vector<EditLine>& lines, std::size_t context);

/// A name or place without the number of its block: "blocks.3.attn" and "blocks_3_attn" have "*" in place of 3.
std::string of_any_block(const std::string& name);

}  // namespace rewire::runtime
