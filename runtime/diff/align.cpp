#include "runtime/diff/align.h"

#include <algorithm>
#include <dtl/dtl.hpp>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace rewire::runtime {
namespace {

/// Position of a value in a line.
struct ValueAt {
  std::size_t begin, end;
  bool defined;
};

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         c == '\'';
}

std::size_t end_of_quoted(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

std::vector<ValueAt> values_in(std::string_view text) {
  std::vector<ValueAt> values;
  bool defining = text.starts_with('%') && text.find(" = ") != std::string_view::npos;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = end_of_quoted(text, at);
    } else if (text[at] == '%') {
      std::size_t end = at + 1;
      if (end < text.size() && text[end] == '"') {
        end = end_of_quoted(text, end);
      } else {
        while (end < text.size() && is_name_character(text[end])) ++end;
      }
      values.push_back({at, end, defining});
      at = end;
    } else {
      if (text.substr(at).starts_with(" = ")) defining = false;
      ++at;
    }
  }
  return values;
}

bool is_number(std::string_view value) {
  return value.size() > 1 &&
         std::ranges::all_of(value.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns the text with each value replaced by what `rename` makes of it.
template <class Rename>
std::string renamed(const std::string& text, const std::vector<ValueAt>& values, const Rename& rename) {
  std::string out;
  std::size_t done = 0;
  for (const ValueAt& value : values) {
    out.append(text, done, value.begin - done);
    out += rename(text.substr(value.begin, value.end - value.begin));
    done = value.end;
  }
  return out.append(text, done);
}

struct SsaLine {
  const DiffLine* line;
  std::vector<ValueAt> values;
  std::string value(std::size_t i) const {
    return line->text.substr(values[i].begin, values[i].end - values[i].begin);
  }
};

std::vector<SsaLine> ssa_lines(const std::vector<DiffLine>& lines) {
  std::vector<SsaLine> out;
  for (const DiffLine& line : lines) out.push_back({&line, values_in(line.text)});
  return out;
}

/// A line without the numbers of its values.
std::string unnumbered(const SsaLine& line) {
  return renamed(line.line->text, line.values,
                 [](const std::string& value) { return is_number(value) ? std::string("%") : value; });
}

/// Returns the line's op, such as "mul": the first word, or the one after the values that the line defines.
std::string op_in(const SsaLine& line) {
  const std::string& text = line.line->text;
  const bool defines = !line.values.empty() && line.values[0].defined;
  const std::size_t begin = defines ? text.find(" = ") + 3 : 0;
  return text.substr(begin, text.find(' ', begin) - begin);
}

/// Gives lines the same number if `text` returns the same for them and they have the same place.
class LineKeys {
 public:
  template <class Text>
  std::vector<int> of(const std::vector<SsaLine>& lines, const Text& text) {
    std::vector<int> keys;
    for (const SsaLine& line : lines)
      keys.push_back(
          keys_.emplace(text(line) + '\0' + line.line->at, static_cast<int>(keys_.size())).first->second);
    return keys;
  }

 private:
  std::unordered_map<std::string, int> keys_;
};

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// For each line of the second text the line of the first that it is aligned with, or kNone.
std::vector<std::size_t> common_lines(const std::vector<int>& first, const std::vector<int>& second) {
  std::vector<std::size_t> partner(second.size(), kNone);
  if (first == second) {
    for (std::size_t i = 0; i < second.size(); ++i) partner[i] = i;
    return partner;
  }
  dtl::Diff<int> diff(first, second);
  diff.onHuge();  // else texts with little in common take memory by the square of their differences
  diff.compose();
  std::size_t i = 0, j = 0;
  for (const auto& [key, edit] : diff.getSes().getSequence()) {
    if (edit.type == dtl::SES_COMMON) partner[j] = i;
    if (edit.type != dtl::SES_ADD) ++i;
    if (edit.type != dtl::SES_DELETE) ++j;
  }
  return partner;
}

/// An op whose type or attributes changed is still the same op. In each gap between aligned lines, the other
/// lines are aligned by what they compute, and where.
std::vector<std::size_t> counterparts_in_gaps(const std::vector<SsaLine>& first,
                                              const std::vector<SsaLine>& second,
                                              const std::vector<std::size_t>& partner) {
  LineKeys keys;
  const std::vector<int> ops_a = keys.of(first, op_in), ops_b = keys.of(second, op_in);
  std::vector<std::size_t> counterpart = partner;
  std::size_t i = 0, j = 0;
  while (j < second.size()) {
    std::size_t end_b = j;
    while (end_b < second.size() && partner[end_b] == kNone) ++end_b;
    const std::size_t end_a = end_b < second.size() ? partner[end_b] : first.size();
    const auto gap_of = [](const std::vector<int>& ops, std::size_t begin, std::size_t end) {
      return std::vector<int>(ops.begin() + static_cast<std::ptrdiff_t>(begin),
                              ops.begin() + static_cast<std::ptrdiff_t>(end));
    };
    if (end_a > i && end_b > j) {
      const std::vector<std::size_t> inside = common_lines(gap_of(ops_a, i, end_a), gap_of(ops_b, j, end_b));
      for (std::size_t k = 0; k < inside.size(); ++k) {
        if (inside[k] != kNone) counterpart[j + k] = i + inside[k];
      }
    }
    i = end_a + 1;
    j = end_b + 1;
  }
  return counterpart;
}

/// Maps values of the second text to values of the first.
class Counterparts {
 public:
  void pair(const SsaLine& first, const SsaLine& second) {
    for (std::size_t i = 0; i < std::min(first.values.size(), second.values.size()); ++i) {
      if (first.values[i].defined && second.values[i].defined) of_second_[second.value(i)] = first.value(i);
    }
  }
  std::string of(const std::string& value) const {
    const auto found = of_second_.find(value);
    if (found != of_second_.end()) return found->second;
    return is_number(value) ? value + "'" : value;
  }
  bool have_same_operands(const SsaLine& first, const SsaLine& second) const {
    for (std::size_t i = 0; i < first.values.size(); ++i) {
      if (!second.values[i].defined && of(second.value(i)) != first.value(i)) return false;
    }
    return true;
  }

 private:
  std::unordered_map<std::string, std::string> of_second_;
};

/// Puts the lines of the first text first in each run of changed lines.
void sort_runs(std::vector<EditLine>& lines) {
  const auto changed = [](const EditLine& line) { return line.sign != ' '; };
  for (auto begin = lines.begin(); begin != lines.end();) {
    begin = std::find_if(begin, lines.end(), changed);
    const auto end = std::find_if_not(begin, lines.end(), changed);
    std::stable_partition(begin, end, [](const EditLine& line) { return line.sign == '-'; });
    begin = end;
  }
}

/// Returns the text without the attributes' numbers of blocks and joins.
std::string uncounted(std::string text) {
  for (const std::string_view key : {"{block = ", " block = ", "join_index = "}) {
    const std::size_t at = text.find(key);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + key.size();
    text.replace(begin, text.find_first_of(",}", begin) - begin, "*");
  }
  return text;
}

/// Returns the same text for hunks that differ only in their blocks and in the numbers of their values.
std::string signature_of(const Hunk& hunk) {
  std::string signature;
  std::unordered_map<std::string, std::size_t> numbers;
  for (const EditLine& line : hunk.lines) {
    if (line.sign == ' ') continue;
    const std::string text = renamed(line.text, values_in(line.text), [&](const std::string& value) {
      return "%" + std::to_string(numbers.emplace(value, numbers.size()).first->second);
    });
    signature += line.sign + uncounted(of_any_block(text)) + '\0' + of_any_block(line.at) + '\n';
  }
  return signature;
}

}  // namespace

std::string of_any_block(const std::string& name) {
  constexpr std::string_view kEnds = "._";
  std::string out;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_end = [&](std::size_t at) {
    return at < name.size() && kEnds.find(name[at]) != std::string_view::npos;
  };
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    while (end < name.size() && digit(name[end])) ++end;
    if (end == at) {
      out += name[at++];
      continue;
    }
    // A block's number is between two dots or two underlines. After a letter it is part
    // of a name, as in "norm1".
    const bool is_block =
        at >= 2 && is_end(at - 1) && !digit(name[at - 2]) && is_end(end) && name[at - 1] == name[end];
    out += is_block ? "*" : name.substr(at, end - at);
    at = end;
  }
  return out;
}

std::vector<EditLine> align_lines(const std::vector<DiffLine>& first, const std::vector<DiffLine>& second) {
  const std::vector<SsaLine> a = ssa_lines(first), b = ssa_lines(second);
  LineKeys keys;
  const std::vector<int> keys_a = keys.of(a, unnumbered), keys_b = keys.of(b, unnumbered);
  const std::vector<std::size_t> partner = common_lines(keys_a, keys_b);
  const std::vector<std::size_t> same_op = counterparts_in_gaps(a, b, partner);
  Counterparts counterparts;
  for (std::size_t j = 0; j < b.size(); ++j) {
    if (same_op[j] != kNone) counterparts.pair(a[same_op[j]], b[j]);
  }
  std::vector<EditLine> lines;
  std::size_t i = 0;
  const auto remove_until = [&](std::size_t end) {
    for (; i < end; ++i) lines.push_back({'-', first[i].text, first[i].at});
  };
  for (std::size_t j = 0; j < b.size(); ++j) {
    const bool aligned = partner[j] != kNone;
    if (aligned) remove_until(partner[j]);
    if (aligned && counterparts.have_same_operands(a[i], b[j])) {
      lines.push_back({' ', first[i].text, first[i].at});
      ++i;
      continue;
    }
    if (aligned) remove_until(i + 1);
    const auto counterpart = [&](const std::string& value) { return counterparts.of(value); };
    lines.push_back({'+', renamed(second[j].text, b[j].values, counterpart), second[j].at});
  }
  remove_until(a.size());
  sort_runs(lines);
  return lines;
}

std::vector<Hunk> hunks_of(const std::vector<EditLine>& lines, std::size_t context) {
  std::vector<Hunk> hunks;
  std::map<std::string, std::size_t> known;
  const auto is_changed = [&](std::size_t i) { return lines[i].sign != ' '; };
  for (std::size_t at = 0; at < lines.size();) {
    if (!is_changed(at)) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;  // after the last line that changed
    for (std::size_t i = end; i < lines.size() && i <= end + 2 * context; ++i) {
      if (is_changed(i)) end = i + 1;
    }
    Hunk hunk;
    hunk.at = lines[at].at;
    const std::size_t from = at - std::min(at, context), to = std::min(end + context, lines.size());
    hunk.lines.assign(lines.begin() + static_cast<std::ptrdiff_t>(from),
                      lines.begin() + static_cast<std::ptrdiff_t>(to));
    hunk.like = known.emplace(signature_of(hunk), hunks.size()).first->second;
    hunks.push_back(std::move(hunk));
    at = end;
  }
  return hunks;
}

}  // namespace rewire::runtime
