#include "runtime/serve/metrics_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "ir/error.h"
#include "runtime/device/process.h"
#include "runtime/serve/openmetrics.h"
#include "runtime/train/run_folder.h"

namespace rewire::runtime {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Text = http::response<http::string_body>;

constexpr const char* kOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr auto kPatience = std::chrono::seconds(5);  // with a client, for its request and for the answer
constexpr std::uint32_t kMostOfRequest = 8 << 10;
constexpr int kMostConversations = 32;  // at once: the run needs files too

Text answer_to(const http::request<http::empty_body>& request, const std::function<std::string()>& metrics) {
  Text answer{http::status::ok, request.version()};
  const bool asks = request.method() == http::verb::get || request.method() == http::verb::head;
  const beast::string_view target = request.target();
  if (!asks) {
    answer.result(http::status::method_not_allowed);
    answer.set(http::field::allow, "GET, HEAD");
  } else if (target.substr(0, target.find('?')) != "/metrics") {
    answer.result(http::status::not_found);
    answer.set(http::field::content_type, "text/plain; charset=utf-8");
    answer.body() = "the run's figures are at /metrics\n";
  } else {
    answer.set(http::field::content_type, kOpenMetrics);
    answer.body() = metrics();
  }
  answer.keep_alive(false);
  answer.prepare_payload();
  if (request.method() == http::verb::head) answer.body().clear();
  return answer;
}

/// One request of one client; it lives as long as something of it is under way.
class Conversation : public std::enable_shared_from_this<Conversation> {
 public:
  /// Counted in `count` as long as it lives.
  Conversation(Tcp::socket socket, const std::function<std::string()>& metrics, int& count)
      : stream_(std::move(socket)), metrics_(metrics), count_(count) {
    parser_.header_limit(kMostOfRequest);
    ++count_;
  }
  ~Conversation() { --count_; }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void begin() {
    stream_.expires_after(kPatience);
    http::async_read_header(stream_, buffer_, parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) {
                              if (!error) self->reply();
                            });
  }

 private:
  void reply() {
    answer_ = answer_to(parser_.get(), metrics_);
    stream_.expires_after(kPatience);
    http::async_write(stream_, answer_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (!error) self->stream_.socket().shutdown(Tcp::socket::shutdown_send, error);
    });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> parser_;
  Text answer_;
  const std::function<std::string()>& metrics_;
  int& count_;
};

/// What is known of the run.
struct KnownFigures {
  RunFacts facts;
  TrainView view;
  std::map<std::pair<std::string, std::string>, double> values;  // by kind and name, of the last such line
};

std::string figures_text(const KnownFigures& known) {
  const auto& [facts, view, values] = known;
  const std::string run = RunFolder::name_of(facts.run);
  const OpenMetrics::Labels labels = {{"run", run}};
  OpenMetrics metrics;
  const auto one = [&](std::string_view name, std::string_view type, std::string_view unit,
                       std::string_view help, double value) {
    metrics.family(name, type, unit, help);
    metrics.sample(labels, value);
  };
  const TrainPosition& at = view.position;
  one("rewire_steps", "counter", "", "Optimizer steps done.", static_cast<double>(at.step));
  one("rewire_planned_steps", "gauge", "", "Optimizer steps of the whole run.",
      static_cast<double>(facts.steps));
  one("rewire_epoch", "gauge", "", "Epoch that the run is in, counted from 0.",
      static_cast<double>(at.epoch));
  one("rewire_planned_epochs", "gauge", "", "Epochs of the whole run.", static_cast<double>(facts.epochs));
  if (!view.metrics.empty()) {
    one("rewire_loss", "gauge", "", "Loss of the last step.", view.metrics.front().value);
    one("rewire_images_per_second", "gauge", "", "Training images a second, of late.",
        view.images_per_second);
    one("rewire_left_seconds", "gauge", "seconds", "Until the run ends, by the pace of late.",
        view.seconds_left);
  }
  one("rewire_memory_peak_bytes", "gauge", "bytes", "Largest resident set of the process.",
      static_cast<double>(peak_memory_bytes()));
  metrics.family("rewire_metric", "gauge", "",
                 "A number of the last line of metrics.jsonl of its kind: train, eval or diagnose.");
  for (const auto& [key, value] : values)
    metrics.sample({{"run", run}, {"kind", key.first}, {"name", key.second}}, value);
  return std::move(metrics).text();
}

}  // namespace

struct MetricsServer::Figures {
  std::mutex mutex;
  KnownFigures known;

  /// A step waits for the copy at most.
  std::string text() {
    std::unique_lock lock(mutex);
    const KnownFigures copy = known;
    lock.unlock();
    return figures_text(copy);
  }
};

class MetricsServer::Listener {
 public:
  Listener(const std::string& address, std::uint16_t port, std::function<std::string()> metrics)
      : metrics_(std::move(metrics)), acceptor_(context_) {
    open(address, port);
    accept();
    // Signals are the trainer's.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { serve(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Listener() {
    context_.stop();
    thread_.join();
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

 private:
  /// Until it is stopped. A conversation that finds no memory ends, and no more than that.
  void serve() {
    while (!context_.stopped()) {
      try {
        context_.run();
      } catch (const std::exception&) {
        continue;
      }
    }
  }

  void open(const std::string& address, std::uint16_t port) {
    beast::error_code error;
    const asio::ip::address where = asio::ip::make_address(address, error);
    if (error) {
      user_error("--metrics-address {} is no address: it takes 127.0.0.1, 0.0.0.0, ::1 and the like",
                 address);
    }
    const Tcp::endpoint endpoint(where, port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      user_error(
          "cannot serve metrics on port {} of {}: {}; choose another --metrics-port, or 0 for any that is "
          "free",
          port, address, error.message());
    }
  }

  void accept() {
    acceptor_.async_accept([this](beast::error_code error, Tcp::socket socket) {
      if (!error) {
        begin(std::move(socket));
        return accept();
      }
      if (error == asio::error::operation_aborted) return;
      // As too many open files: those that wait are taken later.
      pause_.expires_after(std::chrono::seconds(1));
      pause_.async_wait([this](beast::error_code stopped) {
        if (!stopped) accept();
      });
    });
  }

  /// One too many is closed unheard.
  void begin(Tcp::socket socket) {
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    if (conversations_ < kMostConversations)
      std::make_shared<Conversation>(std::move(socket), metrics_, conversations_)->begin();
  }

  const std::function<std::string()> metrics_;
  int conversations_ = 0;  // under way; it outlives context_, which holds them
  asio::io_context context_{1};
  Tcp::acceptor acceptor_;
  asio::steady_timer pause_{context_};
  std::thread thread_;
};

MetricsServer::MetricsServer(const std::string& address, std::uint16_t port, TrainObserver& observer)
    : observer_(observer),
      figures_(std::make_unique<Figures>()),
      listener_(std::make_unique<Listener>(address, port, [this] { return figures_->text(); })) {}

MetricsServer::~MetricsServer() = default;

std::string MetricsServer::url() const {
  const Tcp::endpoint at = listener_->endpoint();
  const std::string host =
      at.address().is_v6() ? fmt::format("[{}]", at.address().to_string()) : at.address().to_string();
  return fmt::format("http://{}:{}/metrics", host, at.port());
}

void MetricsServer::started(const RunFacts& facts) {
  {
    const std::lock_guard lock(figures_->mutex);
    figures_->known.facts = facts;
    figures_->known.view.position = facts.position;
  }
  observer_.started(facts);
}

void MetricsServer::stepped(const TrainView& view) {
  {
    const std::lock_guard lock(figures_->mutex);
    figures_->known.view = view;
  }
  observer_.stepped(view);
}

void MetricsServer::recorded(const nlohmann::ordered_json& line) {
  {
    const std::lock_guard lock(figures_->mutex);
    const auto& kind = line.at("kind").get_ref<const std::string&>();
    for (const auto& [name, value] : line.items()) {
      if (name != "kind")
        figures_->known.values[{kind, name}] = value.is_number() ? value.get<double>() : NAN;
    }
  }
  observer_.recorded(line);
}

}  // namespace rewire::runtime
