#include "runtime/data/text/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "codegen/files/digest.h"
#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/draw.h"
#include "runtime/device/log.h"

namespace rewire::runtime {
namespace {

constexpr std::int64_t kMostWindows = 4'000'000'000;  // their order is of 32 bits

/// Windows as a network takes them; in training, at drawn places.
class TokenPipeline final : public Pipeline {
 public:
  TokenPipeline(const TokenSource& source, const PipelineContext& context)
      : source_(source),
        links_(link_fields(source.name(), source.fields(), context.asked)),
        training_(context.training),
        seed_(context.seed) {
    // The source has checked the ids. A target of -1 is none.
    for (FieldLink& link : links_) link.asked.categories = 0;
  }

  std::vector<RowField> fields() const override {
    std::vector<RowField> rows;
    for (const FieldLink& link : links_)
      rows.push_back({link.asked.name, {link.asked.dtype, link.asked.shape}});
    return rows;
  }

  void read(const Visit& visit, SampleRow row) const override {
    thread_local Sample sample;
    if (training_) {
      source_.read_drawn(seed_, visit.epoch, visit.sample, visit.repeat, sample);
    } else {
      source_.read(visit.sample, sample);
    }
    for (std::size_t i = 0; i < links_.size(); ++i)
      write_field(links_[i], sample, row[i], source_, visit.sample);
  }

 private:
  const TokenSource& source_;
  std::vector<FieldLink> links_;
  bool training_;
  std::uint64_t seed_;
};

void check_length(const TokenStream& stream, const TokenOptions& options, const TokenContext& asked,
                  Split split) {
  if (stream.count() < 2)
    user_error("{}: {} token{}: a window needs two or more", options.name, stream.count(),
               stream.count() == 1 ? "" : "s");
  if (split == Split::train && !options.pack && stream.count() <= asked.context) {
    user_error("{}: it has {} tokens, but a window takes {} and the one after them: lower model.context",
               options.name, stream.count(), asked.context);
  }
}

}  // namespace

ir::Schema window_parameters() {
  return {
      ir::enum_parameter("order", {"random", "sequential"},
                         "windows of a training epoch; random: at places drawn uniformly, or packed windows "
                         "in a random order; sequential: side by side, in order"),
      ir::bool_parameter(
          "pack", false,
          "windows of whole documents, with their boundaries as the field documents; false: windows "
          "of the stream"),
      ir::int_parameter("windows", 0,
                        "windows of a training epoch, at random places; 0: as many as lie side by side")
          .at_least(0)
          .at_most(kMostWindows),
      ir::int_parameter("validation_windows", 0, "windows that an evaluation reads, from the first; 0: all")
          .at_least(0)
          .at_most(kMostWindows)};
}

void set_windows(TokenOptions& options, const ir::Attributes& values) {
  options.sequential = values.get_string("order") == "sequential";
  options.pack = values.get_bool("pack");
  options.windows = values.get_int("windows");
  options.validation_windows = values.get_int("validation_windows");
}

TokenContext token_context(const SourceContext& context) {
  const auto takes = [&](auto holds) { return std::ranges::find_if(context.asked, holds); };
  auto field = takes([](const Field& asked) { return asked.name == kTokensField; });
  if (field == context.asked.end())
    field = takes([](const Field& asked) { return asked.kind == FieldKind::tokens; });
  if (field == context.asked.end() || field->shape.size() != 1)
    user_error("the data are tokens, but the network takes no tokens i32[batch,context]");
  return {field->shape.front(), field->categories};
}

TokenSource::TokenSource(TokenStream stream, TokenOptions options, const SourceContext& context)
    : stream_(std::move(stream)),
      options_(std::move(options)),
      asked_(token_context(context)),
      is_training_(context.split == Split::train),
      asked_windows_(is_training_ ? options_.windows : options_.validation_windows),
      windows_(stream_.count(), asked_.context) {
  check_length(stream_, options_, asked_, context.split);
  if (options_.tokenizer && asked_.vocabulary > 0 && options_.tokenizer->vocabulary() > asked_.vocabulary) {
    user_error("{}: its tokenizer has the ids 0 to {}, but the network knows {}: set model.vocab={}",
               options_.name, options_.tokenizer->vocabulary() - 1, asked_.vocabulary,
               options_.tokenizer->vocabulary());
  }
  if (is_training_ && asked_windows_ > 0 && (options_.pack || options_.sequential)) {
    user_error("data.windows={} needs windows at random places: unset {}", asked_windows_,
               options_.pack ? "data.pack" : "data.order");
  }
  if (!options_.pack) return;
  if (options_.separator < 0)
    user_error("{}: data.pack needs the ends of documents: set data.separator to the id between them",
               options_.name);
  packed_.emplace(stream_, asked_.context, options_.separator);
  if (packed_->count() == 0) user_error("{}: no document has two tokens", options_.name);
  const auto asks = [&](std::string_view field) {
    return std::ranges::find(context.asked, field, &Field::name) != context.asked.end();
  };
  if (asks(kTargetsField) && !asks(kDocumentsField)) {
    write_log_once(
        LogLevel::warning, "packed windows without boundaries",
        "data.pack: the network does not take 'documents', so a token sees the documents before its own "
        "in the window");
  }
}

std::int64_t TokenSource::count() const {
  const std::int64_t all = packed_ ? packed_->count() : windows_.count();
  if (asked_windows_ == 0) return all;
  return is_training_ ? asked_windows_ : std::min(asked_windows_, all);
}

std::vector<Field> TokenSource::fields() const {
  const ir::Shape window = {asked_.context};
  std::vector<Field> fields = {{std::string(kTokensField), ir::DType::i32, window, FieldKind::tokens,
                                options_.tokenizer ? options_.tokenizer->vocabulary() : 0},
                               {std::string(kTargetsField), ir::DType::i32, window},
                               {std::string(kBytesField), ir::DType::f32, {1}}};
  if (packed_) fields.push_back({std::string(kDocumentsField), ir::DType::i32, window});
  return fields;
}

void TokenSource::read(std::int64_t index, Sample& sample) const {
  if (packed_) {
    read_pieces(packed_->window(index), sample);
  } else {
    const Piece piece = windows_.window(index);
    read_pieces({&piece, 1}, sample);
  }
}

void TokenSource::read_drawn(std::uint64_t seed, std::int64_t epoch, std::int64_t index, std::int64_t repeat,
                             Sample& sample) const {
  if (packed_ || options_.sequential) return read(index, sample);
  if (windows_.starts() < 1) return read(0, sample);
  const ir::PhiloxStream stream{seed, static_cast<std::uint32_t>(epoch), ir::stream_hash("data.window")};
  const auto starts = static_cast<std::size_t>(windows_.starts());
  const std::size_t start = draw_below(stream, static_cast<std::size_t>(repeat * count() + index), starts);
  const Piece piece{static_cast<std::int64_t>(start), static_cast<std::int32_t>(asked_.context)};
  read_pieces({&piece, 1}, sample);
}

void TokenSource::read_pieces(std::span<const Piece> pieces, Sample& sample) const {
  const ir::TensorType type{ir::DType::i32, {asked_.context}};
  const std::span<std::int32_t> tokens = place_in(sample, std::string(kTokensField), type).as<std::int32_t>();
  const std::span<std::int32_t> targets =
      place_in(sample, std::string(kTargetsField), type).as<std::int32_t>();
  std::span<std::int32_t> documents;
  if (packed_) documents = place_in(sample, std::string(kDocumentsField), type).as<std::int32_t>();
  thread_local std::vector<std::int32_t> ids;
  const std::int64_t limit = asked_.vocabulary > 0 ? asked_.vocabulary : kAnyToken;
  std::size_t at = 0;
  std::int32_t number = 0;
  for (const Piece& piece : pieces) {
    const auto length = static_cast<std::size_t>(piece.length);
    ids.resize(length + 1);
    stream_.read(piece.first, std::span(ids).first(length + (piece.continues ? 1 : 0)), limit);
    if (!piece.continues) ids.back() = -1;
    std::ranges::copy(std::span(ids).first(length), tokens.begin() + static_cast<std::ptrdiff_t>(at));
    std::ranges::copy(std::span(ids).subspan(1), targets.begin() + static_cast<std::ptrdiff_t>(at));
    if (packed_) std::ranges::fill(documents.subspan(at, length), number++);
    at += length;
  }
  std::ranges::fill(tokens.subspan(at), 0);
  std::ranges::fill(targets.subspan(at), -1);
  if (packed_) std::ranges::fill(documents.subspan(at), number);
  std::size_t bytes = 0;
  if (options_.tokenizer) {
    for (const std::int32_t target : targets) {
      if (target >= 0) bytes += options_.tokenizer->text_of(target).size();
    }
  }
  place_in(sample, std::string(kBytesField), {ir::DType::f32, {1}}).as<float>()[0] =
      static_cast<float>(bytes);
}

std::string TokenSource::sample_name(std::int64_t index) const {
  return fmt::format("{}: window {}", options_.name, index);
}

std::vector<std::uint32_t> TokenSource::order(std::uint64_t seed, std::int64_t epoch) const {
  if (packed_ && !options_.sequential) return Source::order(seed, epoch);
  if (count() > std::numeric_limits<std::uint32_t>::max()) user_error("{} windows are too many", count());
  std::vector<std::uint32_t> order(static_cast<std::size_t>(count()));
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

DataIdentity TokenSource::identity() const {
  codegen::Digest digest;
  const auto add = [&digest](const std::string& text) { digest.update(std::as_bytes(std::span(text))); };
  add(stream_.digest());
  if (options_.tokenizer) add(options_.tokenizer->digest());
  add(fmt::format("{} {} {} {}", asked_.context, options_.pack, options_.sequential, options_.separator));
  return {count(), {}, digest.hex()};
}

std::unique_ptr<Pipeline> TokenSource::pipeline(const PipelineContext& context) const {
  if (!context.views.empty()) user_error("{}: its samples have no views", name());
  return std::make_unique<TokenPipeline>(*this, context);
}

const TokenSource* tokens_of(const Source& source) {
  return dynamic_cast<const TokenSource*>(&source);
}

}  // namespace rewire::runtime
