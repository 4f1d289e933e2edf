#include "runtime/group/mpi_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "runtime/group/mpi_library.h"

namespace rewire::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kBeat = 500ms;
/// How much longer each rank makes the start: 1,024 ranks may take two minutes.
constexpr auto kStartOfARank = 100ms;
constexpr int kSumTag = 1, kBeatTag = 2;
constexpr std::size_t kHostBytes = 64;
/// MPI counts in int.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

std::array<char, kHostBytes> own_host() {
  std::array<char, kHostBytes> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) std::strcpy(name.data(), "?");
  return name;
}

/// Writes the last line of a rank that ends all of them.
void say(int rank, int size, const std::string& reason) {
  std::fprintf(stderr, "rewire: rank %d of %d on %s: %s\n", rank, size, own_host().data(), reason.c_str());
  std::fflush(stderr);
}

/// Why all processes shall end. Another thread than MPI's writes it.
struct Ending {
  std::once_flag first;
  std::string reason;
  int status = 1;
  std::atomic<bool> is_set = false;
};

/// What the thread does: MPI's calls, each from there alone.
class Transport {
 public:
  Transport(int& rank, int& size, std::chrono::seconds longest_silence, const Ending& ending)
      : mpi_(mpi_library()), longest_silence_(longest_silence), ending_(ending) {
    constexpr int kFunneled = 1;
    int provided = 0;
    if (mpi_.init_thread(nullptr, nullptr, kFunneled, &provided) != 0)
      throw RuntimeFailure("MPI_Init_thread failed");
    mpi_.comm_rank(mpi_.world, &rank_);
    mpi_.comm_size(mpi_.world, &size_);
    rank = rank_, size = size_;
    last_heard_ = Clock::now();
    hosts_.resize(static_cast<std::size_t>(size_));
    const std::array<char, kHostBytes> host = own_host();
    Request request;
    mpi_.iallgather(host.data(), kHostBytes, mpi_.bytes, hosts_.data(), kHostBytes, mpi_.bytes, mpi_.world,
                    &request);
    finish(request);
    listen();
  }

  void sum(std::span<float> numbers) {
    std::vector<std::span<float>> parts;  // what this rank was responsible for before each step
    std::span<float> own = numbers;
    for (int distance = 1; distance < size_; distance *= 2) {
      parts.push_back(own);
      const std::size_t half = own.size() / 2;
      const bool is_lower = (rank_ & distance) == 0;
      const std::span<float> kept = is_lower ? own.first(half) : own.subspan(half);
      const std::span<float> given = is_lower ? own.subspan(half) : own.first(half);
      received_.resize(kept.size());
      exchange(rank_ ^ distance, std::as_bytes(given), std::as_writable_bytes(std::span(received_)));
      for (std::size_t i = 0; i < kept.size(); ++i) kept[i] += received_[i];
      own = kept;
    }
    for (int distance = size_ / 2; distance >= 1; distance /= 2) {
      const std::span<float> whole = parts.back();
      parts.pop_back();
      const std::span<float> other =
          own.data() == whole.data() ? whole.subspan(own.size()) : whole.first(whole.size() - own.size());
      exchange(rank_ ^ distance, std::as_bytes(own), std::as_writable_bytes(other));
      own = whole;
    }
  }

  void broadcast(std::span<std::byte> bytes, int from) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMostBytes))) {
      Request request;
      mpi_.ibcast(bytes.data(), count(bytes), mpi_.bytes, from, mpi_.world, &request);
      finish(request);
    }
  }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) {
    Request request;
    mpi_.iallgather(own.data(), count(own), mpi_.bytes, all.data(), count(own), mpi_.bytes, mpi_.world,
                    &request);
    finish(request);
  }

  void barrier() {
    Request request;
    mpi_.ibarrier(mpi_.world, &request);
    finish(request);
  }

  /// Leaves MPI, after a barrier: until then the others still hear this rank.
  void finalize() {
    if (heard_ != mpi_.no_request && heard_ != nullptr) {
      mpi_.cancel(&heard_);
      mpi_.request_free(&heard_);
    }
    mpi_.finalize();
  }

  /// Sends the byte that says that this rank lives, and looks for that of the rank before.
  void beat() {
    if (ending_.is_set) abort(ending_.reason, ending_.status);
    if (size_ == 1) return;
    const Clock::time_point now = Clock::now();
    if (now - last_sent_ >= kBeat && done(sent_)) {
      last_sent_ = now;
      mpi_.isend(&sign_, 1, mpi_.bytes, (rank_ + 1) % size_, kBeatTag, mpi_.world, &sent_);
    }
    if (done(heard_)) {
      last_heard_ = now;
      listen();
    }
    if (now - last_heard_ > longest_silence_) {
      const int silent = (rank_ + size_ - 1) % size_;
      abort(fmt::format(
          "rank {} on {} has said nothing for {} s: it was killed or stopped, or the network is gone", silent,
          hosts_[static_cast<std::size_t>(silent)].data(), longest_silence_.count()));
    }
  }

  [[noreturn]] void abort(const std::string& reason, int status = 1) {
    say(rank_, size_, reason);
    mpi_.abort(mpi_.world, status);
    std::_Exit(status);
  }

 private:
  using Request = MpiLibrary::Handle;

  static int count(std::span<const std::byte> bytes) {
    return static_cast<int>(std::min(bytes.size(), kMostBytes));
  }

  void listen() {
    if (size_ > 1)
      mpi_.irecv(&heard_byte_, 1, mpi_.bytes, (rank_ + size_ - 1) % size_, kBeatTag, mpi_.world, &heard_);
  }

  bool done(Request& request) {
    if (request == nullptr || request == mpi_.no_request) return true;
    int done = 0;
    if (mpi_.test(&request, &done, nullptr) != 0) throw RuntimeFailure("MPI_Test failed");
    return done != 0;
  }

  void finish(Request& request) {
    for (std::int64_t tries = 0; !done(request); ++tries) {
      beat();
      // A partner that computes for long must not cost a core.
      if (tries > 10'000)
        std::this_thread::sleep_for(50us);
      else if (tries > 100)
        std::this_thread::yield();
    }
  }

  void exchange(int partner, std::span<const std::byte> out, std::span<std::byte> in) {
    while (!out.empty() || !in.empty()) {
      Request sent = nullptr, received = nullptr;
      if (!in.empty()) mpi_.irecv(in.data(), count(in), mpi_.bytes, partner, kSumTag, mpi_.world, &received);
      if (!out.empty()) mpi_.isend(out.data(), count(out), mpi_.bytes, partner, kSumTag, mpi_.world, &sent);
      finish(received);
      finish(sent);
      in = in.subspan(static_cast<std::size_t>(count(in)));
      out = out.subspan(static_cast<std::size_t>(count(out)));
    }
  }

  const MpiLibrary& mpi_;
  const std::chrono::seconds longest_silence_;
  const Ending& ending_;
  int rank_ = 0, size_ = 1;
  std::vector<std::array<char, kHostBytes>> hosts_;
  std::vector<float> received_;
  char sign_ = 1, heard_byte_ = 0;
  Request sent_ = nullptr, heard_ = nullptr;
  Clock::time_point last_sent_{}, last_heard_{};
};

class MpiGroup : public Group {
 public:
  MpiGroup(Launched launched, std::chrono::seconds longest_silence)
      : Group(launched.rank, launched.size), longest_silence_(longest_silence) {
    std::promise<void> begun;
    std::future<void> ready = begun.get_future();
    thread_ = std::thread([this, begun = std::move(begun)]() mutable { serve(begun); });
    // MPI_Init_thread waits for all ranks, and nobody is heard before it has returned.
    const auto longest_start = longest_silence + launched.size * kStartOfARank;
    if (ready.wait_for(longest_start) != std::future_status::ready)
      leave(fmt::format(
          "not all ranks have started after {} s: one was killed or stopped, cannot be reached, or "
          "cannot open MPI",
          std::chrono::ceil<std::chrono::seconds>(longest_start).count()));
    try {
      ready.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }

  ~MpiGroup() override {
    if (thread_.joinable() && !finished_) abort("it ended before its run was done", 1);
    if (thread_.joinable()) thread_.join();
  }

  Ticket start_sum(std::span<float> numbers) override {
    return submit([numbers](Transport& transport) { transport.sum(numbers); });
  }
  void wait(Ticket ticket) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= ticket; });
  }
  void broadcast(std::span<std::byte> bytes, int from) override {
    wait(submit([=](Transport& transport) { transport.broadcast(bytes, from); }));
  }
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    if (all.size() != own.size() * static_cast<std::size_t>(size_) || own.size() > kMostBytes)
      internal_error("a gather of {} bytes of {} ranks into {}", own.size(), size_, all.size());
    wait(submit([own, all](Transport& transport) { transport.gather(own, all); }));
  }
  void barrier() override {
    wait(submit([](Transport& transport) { transport.barrier(); }));
  }
  void finish() override {
    barrier();
    const Ticket last = submit([](Transport& transport) { transport.finalize(); }, true);
    {
      // MPI_Finalize waits for all ranks too.
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, longest_silence_, [&] { return done_ >= last; }))
        leave(fmt::format(
            "not all ranks have left MPI after {} s: one was killed or stopped. This run was done",
            longest_silence_.count()));
    }
    finished_ = true;
    thread_.join();
  }
  [[noreturn]] void abort(const std::string& reason, int status) override {
    // The thread may be in MPI, where another must not be: it ends the processes between two of its calls.
    std::call_once(ending_.first, [&] {
      ending_.reason = reason;
      ending_.status = status;
      ending_.is_set = true;
    });
    while (true) std::this_thread::sleep_for(1s);
  }

 private:
  using Job = std::function<void(Transport&)>;

  /// Ends this process while its thread is in a call of MPI that does not return. The launcher then ends the others.
  [[noreturn]] void leave(const std::string& reason) const {
    say(rank_, size_, reason);
    std::_Exit(1);
  }

  Ticket submit(Job job, bool is_last = false) {
    const std::scoped_lock lock(mutex_);
    if (last_) internal_error("a group was used after finish()");
    jobs_.push_back(std::move(job));
    last_ = is_last;
    changed_.notify_all();
    return ++submitted_;
  }

  void serve(std::promise<void>& begun) {
    std::optional<Transport> transport;
    try {
      transport.emplace(rank_, size_, longest_silence_, ending_);
      if (!std::has_single_bit(static_cast<unsigned>(size_))) {
        if (rank_ == 0)
          transport->abort(fmt::format("{} processes: their number must be a power of two", size_), 2);
        transport->barrier();  // rank 0 ends this process
      }
      begun.set_value();
    } catch (...) {
      begun.set_exception(std::current_exception());
      return;
    }
    while (true) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, 100ms, [&] { return !jobs_.empty(); });
        if (!jobs_.empty()) {
          job = std::move(jobs_.front());
          jobs_.pop_front();
        }
      }
      try {
        if (!job) {
          transport->beat();
          continue;
        }
        job(*transport);
      } catch (const std::exception& error) {
        transport->abort(error.what());  // MPI can no more be used
      }
      const std::scoped_lock lock(mutex_);
      ++done_;
      changed_.notify_all();
      if (last_ && jobs_.empty()) return;
    }
  }

  const std::chrono::seconds longest_silence_;
  Ending ending_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Ticket submitted_ = 0, done_ = 0;
  bool last_ = false, finished_ = false;
};

}  // namespace

std::unique_ptr<Group> make_mpi_group(Launched launched, std::chrono::seconds longest_silence) {
  return std::make_unique<MpiGroup>(launched, longest_silence);
}

}  // namespace rewire::runtime
