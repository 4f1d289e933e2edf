#include "runtime/train/metrics_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "ir/error.h"
#include "ir/side_results.h"
#include "runtime/io/files.h"

namespace rewire::runtime {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& path) {
  user_error("cannot write {}: {}", path, std::generic_category().message(errno));
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, std::int64_t bytes) : path_(path), bytes_(bytes) {
  // A pipe would be waited for.
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path);
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) fail(path);
  if (!S_ISREG(status.st_mode)) user_error("{} is no file: a run's metrics stand in one", path);
  if (status.st_size < bytes) {
    ::close(descriptor_);
    user_error("{} has {} bytes, fewer than the {} that the checkpoint counts: it was cut short", path,
               status.st_size, bytes);
  }
  // A checkpoint that counts its bytes is worth nothing where a loss of power takes the file's name away.
  if (status.st_size == 0) sync_folder(std::filesystem::path(path).parent_path().string());
  if (::ftruncate(descriptor_, bytes) != 0 || ::lseek(descriptor_, bytes, SEEK_SET) < 0) fail(path);
}

MetricsLog::~MetricsLog() {
  ::close(descriptor_);
}

void MetricsLog::train_line(const TrainPosition& position, const MetricValues& metrics, double grad_norm,
                            double lr, double images_per_second) {
  Json line = {{"kind", "train"}, {"epoch", position.epoch}, {"step", position.step}};
  for (const MetricValue& metric : metrics) line[metric.name] = metric.value;
  line["grad_norm"] = grad_norm;
  line["lr"] = lr;
  line["images_per_s"] = images_per_second;
  append(line.dump());
}

void MetricsLog::eval_line(const TrainPosition& position, const Evaluation& evaluation) {
  Json line = {{"kind", "eval"}, {"epoch", position.epoch}, {"step", position.step}};
  for (const MetricValue& metric : evaluation.metrics) line[metric.name] = metric.value;
  line["images"] = evaluation.images;
  line["seconds"] = evaluation.seconds;
  append(line.dump());
}

void MetricsLog::diagnose_line(const TrainPosition& position, const MetricValues& diagnostics) {
  Json line = {{"kind", "diagnose"}, {"epoch", position.epoch}, {"step", position.step}};
  for (const MetricValue& one : diagnostics) {
    const bool is_report = one.name.starts_with(ir::kReportPrefix);
    line[is_report ? one.name : "diagnose." + one.name] = one.value;
  }
  append(line.dump());
}

void MetricsLog::append(const std::string& line) {
  const std::string text = line + "\n";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int cause = errno;
      // No half line: what a reader sees are whole ones.
      if (::ftruncate(descriptor_, bytes_) == 0) ::lseek(descriptor_, bytes_, SEEK_SET);
      errno = cause;
      fail(path_);
    }
    done += static_cast<std::size_t>(count);
  }
  bytes_ += static_cast<std::int64_t>(text.size());
}

std::int64_t MetricsLog::sync() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail(path_);
  return bytes_;
}

}  // namespace rewire::runtime
