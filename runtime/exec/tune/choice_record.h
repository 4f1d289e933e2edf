// The choices that a run has made, as they stand in RUN/choices.json and in its checkpoints, to be made the
// same again.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rewire::runtime {

class JsonView;

/// How a choice was made: by the clock here, or by the cost model (asked to, or no time was left for it).
inline constexpr std::string_view kByTiming = "timing", kByModel = "model";

/// The kinds of the choices of a matrix product's algorithm and of a kernel's schedule; of others
/// ir/passes/choose_lowerings.h tells.
inline constexpr std::string_view kGemmChoice = "gemm", kTileChoice = "tile";
/// How a GPU transforms rows: by a product with constants, or by cuFFT, whose version follows (exec/cuda/tune/fourier_choices.h).
inline constexpr std::string_view kFourierChoice = "fourier", kConstantsAnswer = "product",
                                  kCufftAnswer = "cuFFT ";
/// Whether `text` is one of the two.
bool is_fourier_answer(std::string_view text);
/// Of what computes attention, and the answer that is no engine of cuDNN's.
inline constexpr std::string_view kAttentionChoice = "attention", kOwnKernels = "ours";
/// Of the engine of cuDNN's that computes a convolution.
inline constexpr std::string_view kConvolutionChoice = "convolution";
/// Of who computes a product or a convolution on a CPU; product_choices.h tells. The other answer is kOwnKernels.
inline constexpr std::string_view kProductChoice = "product", kOneDnnAnswer = "oneDNN";
/// Of who computes the epilogue of a product; epilogue_choices.h tells. The other answer is kOwnKernels.
inline constexpr std::string_view kEpilogueChoice = "epilogue", kCublasLtAnswer = "cuBLASLt";

struct MadeChoice {
  std::string key, taken;
  std::string by;
  /// Of the candidates that were timed, by name or label, in the cost model's order: the best run.
  std::vector<std::pair<std::string, double>> seconds;
  bool operator==(const MadeChoice&) const = default;
};

class ChoiceRecord {
 public:
  const std::vector<MadeChoice>& made() const { return made_; }
  const MadeChoice* find(std::string_view key) const;
  /// A key that is there already stays as it is.
  void add(MadeChoice choice);
  void add(const ChoiceRecord& other);
  bool operator==(const ChoiceRecord&) const = default;

 private:
  std::vector<MadeChoice> made_;
};

/// [{"key": …, "taken": …, "by": "timing", "ms": {"CANDIDATE": …, …}}, …]. Times to the nanosecond, so that
/// what is read and written again is the same text.
nlohmann::ordered_json to_json(const ChoiceRecord& record);
/// UserError, beginning with the file, on what is no such list, on a kind of choice or a candidate that there
/// is not, and on a key that stands twice.
ChoiceRecord record_from_json(const JsonView& list);

/// The file's "choices": RUN/choices.json, or one that holds those alone. UserError as above, also if it
/// cannot be read.
ChoiceRecord read_choice_file(const std::string& file);

}  // namespace rewire::runtime
