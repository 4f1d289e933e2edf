// A source of text and an objective that predicts each next token, which Rewire has not got: all that they take.
#include <algorithm>
#include <string>

#include "ir/error.h"
#include "ir/opcodes.h"
#include "programs/objective.h"
#include "programs/sums.h"
#include "runtime/data/source.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

/// The bytes of a file, in windows that overlap by the token that is only predicted.
class Text final : public Source {
 public:
  Text(std::string path, std::int64_t window)
      : path_(std::move(path)), text_(read_file(path_)), window_(window) {}
  std::string name() const override { return path_; }
  std::int64_t count() const override { return (std::ssize(text_) - 1) / (window_ - 1); }
  std::vector<Field> fields() const override {
    return {{"tokens", ir::DType::i64, {window_}, FieldKind::tokens, 128}};
  }
  void read(std::int64_t index, Sample& sample) const override {
    HostTensor& tokens = place_in(sample, "tokens", {ir::DType::i64, {window_}});
    std::ranges::transform(std::span(text_).subspan(static_cast<std::size_t>(index * (window_ - 1)),
                                                    static_cast<std::size_t>(window_)),
                           tokens.as<std::int64_t>().begin(),
                           [](std::byte byte) { return static_cast<std::int64_t>(byte); });
  }

 private:
  std::string path_;
  std::vector<std::byte> text_;
  std::int64_t window_;
};

}  // namespace

extern const SourceRow kLetterSource{
    "letters",
    "the bytes of a file",
    {ir::path_parameter("path", "", "the file")},
    [](const ir::Attributes& values, const SourceContext& context) -> std::unique_ptr<Source> {
      const auto tokens = std::ranges::find(context.asked, FieldKind::tokens, &Field::kind);
      return std::make_unique<Text>(
          values.get_string("path"),
          tokens == context.asked.end() || tokens->shape.at(0) < 2 ? 64 : tokens->shape.at(0));
    }};

}  // namespace rewire::runtime

namespace rewire::programs {
namespace {

/// forward(tokens i64 [batch, n]) -> (logits [batch, n, vocabulary]) against the token that follows each, by cross-entropy.
class NextToken final : public Objective {
 public:
  Inputs inputs(const ir::Module& module) const override {
    const ir::Function& forward = module.function("forward");
    ir::TensorType tokens = forward.type(forward.argument("tokens"));
    ++tokens.shape.at(1);
    const std::int64_t vocabulary = forward.type(forward.result("logits")).shape.at(2);
    return {{.name = "tokens", .type = tokens, .categories = vocabulary, .kind = FieldKind::tokens}};
  }
  Trained train(ir::Builder& b, Network& network, const NamedValues& inputs) const override {
    return {mean_all(b, surprise(b, network, inputs)), {}};
  }
  std::vector<Measured> evaluate(ir::Builder& b, Network& network, const NamedValues& inputs,
                                 ir::Value weight) const override {
    const ir::Value each = surprise(b, network, inputs);
    const double tokens = static_cast<double>(b.shape(each).at(1));
    const ir::Value column = b.reshape(weight, {b.shape(weight).at(0), 1});
    return {{{"loss", "loss_sum", "tokens"},
             sum_all(b, b.mul(each, b.broadcast(column, b.shape(each)))),
             b.mul(sum_all(b, weight), tokens)}};
  }

 private:
  /// [batch, n]
  static ir::Value surprise(ir::Builder& b, Network& network, const NamedValues& inputs) {
    const ir::Value tokens = inputs.at("tokens");
    const std::int64_t batch = b.shape(tokens)[0], n = b.shape(tokens)[1] - 1;
    const ir::Value logits = network.call("forward", {{"tokens", b.slice(tokens, 1, 0, n)}}).at("logits");
    const ir::Value rows = b.reshape(logits, {batch * n, b.shape(logits)[2]});
    const ir::Value next = b.reshape(b.slice(tokens, 1, 1, n + 1), {batch * n});
    return b.reshape(b.emit(ir::Opcode::cross_entropy, {rows, next}, {{"label_smoothing", 0.0}}), {batch, n});
  }
};

}  // namespace

extern const ObjectiveRow kNextLetter{
    "next_letter",
    "the token that follows each",
    {{"loss", "loss", Shown::number}},
    {},
    [](const ir::Attributes&) -> std::unique_ptr<Objective> { return std::make_unique<NextToken>(); }};

}  // namespace rewire::programs
