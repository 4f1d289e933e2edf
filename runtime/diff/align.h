// Compares two texts in SSA form line by line, independent of the numbers of values: an added op changes
// only its own line and the lines that read its result.
//
// Lines are aligned by a longest common subsequence of their texts without the numbers of values. Two
// aligned lines are equal if their operands are: results of counterparts, or arguments of one name.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rewire::runtime {

/// A line, such as "%43 = mul %15, %15 : f32[64,50,192]", and its place.
struct DiffLine {
  std::string text, at;
};

/// A line of both texts (' ', as in the first), of the first alone ('-') or of the second ('+'). In a '+'
/// line, a value has the number of its counterpart in the first text. Counterparts are results of aligned
/// lines, or of ops with one name and place between such lines. A value without a counterpart has its own
/// number with a prime: %43'.
struct EditLine {
  char sign = ' ';
  std::string text, at;
};
std::vector<EditLine> align_lines(const std::vector<DiffLine>& first, const std::vector<DiffLine>& second);

/// Changed lines, with the lines around them.
struct Hunk {
  std::vector<EditLine> lines;
  std::size_t like = 0;  // index of the first hunk that differs in its block only, or of this one
  std::string at;        // the place of the first changed line
};
/// Returns the hunks of an alignment, in order, with `context` lines before and after each.
std::vector<Hunk> hunks_of(const std::vector<EditLine>& lines, std::size_t context);

/// Replaces the number of a block by "*" in a name or place, as the 3 in "blocks.3.attn" and
/// "blocks_3_attn".
std::string of_any_block(const std::string& name);

}  // namespace rewire::runtime
