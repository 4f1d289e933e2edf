// group_ranks MODE [RANK]: what a rank of the tests does; runtime_group_test starts it by mpirun.
//   sums      sums of 8 shards, of several sizes: prints a number that depends on each bit of them
//   others    broadcast, gather and barrier, checked by each rank
//   abort, leave, stop, die   the rank ends so: by abort(), by an exception, SIGSTOP, SIGKILL; the others wait for it
//   late, last   the rank gets SIGSTOP before MPI_Init_thread, within MPI_Finalize
//   slow      the rank computes for longer than a silence may last, without a call of the group
#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "runtime/device/process.h"
#include "runtime/group/group.h"
#include "runtime/group/shared_cores.h"

namespace rewire::test {
namespace {

using namespace std::chrono_literals;
using runtime::Group;

constexpr int kShards = 8;

/// The numbers of a shard: of both signs, and of sizes so different that each order of adding has another sum.
std::vector<float> shard(int number, std::size_t size) {
  std::vector<float> numbers(size);
  std::uint32_t state =
      static_cast<std::uint32_t>(number) * 2654435761u + static_cast<std::uint32_t>(size) + 1;
  for (float& value : numbers) {
    state = state * 1664525u + 1013904223u;
    const float unit = static_cast<float>(state >> 8) / static_cast<float>(1u << 23) - 1;
    value = unit * static_cast<float>(1u << (state % 20));
  }
  return numbers;
}

/// The sum of neighbouring shards as a binary tree.
std::vector<float> tree(int first, int count, std::size_t size) {
  if (count == 1) return shard(first, size);
  std::vector<float> sum = tree(first, count / 2, size);
  const std::vector<float> right = tree(first + count / 2, count / 2, size);
  for (std::size_t i = 0; i < size; ++i) sum[i] += right[i];
  return sum;
}

std::uint64_t hash(const std::vector<float>& numbers, std::uint64_t start) {
  for (const float number : numbers) {
    std::uint32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    start = (start ^ bits) * 1099511628211u;
  }
  return start;
}

void sums(Group& group) {
  const int each = kShards / group.size();
  std::vector<std::vector<float>> all;
  std::vector<Group::Ticket> tickets;
  for (const std::size_t size : {0u, 1u, 2u, 3u, 7u, 1000u, 65537u, 1u << 20})
    all.push_back(tree(group.rank() * each, each, size));
  for (std::vector<float>& numbers : all) tickets.push_back(group.start_sum(numbers));
  std::uint64_t number = 14695981039346656037u;
  for (std::size_t i = 0; i < all.size(); ++i) {
    group.wait(tickets[i]);
    number = hash(all[i], number);
  }
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(group.size()));
  group.gather(std::as_bytes(std::span(&number, 1)), std::as_writable_bytes(std::span(numbers)));
  for (const std::uint64_t other : numbers)
    if (other != number) throw std::runtime_error("the ranks have other sums");
  if (group.rank() == 0) fmt::print("{:016x}\n", number);
}

void others(Group& group) {
  const auto check = [](bool holds, const char* what) {
    if (!holds) throw std::runtime_error(what);
  };
  std::vector<float> numbers = shard(group.rank(), 1001);
  group.broadcast(std::as_writable_bytes(std::span(numbers)));
  check(numbers == shard(0, 1001), "broadcast");
  const std::vector<float> own = shard(group.rank(), 33);
  std::vector<float> all(own.size() * static_cast<std::size_t>(group.size()));
  group.gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  for (int rank = 0; rank < group.size(); ++rank) {
    const std::vector<float> theirs = shard(rank, 33);
    check(std::equal(theirs.begin(), theirs.end(), all.begin() + 33 * rank), "gather");
  }
  const int cores = runtime::own_cores(group);
  check(cores >= 1 && cores <= runtime::usable_cores(), "cores");
  group.barrier();
  if (group.rank() == 0) fmt::print("{} ranks\n", group.size());
}

/// Lets MPI_Finalize stop this process: it deletes the attributes of MPI_COMM_SELF before anything else.
void stop_when_finalized() {
  using Delete = int (*)(void*, int, void*, void*);
  const auto find = [](const char* name) {
    void* symbol = ::dlsym(RTLD_DEFAULT, name);
    if (symbol == nullptr) throw std::runtime_error(name);
    return symbol;
  };
  const auto create_keyval =
      reinterpret_cast<int (*)(void*, Delete, int*, void*)>(find("MPI_Comm_create_keyval"));
  const auto set_attribute = reinterpret_cast<int (*)(void*, int, void*)>(find("MPI_Comm_set_attr"));
  int key = 0;
  create_keyval(
      find("OMPI_C_MPI_COMM_NULL_COPY_FN"), [](void*, int, void*, void*) { return ::raise(SIGSTOP); }, &key,
      nullptr);
  set_attribute(find("ompi_mpi_comm_self"), key, nullptr);
}

int run(const std::string& mode, int rank) {
  ::setenv("REWIRE_MPI_TIMEOUT", "2", 1);
  const char* launched = std::getenv("OMPI_COMM_WORLD_RANK");
  if (mode == "late" && launched != nullptr && std::atoi(launched) == rank) ::raise(SIGSTOP);
  const std::unique_ptr<Group> group = runtime::make_group();
  if (mode == "sums") sums(*group);
  if (mode == "others") others(*group);
  if (group->rank() == rank) {
    if (mode == "abort") group->abort("its data cannot be read");
    if (mode == "leave") throw std::runtime_error("a failure of this rank alone");
    if (mode == "stop") ::raise(SIGSTOP);
    if (mode == "die") ::raise(SIGKILL);
    if (mode == "last") stop_when_finalized();
    if (mode == "slow") std::this_thread::sleep_for(4s);
  }
  std::vector<float> numbers(100);
  group->wait(group->start_sum(numbers));
  group->finish();
  return 0;
}

}  // namespace
}  // namespace rewire::test

int main(int count, char** arguments) {
  if (count < 2) return 2;
  try {
    return rewire::test::run(arguments[1], count > 2 ? std::atoi(arguments[2]) : -1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "group_ranks: {}\n", error.what());
    return 1;
  }
}
