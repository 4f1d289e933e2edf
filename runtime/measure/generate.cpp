#include "runtime/measure/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/error.h"
#include "ir/philox.h"
#include "programs/generate.h"

namespace rewire::runtime {
namespace {

HostTensor scalar(std::int64_t value) {
  HostTensor tensor(ir::TensorType{ir::DType::i32, {}});
  tensor.as<std::int32_t>()[0] = static_cast<std::int32_t>(value);
  return tensor;
}

/// The text so far, as the network sees it.
class Reader {
 public:
  Reader(Engine& engine, const ir::Module& module, bool cached)
      : engine_(engine), cached_(cached), chunk_(programs::prompt_tokens(module)) {
    const ir::Function& forward = module.function("forward");
    type_ = forward.type(forward.argument("tokens"));
    context_ = type_.shape[1];
    words_ = forward.type(forward.result("logits")).shape[2];
  }

  /// Adds tokens to the text. Returns the logits after the last.
  std::vector<float> read(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= words_)
        user_error("token {} is not in the vocabulary: the network has words 0 to {}", token, words_ - 1);
    }
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    return cached_ ? read_cached() : read_whole();
  }

 private:
  std::vector<float> read_whole() {
    if (std::ssize(text_) > context_) text_.erase(text_.begin(), text_.end() - context_);
    TensorMap inputs;
    inputs.emplace("tokens", padded(text_, context_));
    inputs.emplace("position", scalar(std::ssize(text_) - 1));
    return logits(engine_.run("whole", inputs));
  }

  std::vector<float> read_cached() {
    if (std::ssize(text_) > context_) {
      const std::int64_t left = kept_ == 0 ? context_ : std::max<std::int64_t>(context_ / 2, 1);
      text_.erase(text_.begin(), text_.end() - left);
      kept_ = 0;
    }
    std::vector<float> last;
    while (kept_ < std::ssize(text_)) {
      const std::int64_t left = std::ssize(text_) - kept_;
      const std::int64_t program = left == 1 ? 1 : chunk_;
      const std::int64_t count = std::min(left, program);
      TensorMap inputs;
      inputs.emplace("tokens", padded(std::span(text_).subspan(static_cast<std::size_t>(kept_),
                                                               static_cast<std::size_t>(count)),
                                      program));
      inputs.emplace("position", scalar(kept_));
      inputs.emplace("last", scalar(count - 1));
      last = logits(engine_.run(fmt::format("read_{}", program), inputs));
      kept_ += count;
    }
    return last;
  }

  HostTensor padded(std::span<const std::int32_t> tokens, std::int64_t count) const {
    HostTensor tensor({type_.dtype, {1, count}});
    const auto fill = [&](auto target) {
      std::ranges::fill(target, 0);
      std::ranges::copy(tokens, target.begin());
    };
    type_.dtype == ir::DType::i64 ? fill(tensor.as<std::int64_t>()) : fill(tensor.as<std::int32_t>());
    return tensor;
  }

  static std::vector<float> logits(const TensorMap& results) {
    const std::span<const float> all = results.at("logits").as<const float>();
    if (!std::ranges::all_of(all, [](float x) { return std::isfinite(x); }))
      user_error("a logit is not finite: the network has diverged");
    return {all.begin(), all.end()};
  }

  Engine& engine_;
  const bool cached_;
  const std::int64_t chunk_;
  ir::TensorType type_;
  std::int64_t context_ = 0, words_ = 0;
  std::vector<std::int32_t> text_;  // the last tokens, at most `context_`
  std::int64_t kept_ = 0;           // of these, whose keys and values are kept
};

}  // namespace

std::int32_t draw_token(std::span<const float> logits, const Drawing& drawing, std::int64_t place) {
  if (drawing.temperature == 0)
    return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (drawing.top_k > 0 && drawing.top_k < std::ssize(order))
    order.resize(static_cast<std::size_t>(drawing.top_k));
  std::vector<double> shares;
  const double largest = logits[static_cast<std::size_t>(order[0])];
  for (const std::int32_t token : order)
    shares.push_back(std::exp((logits[static_cast<std::size_t>(token)] - largest) / drawing.temperature));
  double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (drawing.top_p < 1) {
    double kept = 0;
    std::size_t count = 0;
    while (count < shares.size() && (count == 0 || kept < drawing.top_p * total)) kept += shares[count++];
    shares.resize(count);
    total = kept;
  }
  const ir::PhiloxStream stream{drawing.seed, static_cast<std::uint32_t>(drawing.number),
                                ir::stream_hash("generate")};
  double left = stream.uniform(static_cast<std::uint64_t>(place)) * total;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    left -= shares[i];
    if (left < 0) return order[i];
  }
  return order[shares.size() - 1];
}

void generate(Engine& engine, const ir::Module& module, const GenerateRequest& request,
              const std::function<void(std::int32_t token, std::span<const float> logits)>& take) {
  if (request.prompt.empty()) user_error("the prompt has no token: give some text");
  Reader reader(engine, module, request.cached);
  std::vector<float> logits = reader.read(request.prompt);
  for (std::int64_t place = 0; place < request.tokens; ++place) {
    const std::int32_t token = draw_token(logits, request.drawing, place);
    take(token, logits);
    if (token == request.end || place + 1 == request.tokens) return;
    logits = reader.read({&token, 1});
  }
}

}  // namespace rewire::runtime
