// Numbers of the compiler that a developer sets to compare variants of one program: `--tune KEY=VALUE`. Each is
// a choice of the kind "tune". So it reaches everything that compiles by a record of choices, and a run to which
// it is given records it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "codegen/program.h"
#include "runtime/exec/tune/choice_record.h"

namespace rewire::runtime {

inline constexpr std::string_view kTuneChoice = "tune";

struct TuneKey {
  std::string_view name, doc;
  std::int64_t least = 1, most = 1;
};
/// group_ops, parts, warps and candidates.
std::span<const TuneKey> tune_keys();

/// Reads "group_ops=300". Throws UserError, beginning with `place`, on an unknown key or a value out of its
/// bounds.
MadeChoice parse_tune(std::string_view text, std::string_view place);

/// Returns the value that the record has for a key of tune_keys(); `otherwise` if it has none.
std::int64_t tuned(const ChoiceRecord& choices, std::string_view key, std::int64_t otherwise);
/// Sets what the record has of a program's cut: group_ops and parts.
void tune(codegen::WorkGrain& grain, const ChoiceRecord& choices);
/// Returns all that the record has: ", group_ops=300, parts=8"; "": nothing. Timings depend on it.
std::string tune_text(const ChoiceRecord& choices);

}  // namespace rewire::runtime
