// Windows of tokens: which ids they hold, what their targets are, and that they are the same for any number of
// threads and from any beginning.
#include <algorithm>
#include <map>
#include <random>

#include "ir/error.h"
#include "ir/philox.h"
#include "runtime/data/draw.h"
#include "runtime/data/loader.h"
#include "tests/runtime_text/token_files.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

namespace rewire::runtime {
namespace {

using test::ids_of;
using test::tokens_asked;
using test::TokenTree;
using Ids = std::vector<std::int32_t>;

TokenStream stream_of(Ids ids) {
  return TokenStream({std::make_shared<const TokenFile>("memory", std::move(ids))});
}

TokenSource source_of(Ids ids, std::int64_t context, TokenOptions options = {}, Split split = Split::test) {
  options.name = "memory";
  return {stream_of(std::move(ids)), std::move(options), tokens_asked(context, 0, split)};
}

/// Ids 1000, 1001, …
Ids counted(std::size_t count) {
  Ids ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = 1000 + static_cast<std::int32_t>(i);
  return ids;
}

TEST_CASE("Windows of evaluation lie side by side, and each token but the first is a target once") {
  for (const std::size_t tokens : {2U, 3U, 7U, 8U, 9U, 29U}) {
    for (const std::int64_t context : {1, 2, 3, 7, 8, 31}) {
      CAPTURE(tokens, context);
      const TokenSource source = source_of(counted(tokens), context);
      CHECK(source.count() == (std::int64_t(tokens) - 1 + context - 1) / context);
      Ids given, wanted;
      Sample sample;
      for (std::int64_t i = 0; i < source.count(); ++i) {
        source.read(i, sample);
        for (const std::int32_t id : ids_of(sample, "tokens")) given.push_back(id);
        for (const std::int32_t id : ids_of(sample, "targets")) wanted.push_back(id);
        CHECK(sample.at("bytes").as<const float>()[0] == 0);
      }
      REQUIRE(std::ssize(given) == source.count() * context);
      for (std::size_t i = 0; i < given.size(); ++i) {
        const bool is_there = i + 1 < tokens;
        CHECK(given[i] == (is_there ? 1000 + static_cast<std::int32_t>(i) : 0));
        CHECK(wanted[i] == (is_there ? 1001 + static_cast<std::int32_t>(i) : -1));
      }
    }
  }
}

TEST_CASE("The bytes of a window are those of its targets") {
  TokenOptions options;
  options.tokenizer = make_tokenizer("bytes");
  const TokenSource source = source_of({72, 105, 256, 72, 111, 256}, 4, options);
  Sample sample;
  source.read(0, sample);
  CHECK(ids_of(sample, "targets") == Ids{105, 256, 72, 111});
  CHECK(sample.at("bytes").as<const float>()[0] == 3);  // the end of a document has none
  source.read(1, sample);
  CHECK(ids_of(sample, "targets") == Ids{256, -1, -1, -1});
  CHECK(sample.at("bytes").as<const float>()[0] == 0);
}

/// Windows of documents by the rule, one position at a time.
struct PackedReference {
  std::vector<Ids> tokens, targets, documents;

  PackedReference(const std::vector<Ids>& all, std::size_t context) {
    for (const Ids& document : all) {
      if (document.size() < 2) continue;
      if (!tokens.empty() && tokens.back().size() + document.size() > context) open();
      if (tokens.empty()) open();
      for (std::size_t i = 0; i < document.size(); ++i) {
        const bool is_last = i + 1 == document.size();
        if (is_last && i % context == 0) continue;  // the rest of a split document has no target
        if (tokens.back().size() == context) open();
        if (i % context == 0) number += 1;
        tokens.back().push_back(document[i]);
        targets.back().push_back(is_last ? -1 : document[i + 1]);
        documents.back().push_back(number);
      }
    }
    for (std::size_t w = 0; w < tokens.size(); ++w) {
      const std::int32_t last = documents[w].empty() ? -1 : documents[w].back();
      tokens[w].resize(context, 0);
      targets[w].resize(context, -1);
      documents[w].resize(context, last + 1);
    }
    std::erase_if(tokens, [](const Ids& window) { return window.front() == 0; });
    std::erase_if(documents, [](const Ids& window) { return window.front() != 0; });
    targets.resize(tokens.size());
  }

 private:
  void open() {
    if (!tokens.empty() && tokens.back().empty()) return;
    tokens.emplace_back();
    targets.emplace_back();
    documents.emplace_back();
    number = -1;
  }
  std::int32_t number = -1;
};

TEST_CASE("Packed windows hold whole documents, with no target across their boundaries") {
  const std::uint32_t seed = 20261129;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t context = 1 + random() % 12;
    const bool begins = random() % 2 == 0;  // the separator begins a document
    std::vector<Ids> documents(1 + random() % 9);
    Ids stream;
    for (Ids& document : documents) {
      const std::size_t length = random() % 20;
      for (std::size_t i = 0; i < length; ++i)
        document.push_back(10 + static_cast<std::int32_t>(random() % 90));
      document.insert(begins ? document.begin() : document.end(), 7);
      stream.insert(stream.end(), document.begin(), document.end());
    }
    const PackedReference wanted(documents, context);
    if (wanted.tokens.empty() || (!begins && documents.front().size() == 1)) continue;
    CAPTURE(trial, context, begins, stream);
    TokenOptions options;
    options.pack = true;
    options.separator = 7;
    const TokenSource source = source_of(stream, static_cast<std::int64_t>(context), options, Split::train);
    REQUIRE(source.count() == std::ssize(wanted.tokens));
    Sample sample;
    for (std::int64_t i = 0; i < source.count(); ++i) {
      source.read(i, sample);
      const auto at = static_cast<std::size_t>(i);
      CHECK(ids_of(sample, "tokens") == wanted.tokens[at]);
      CHECK(ids_of(sample, "targets") == wanted.targets[at]);
      CHECK(ids_of(sample, "documents") == wanted.documents[at]);
    }
  }
}

/// The pipeline's windows by a loader, as a run reads them.
std::vector<Batch> batches_of(const TokenSource& source, std::int64_t count, int threads,
                              LoaderShare share = {}, DataPosition start = {}, bool training = true) {
  const std::int64_t context = 5;
  const auto pipeline =
      source.pipeline({.asked = {{"tokens", ir::DType::i32, {context}, FieldKind::tokens, 2000},
                                 {"targets", ir::DType::i32, {context}, FieldKind::number, 2000}},
                       .transforms = {},
                       .views = {},
                       .training = training,
                       .seed = 31});
  LoaderOptions options;
  options.fields = pipeline->fields();
  options.training = training;
  options.batch = 3;
  options.seed = 31;
  options.threads = threads;
  options.share = share;
  options.order = [&](std::int64_t epoch) { return source.order(31, epoch); };
  Loader loader(
      sample_function(source, [&](const Visit& visit, SampleRow row) { pipeline->read(visit, row); }),
      source.count(), options, start);
  std::vector<Batch> batches(static_cast<std::size_t>(count));
  for (Batch& batch : batches) loader.next(batch);
  return batches;
}

Ids rows_of(const std::vector<Batch>& batches, const std::string& field) {
  Ids rows;
  for (const Batch& batch : batches) {
    const Ids ids = ids_of(batch.tensors, field);
    rows.insert(rows.end(), ids.begin(), ids.end());
  }
  return rows;
}

TEST_CASE("A training epoch draws its windows by Philox, uniformly over all places") {
  const TokenSource source = source_of(counted(48), 5, {}, Split::train);
  REQUIRE(source.count() == 10);
  const Ids rows = rows_of(batches_of(source, 6, 1), "tokens");  // two epochs of 3 batches of 3
  std::size_t at = 0;
  for (const std::uint32_t epoch : {0U, 1U}) {
    const ir::PhiloxStream stream{31, epoch, ir::stream_hash("data.window")};
    for (std::size_t window = 0; window < 9; ++window) {
      const std::size_t start = draw_below(stream, window, 43);  // 48 - 5 places
      for (std::size_t i = 0; i < 5; ++i) CHECK(rows[at++] == static_cast<std::int32_t>(1000 + start + i));
    }
  }
  // Each place is as likely as any other, both ends among them.
  std::map<std::int32_t, int> seen;
  Sample sample;
  for (std::int64_t epoch = 0; epoch < 860; ++epoch) {
    for (std::int64_t i = 0; i < 10; ++i) {
      source.read_drawn(5, epoch, i, 0, sample);
      const Ids tokens = ids_of(sample, "tokens"), targets = ids_of(sample, "targets");
      ++seen[tokens[0]];
      for (std::size_t k = 0; k < 5; ++k) CHECK(targets[k] == tokens[k] + 1);
    }
  }
  CHECK(seen.size() == 43);
  double chi = 0;
  for (const auto& [place, times] : seen) chi += (times - 200.0) * (times - 200.0) / 200.0;
  CHECK(chi < 76.1);  // the 0.999 quantile of 42 degrees of freedom
}

TEST_CASE("An epoch has the windows that are asked for, drawn as before, and an evaluation the first ones") {
  TokenOptions options;
  options.windows = 23;  // beyond the 10 that lie side by side
  options.validation_windows = 3;
  const TokenSource drawn = source_of(counted(48), 5, options, Split::train);
  CHECK(drawn.count() == 23);
  CHECK(drawn.order(1, 0).size() == 23);
  const TokenSource plain = source_of(counted(48), 5, {}, Split::train);
  Sample a, b;
  for (std::int64_t i = 0; i < 10; ++i) {
    drawn.read_drawn(5, 2, i, 0, a);
    plain.read_drawn(5, 2, i, 0, b);
    CHECK(ids_of(a, "tokens") == ids_of(b, "tokens"));
  }
  drawn.read_drawn(5, 2, 22, 0, a);
  CHECK(ids_of(a, "tokens").size() == 5);
  CHECK(drawn.identity().digest == plain.identity().digest);
  CHECK(drawn.identity() != plain.identity());
  const TokenSource read = source_of(counted(48), 5, options);
  CHECK(read.count() == 3);
  options.validation_windows = 300;
  CHECK(source_of(counted(48), 5, options).count() == 10);
  options.sequential = true;
  CHECK(test::message_of<UserError>([&] { source_of(counted(48), 5, options, Split::train); }) ==
        "data.windows=23 needs windows at random places: unset data.order");
  // A stream of one window alone is that window each time.
  TokenOptions repeated;
  repeated.windows = 4;
  const TokenSource one = source_of(counted(6), 5, repeated, Split::train);
  one.read_drawn(5, 0, 3, 0, a);
  CHECK(ids_of(a, "tokens") == Ids{1000, 1001, 1002, 1003, 1004});
}

TEST_CASE("Windows are the same for any number of threads and ranks, and after a resume") {
  for (const bool sequential : {false, true}) {
    CAPTURE(sequential);
    TokenOptions options;
    options.sequential = sequential;
    const TokenSource source = source_of(counted(101), 5, options, Split::train);
    REQUIRE(source.count() == 20);
    for (const std::string field : {"tokens", "targets"}) {
      const Ids whole = rows_of(batches_of(source, 12, 1), field);
      CHECK(rows_of(batches_of(source, 12, 4), field) == whole);
      // Two ranks: each prepares every other batch.
      const Ids even = rows_of(batches_of(source, 6, 2, {0, 1, 2}), field),
                odd = rows_of(batches_of(source, 6, 1, {1, 1, 2}), field);
      Ids both;
      for (std::size_t batch = 0; batch < 6; ++batch) {
        both.insert(both.end(), even.begin() + std::ptrdiff_t(batch * 15),
                    even.begin() + std::ptrdiff_t(batch * 15 + 15));
        both.insert(both.end(), odd.begin() + std::ptrdiff_t(batch * 15),
                    odd.begin() + std::ptrdiff_t(batch * 15 + 15));
      }
      CHECK(both == whole);
      // A run that resumes at batch 4 of the first epoch.
      const Ids rest = rows_of(batches_of(source, 8, 3, {}, {0, 4, 12}), field);
      CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + 4 * 15));
    }
  }
}

TEST_CASE("Evaluation reads the windows in order, and pads the last batch with weight 0") {
  const TokenSource source = source_of(counted(52), 5);
  const std::vector<Batch> batches = batches_of(source, 4, 2, {}, {}, false);
  const Ids targets = rows_of(batches, "targets");
  for (std::size_t i = 0; i < 55; ++i)
    CHECK(targets[i] == (i < 51 ? static_cast<std::int32_t>(1001 + i) : -1));
  const std::span<const float> weight = batches.back().tensors.at("weight").as<const float>();
  CHECK(std::vector<float>(weight.begin(), weight.end()) == std::vector<float>{1, 1, 0});
}

TEST_CASE("The order of packed windows is random, or theirs if it is sequential") {
  TokenOptions options;
  options.pack = true;
  options.separator = 7;
  Ids stream;
  for (int i = 0; i < 40; ++i) stream.insert(stream.end(), {1, 2, 3, 7});
  const TokenSource random = source_of(stream, 4, options, Split::train);
  CHECK(random.count() == 40);
  CHECK(random.order(3, 1) == epoch_order(40, 3, 1));
  options.sequential = true;
  const auto order = source_of(stream, 4, options, Split::train).order(3, 1);
  CHECK(std::ranges::is_sorted(order));
  CHECK(order.size() == 40);
}

TEST_CASE("A checkpoint recognises the tokens, the windows and the tokenizer") {
  const auto identity = [](Ids ids, std::int64_t context, bool pack = false,
                           const char* tokenizer = nullptr) {
    TokenOptions options;
    options.pack = pack;
    options.separator = 1003;
    if (tokenizer != nullptr) options.tokenizer = make_tokenizer(tokenizer);
    return source_of(std::move(ids), context, std::move(options)).identity();
  };
  const DataIdentity first = identity(counted(30), 5);
  CHECK(first == identity(counted(30), 5));
  CHECK(first.count == 6);
  Ids other = counted(30);
  other[17] = 3;
  CHECK_FALSE(first == identity(other, 5));
  CHECK_FALSE(first == identity(counted(30), 4));
  CHECK_FALSE(first == identity(counted(30), 5, true));
  CHECK_FALSE(first == identity(counted(30), 5, false, "bytes"));
}

}  // namespace
}  // namespace rewire::runtime
