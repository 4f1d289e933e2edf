// The choices that a run has made, as recorded in RUN/choices.json and in its checkpoints, to be made the
// same again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire::runtime {

class JsonView;

/// The origin of a choice: timing here, the cost model (because it was asked to, or no time was left), or who
/// runs the command (tune_keys.h).
inline constexpr std::string_view kByTiming = "timing", kByModel = "model", kByRequest = "request";

/// The kinds of choice for a matrix product's algorithm and for a kernel's schedule;
/// ir/passes/choose_lowerings.h has others.
inline constexpr std::string_view kGemmChoice = "gemm", kTileChoice = "tile";
/// The kind for a GPU's transforms of rows: by a product with constants, or by cuFFT, whose version follows
/// (exec/cuda/tune/fourier_choices.h).
inline constexpr std::string_view kFourierChoice = "fourier", kConstantsAnswer = "product",
                                  kCufftAnswer = "cuFFT ";
/// Returns true if `text` is an answer of this kind.
bool is_fourier_answer(std::string_view text);
/// The kind for attention, and the answer for our own kernels.
inline constexpr std::string_view kAttentionChoice = "attention", kOwnKernels = "ours";
/// The kind for cuDNN's engine for a convolution.
inline constexpr std::string_view kConvolutionChoice = "convolution";
/// The kind for a product or a convolution on a CPU (product_choices.h). The other answer is kOwnKernels.
inline constexpr std::string_view kProductChoice = "product", kOneDnnAnswer = "oneDNN";
/// The kind for the epilogue of a product (epilogue_choices.h). The other answer is kOwnKernels.
inline constexpr std::string_view kEpilogueChoice = "epilogue", kCublasLtAnswer = "cuBLASLt";

struct MadeChoice {
  std::string key, taken;
  std::string by;
  /// The best run of each candidate that was timed, by name or label, in the cost model's order.
  std::vector<std::pair<std::string, double>> seconds;
  bool operator==(const MadeChoice&) const = default;
};

class ChoiceRecord {
 public:
  const std::vector<MadeChoice>& made() const { return made_; }
  const MadeChoice* find(std::string_view key) const;
  /// Adds a choice; a key that is there already stays as it is.
  void add(MadeChoice choice);
  void add(const ChoiceRecord& other);
  bool operator==(const ChoiceRecord&) const = default;

 private:
  std::vector<MadeChoice> made_;
};

/// Writes [{"key": …, "taken": …, "by": "timing", "ms": {"CANDIDATE": …, …}}, …]. Times are exact to the
/// nanosecond, so that reading and writing again gives the same text.
nlohmann::ordered_json to_json(const ChoiceRecord& record);
/// Reads such a list. Throws UserError, beginning with the file, on anything else, on an unknown kind of
/// choice or candidate, and on a duplicate key.
ChoiceRecord record_from_json(const JsonView& list);

/// Reads the file's "choices": RUN/choices.json, or one that holds only those. Throws UserError as above,
/// also if it cannot be read.
ChoiceRecord read_choice_file(const std::string& file);

}  // namespace rewire::runtime
