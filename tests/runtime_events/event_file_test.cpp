// Event files: the bytes of their records, and what a reader of their messages finds.
#include "runtime/events/event_file.h"

#include <event.pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ir/opcodes.h"
#include "runtime/events/graph.h"
#include "runtime/io/files.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

/// Bit by bit, of the polynomial 0x1EDC6F41 reflected: what the table of a library must agree with.
std::uint32_t crc32c_by_bits(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.substr(at, sizeof number).data(), sizeof number);  // little-endian, as this host
  return number;
}

/// The events of a file, of which every checksum is right.
std::vector<events::Event> events_of(const std::string& file) {
  const std::vector<std::byte> bytes = read_file(file);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<events::Event> events;
  while (!rest.empty()) {
    REQUIRE(rest.size() >= 16);
    const auto length = number_at<std::uint64_t>(rest, 0);
    REQUIRE(rest.size() >= length + 16);
    CHECK(number_at<std::uint32_t>(rest, 8) == masked(crc32c_by_bits(rest.substr(0, 8))));
    const std::string_view body = rest.substr(12, length);
    CHECK(number_at<std::uint32_t>(rest, 12 + length) == masked(crc32c_by_bits(body)));
    REQUIRE(events.emplace_back().ParseFromArray(body.data(), static_cast<int>(body.size())));
    rest.remove_prefix(length + 16);
  }
  return events;
}

TEST_CASE("a record is its length and its bytes, each behind or before its masked CRC32C") {
  CHECK(crc32c_by_bits("123456789") == 0xE3069283);  // the check value of CRC-32C
  const std::string record = event_record("123456789");
  REQUIRE(record.size() == 8 + 4 + 9 + 4);
  CHECK(number_at<std::uint64_t>(record, 0) == 9);
  CHECK(number_at<std::uint32_t>(record, 8) == masked(crc32c_by_bits(record.substr(0, 8))));
  CHECK(record.substr(12, 9) == "123456789");
  CHECK(number_at<std::uint32_t>(record, 21) == masked(0xE3069283));
}

TEST_CASE("an event file holds what was put into it, in order") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("events.out.tfevents.test");
  EventFile file(path, 57);
  file.session_start(
      {{"train.batch", std::int64_t{64}}, {"lr", 0.5}, {"flip", true}, {"name", std::string("vit")}});
  file.scalars(60, {{"train/loss", 1.25}, {"train/odd", NAN}});
  const std::vector<std::byte> png = {std::byte{1}, std::byte{0}, std::byte{255}};
  file.image(60, "eval/pictures", 7, 5, 3, png);
  const std::vector<float> weights = {-1, 0, 3};
  file.histograms(61, {{"weights/a", histogram_of(weights)}});
  file.graph("a graph");
  file.session_end();
  CHECK(file.sync() == static_cast<std::int64_t>(read_file(path).size()));

  const std::vector<events::Event> events = events_of(path);
  REQUIRE(events.size() == 8);
  for (const events::Event& event : events) CHECK(event.wall_time() > 1.6e9);
  CHECK(events[0].file_version() == "brain.Event:2");
  CHECK(events[1].step() == 57);
  CHECK(events[1].session_log().status() == events::SessionLog::START);

  const auto hparams = [&](std::size_t i) {
    const events::Summary::Value& value = events[i].summary().value(0);
    CHECK(value.metadata().plugin_data().plugin_name() == "hparams");
    events::HparamsData data;
    REQUIRE(data.ParseFromString(value.metadata().plugin_data().content()));
    return data;
  };
  CHECK(events[2].summary().value(0).tag() == "_hparams_/session_start_info");
  const events::HparamsData begun = hparams(2);
  const auto& values = begun.session_start_info().hparams();
  REQUIRE(values.size() == 4);
  CHECK(values.at("train.batch").number_value() == 64);
  CHECK(values.at("lr").number_value() == 0.5);
  CHECK(values.at("flip").bool_value());
  CHECK(values.at("name").string_value() == "vit");

  REQUIRE(events[3].summary().value_size() == 2);
  CHECK(events[3].step() == 60);
  CHECK(events[3].summary().value(0).tag() == "train/loss");
  CHECK(events[3].summary().value(0).simple_value() == 1.25F);
  CHECK(std::isnan(events[3].summary().value(1).simple_value()));

  const events::Summary::Image& image = events[4].summary().value(0).image();
  CHECK(image.height() == 7);
  CHECK(image.width() == 5);
  CHECK(image.colorspace() == 3);
  CHECK(image.encoded() == std::string("\x01\x00\xff", 3));

  CHECK(events[5].step() == 61);
  CHECK(events[5].summary().value(0).histogram().num() == 3);
  CHECK(events[6].graph_def() == "a graph");
  CHECK(events[7].summary().value(0).tag() == "_hparams_/session_end_info");
  CHECK(hparams(7).session_end_info().status() == 1);
}

TEST_CASE("an event file that goes on keeps its beginning and says that what followed is void") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("events.out.tfevents.test");
  std::int64_t kept = 0;
  {
    EventFile file(path, 5);
    file.scalars(6, {{"train/loss", 2}});
    kept = file.sync();
    file.scalars(8, {{"train/loss", 1}});
  }
  EventFile file(path, 7, kept);
  file.scalars(8, {{"train/loss", 3}});
  const std::vector<events::Event> events = events_of(path);
  REQUIRE(events.size() == 5);
  CHECK(events[0].file_version() == "brain.Event:2");
  CHECK(events[2].step() == 6);
  CHECK(events[3].step() == 7);
  CHECK(events[3].session_log().status() == events::SessionLog::START);
  CHECK(events[3].file_version().empty());
  CHECK(events[4].summary().value(0).simple_value() == 3.0F);
  CHECK_THROWS_WITH(EventFile(path, 9, 1 << 20), REWIRE_CATCH_CONTAINS("fewer than the"));
}

TEST_CASE("a histogram counts every finite number in the bucket that holds it") {
  std::mt19937 random(5);
  std::normal_distribution<float> draw(0.5F, 2.0F);
  std::vector<float> numbers(1000);
  for (float& number : numbers) number = draw(random);
  numbers[10] = std::numeric_limits<float>::infinity();
  numbers[20] = std::numeric_limits<float>::quiet_NaN();
  const Histogram histogram = histogram_of(numbers);
  REQUIRE(histogram.buckets.size() == kHistogramBuckets);
  std::vector<float> finite;
  for (const float number : numbers)
    if (std::isfinite(number)) finite.push_back(number);
  const auto [least, most] = std::ranges::minmax(finite);
  CHECK(histogram.min == least);
  CHECK(histogram.max == most);
  CHECK(histogram.buckets.back().first == most);
  CHECK(histogram.count == 998);
  double sum = 0, squares = 0, counted = 0, before = -std::numeric_limits<double>::infinity();
  for (const float number : finite) {
    sum += number;
    squares += double{number} * number;
  }
  CHECK(histogram.sum == Approx(sum));
  CHECK(histogram.sum_squares == Approx(squares));
  for (const auto& bucket : histogram.buckets) {
    const double limit = bucket.first, count = bucket.second;
    CHECK(count ==
          std::ranges::count_if(finite, [&](float number) { return number > before && number <= limit; }));
    counted += count;
    before = limit;
  }
  CHECK(counted == 998);

  const std::vector<float> same(7, -2.0F), none = {std::numeric_limits<float>::quiet_NaN()};
  REQUIRE(histogram_of(same).buckets.size() == 1);
  CHECK(histogram_of(same).buckets.front() == std::pair(-2.0, 7.0));
  CHECK(histogram_of(none).buckets.empty());
  CHECK(histogram_of({}).count == 0);
}

TEST_CASE("a graph has a node for each op, named by its place, with its inputs, shapes and attributes") {
  ir::Function function;
  function.name = "forward";
  const auto value = [&](ir::Shape shape) { return function.new_value({ir::DType::f32, std::move(shape)}); };
  const ir::Value image = value({2, 3}), weight = value({4, 3}), product = value({2, 4}), sum = value({2, 4}),
                  second = value({2, 4});
  function.arguments = {{"image", image}};
  const auto op = [&](ir::Opcode code, std::vector<ir::Value> operands, ir::Value result,
                      std::string location) {
    ir::Op& made = function.body.emplace_back();
    made.code = code;
    made.operands = std::move(operands);
    made.results = {result};
    made.location = std::move(location);
    return &made;
  };
  op(ir::Opcode::param, {}, weight, "blocks.0.fc")->attributes.set("name", std::string("blocks.0.fc.weight"));
  op(ir::Opcode::matmul, {image, weight}, product, "blocks.0.fc")->attributes.set("transpose_b", true);
  op(ir::Opcode::add, {product, product}, sum, "blocks.0");
  op(ir::Opcode::add, {sum, product}, second, "blocks.0");
  function.results = {{"logits", second}};

  events::Graph graph;
  REQUIRE(graph.ParseFromString(event_graph(function)));
  REQUIRE(graph.node_size() == 6);
  const std::vector<std::vector<std::string>> expected = {
      {"image", "Placeholder"},
      {"blocks/0/fc/weight", "param"},
      {"blocks/0/fc/matmul", "matmul", "image", "blocks/0/fc/weight"},
      {"blocks/0/add", "add", "blocks/0/fc/matmul", "blocks/0/fc/matmul"},
      {"blocks/0/add_1", "add", "blocks/0/add", "blocks/0/fc/matmul"},
      {"logits", "result", "blocks/0/add_1"}};
  for (int i = 0; i < graph.node_size(); ++i) {
    const events::Node& node = graph.node(i);
    std::vector<std::string> words = {node.name(), node.op()};
    words.insert(words.end(), node.input().begin(), node.input().end());
    CHECK(words == expected[static_cast<std::size_t>(i)]);
  }
  const events::Node& matmul = graph.node(2);
  CHECK(matmul.attr().at("T").type() == 1);  // DT_FLOAT
  CHECK(matmul.attr().at("transpose_b").s() == "true");
  REQUIRE(matmul.attr().at("_output_shapes").list().shape_size() == 1);
  const events::Shape& shape = matmul.attr().at("_output_shapes").list().shape(0);
  REQUIRE(shape.dim_size() == 2);
  CHECK(shape.dim(0).size() == 2);
  CHECK(shape.dim(1).size() == 4);
}

}  // namespace
}  // namespace rewire::runtime
