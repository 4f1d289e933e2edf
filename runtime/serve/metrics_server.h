// A run's figures over HTTP, as OpenMetrics text, for Prometheus and whatever else scrapes: GET /metrics.
//
// In: what a TrainObserver is told, which is kept as numbers. Out: text, made for each request by a thread of its own. So a
// step pays for a lock and a copy of its few metrics, and nothing waits for a client. There are at most 32 clients at
// once; one more is closed unheard, so that no crowd takes the files that the run needs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/train/trainer.h"

namespace rewire::runtime {

/// An observer that passes on what it is told.
class MetricsServer final : public TrainObserver {
 public:
  /// Listens at once; port 0 is any that is free. UserError where the address is none, or the port is taken.
  MetricsServer(const std::string& address, std::uint16_t port, TrainObserver& observer);
  ~MetricsServer() override;

  /// "http://127.0.0.1:9090/metrics"
  std::string url() const;

  void compiling(const std::string& program) override { observer_.compiling(program); }
  void started(const RunFacts& facts) override;
  void stepped(const TrainView& view) override;
  void logged(const TrainView& view) override { observer_.logged(view); }
  void recorded(const nlohmann::ordered_json& line) override;
  void evaluating(std::int64_t done, std::int64_t batches) override { observer_.evaluating(done, batches); }
  void epoch_done(const EpochReport& report) override { observer_.epoch_done(report); }
  void replaying(const std::string& program) override { observer_.replaying(program); }

 private:
  struct Figures;
  class Listener;
  TrainObserver& observer_;
  const std::unique_ptr<Figures> figures_;
  const std::unique_ptr<Listener> listener_;
};

}  // namespace rewire::runtime
