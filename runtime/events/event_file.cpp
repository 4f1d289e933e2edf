#include "runtime/events/event_file.h"

#include <event.pb.h>

#include <boost/crc.hpp>
#include <chrono>

namespace rewire::runtime {
namespace {

constexpr const char* kEventVersion = "brain.Event:2";
constexpr const char* kHparamsPlugin = "hparams";
constexpr int kEndedWell = 1;

void put_number(std::string& record, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) record += static_cast<char>(value >> (8 * i));
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
  sum.process_bytes(bytes.data(), bytes.size());
  const auto crc = static_cast<std::uint32_t>(sum.checksum());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

events::Event event_at(std::int64_t step) {
  events::Event event;
  event.set_wall_time(unix_seconds());
  event.set_step(step);
  return event;
}

void append_event(AppendedFile& file, const events::Event& event) {
  file.append(event_record(event.SerializeAsString()));
}

void append_hparams(AppendedFile& file, const std::string& tag, const events::HparamsData& data) {
  events::Event event = event_at(0);
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  auto& plugin = *value.mutable_metadata()->mutable_plugin_data();
  plugin.set_plugin_name(kHparamsPlugin);
  plugin.set_content(data.SerializeAsString());
  append_event(file, event);
}

struct SetHparam {
  events::Value& value;
  void operator()(bool flag) const { value.set_bool_value(flag); }
  void operator()(std::int64_t number) const { value.set_number_value(static_cast<double>(number)); }
  void operator()(double number) const { value.set_number_value(number); }
  void operator()(const std::string& text) const { value.set_string_value(text); }
};

}  // namespace

std::string event_record(std::string_view bytes) {
  std::string record;
  put_number(record, bytes.size(), 8);
  put_number(record, masked_crc32c(record), 4);
  record += bytes;
  put_number(record, masked_crc32c(bytes), 4);
  return record;
}

EventFile::EventFile(const FilePlace& place, std::int64_t first_step, std::int64_t bytes)
    : file_(place, bytes, "the run's events go there") {
  events::Event version = event_at(0), start = event_at(first_step);
  version.set_file_version(kEventVersion);
  start.mutable_session_log()->set_status(events::SessionLog::START);
  const std::string begin = bytes == 0 ? event_record(version.SerializeAsString()) : "";
  file_.append(begin + event_record(start.SerializeAsString()));
}

void EventFile::scalars(std::int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  events::Event event = event_at(step);
  for (const auto& [tag, number] : values) {
    events::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(number));
  }
  append_event(file_, event);
}

void EventFile::image(std::int64_t step, const std::string& tag, std::int64_t height, std::int64_t width,
                      std::int64_t channels, std::span<const std::byte> png) {
  events::Event event = event_at(step);
  events::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  events::Summary::Image& image = *value.mutable_image();
  image.set_height(static_cast<std::int32_t>(height));
  image.set_width(static_cast<std::int32_t>(width));
  image.set_colorspace(static_cast<std::int32_t>(channels));
  image.set_encoded(png.data(), png.size());
  append_event(file_, event);
}

void EventFile::histograms(std::int64_t step, const std::vector<std::pair<std::string, Histogram>>& values) {
  events::Event event = event_at(step);
  for (const auto& [tag, counted] : values) {
    events::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    events::Histogram& histogram = *value.mutable_histogram();
    histogram.set_min(counted.min);
    histogram.set_max(counted.max);
    histogram.set_num(counted.count);
    histogram.set_sum(counted.sum);
    histogram.set_sum_squares(counted.sum_squares);
    for (const auto& [limit, count] : counted.buckets) {
      histogram.add_bucket_limit(limit);
      histogram.add_bucket(count);
    }
  }
  append_event(file_, event);
}

void EventFile::graph(const std::string& bytes) {
  events::Event event = event_at(0);
  event.set_graph_def(bytes);
  append_event(file_, event);
}

void EventFile::session_start(const FlatValues& hparams) {
  events::HparamsData data;
  events::HparamsData::SessionStart& start = *data.mutable_session_start_info();
  start.set_start_time_secs(unix_seconds());
  for (const auto& [key, value] : hparams) std::visit(SetHparam{(*start.mutable_hparams())[key]}, value);
  append_hparams(file_, "_hparams_/session_start_info", data);
}

void EventFile::session_end() {
  events::HparamsData data;
  data.mutable_session_end_info()->set_status(kEndedWell);
  data.mutable_session_end_info()->set_end_time_secs(unix_seconds());
  append_hparams(file_, "_hparams_/session_end_info", data);
}

}  // namespace rewire::runtime
