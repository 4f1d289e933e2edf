// Ranks as threads of this process: a group without MPI, for tests of what ranks do with one.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "runtime/group/group.h"

namespace rewire::test {

class ThreadGroups {
 public:
  explicit ThreadGroups(int size)
      : size_(size), sums_(static_cast<std::size_t>(size)), bytes_(static_cast<std::size_t>(size)) {}

  /// Runs `act` once for each rank. Returns what each rank threw, "" for nothing. What one throws ends all.
  std::vector<std::string> run(const std::function<void(runtime::Group& group)>& act) {
    std::vector<std::string> thrown(static_cast<std::size_t>(size_));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        Member member(*this, rank);
        try {
          act(member);
        } catch (const std::exception& error) {
          thrown[static_cast<std::size_t>(rank)] = error.what();
          end();
        }
      });
    }
    threads.clear();
    return thrown;
  }

 private:
  class Member final : public runtime::Group {
   public:
    Member(ThreadGroups& all, int rank) : Group(rank, all.size_), all_(all) {}
    Ticket start_sum(std::span<float> numbers) override {
      all_.sums_[static_cast<std::size_t>(rank_)] = numbers;
      all_.meet();
      std::vector<float> sum(numbers.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = all_.tree(0, all_.sums_.size(), i);
      all_.meet();
      std::ranges::copy(sum, numbers.begin());
      return 0;
    }
    void wait(Ticket) override {}
    void broadcast(std::span<std::byte> bytes, int from) override {
      all_.bytes_[static_cast<std::size_t>(rank_)] = bytes;
      all_.meet();
      if (rank_ != from) std::ranges::copy(all_.bytes_[static_cast<std::size_t>(from)], bytes.begin());
      all_.meet();
    }
    void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
      all_.bytes_[static_cast<std::size_t>(rank_)] = own;
      all_.meet();
      for (const std::span<const std::byte> one : all_.bytes_) {
        if (one.size() != own.size()) throw RuntimeFailure("ranks gather different numbers of bytes");
        all = all.subspan(static_cast<std::size_t>(std::ranges::copy(one, all.begin()).out - all.begin()));
      }
      all_.meet();
    }
    void barrier() override { all_.meet(); }
    void finish() override {}
    [[noreturn]] void abort(const std::string& reason, int) override { throw RuntimeFailure(reason); }

   private:
    ThreadGroups& all_;
  };

  float tree(std::size_t begin, std::size_t end, std::size_t at) const {
    if (end - begin == 1) return sums_[begin][at];
    const std::size_t middle = (begin + end) / 2;
    return tree(begin, middle, at) + tree(middle, end, at);
  }

  /// Returns when all ranks have come.
  void meet() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++here_ == size_) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return ended_ || round_ != round; });
    if (round_ == round) throw RuntimeFailure("another rank ended the run");
  }

  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  const int size_;
  std::vector<std::span<float>> sums_;
  std::vector<std::span<const std::byte>> bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0, round_ = 0;
  bool ended_ = false;
};

}  // namespace rewire::test
