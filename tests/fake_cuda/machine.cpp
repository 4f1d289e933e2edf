#include "tests/fake_cuda/machine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>

namespace rewire::fake_cuda {
namespace {

std::vector<std::string> split(const std::string& text, char between) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, between);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::size_t bytes_of_gib(const std::string& text) {
  return static_cast<std::size_t>(std::stod(text) * (1 << 30));
}

FakeDevice read_device(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  FakeDevice device;
  device.name = parts.at(0);
  for (char& letter : device.name) letter = letter == '_' ? ' ' : letter;
  device.arch = std::stoi(parts.at(1));
  device.multiprocessors = std::stoi(parts.at(2));
  device.shared_bytes = std::stoi(parts.at(3));
  device.memory = bytes_of_gib(parts.at(4));
  device.free = bytes_of_gib(parts.at(5));
  return device;
}

Machine read_machine() {
  Machine made;
  const std::map<std::string, int Machine::*> numbers = {
      {"driver", &Machine::driver}, {"cublaslt", &Machine::cublaslt},   {"cufft", &Machine::cufft},
      {"cudnn", &Machine::cudnn},   {"cudnn_for", &Machine::cudnn_for}, {"nccl", &Machine::nccl}};
  const char* words = std::getenv("REWIRE_FAKE_CUDA_MACHINE");
  for (const std::string& word : split(words == nullptr ? "" : words, ' ')) {
    const std::string name = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
    if (const auto number = numbers.find(name); number != numbers.end()) {
      made.*number->second = std::stoi(value);
    } else if (name == "release") {
      made.release = value;
    } else if (name == "device") {
      made.devices.push_back(read_device(value));
    } else if (name == "nvrtc") {
      made.nvrtc_major = std::stoi(value);
      made.nvrtc_minor = std::stoi(value.substr(value.find('.') + 1));
    } else if (name == "archs") {
      made.archs.clear();
      for (const std::string& arch : split(value, ',')) made.archs.push_back(std::stoi(arch));
    } else {
      throw std::runtime_error("REWIRE_FAKE_CUDA_MACHINE has an unknown word: " + word);
    }
  }
  const char* count = std::getenv("REWIRE_FAKE_CUDA_DEVICES");
  if (made.devices.empty()) made.devices.resize(count == nullptr ? 1 : std::stoul(count));
  return made;
}

/// As nvidia-smi spells it, of the bytes 0, 1, 2, … with the device's number as the first.
std::string uuid_text(int number) {
  return fmt::format("GPU-{:02x}010203-0405-0607-0809-0a0b0c0d0e0f", number);
}

}  // namespace

const Machine& machine() {
  static const Machine made = read_machine();
  return made;
}

std::vector<int> visible_devices() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const int all = static_cast<int>(machine().devices.size());
  std::vector<int> numbers;
  for (const std::string& name : split(visible == nullptr ? "" : visible, ',')) {
    int found = -1;
    for (int number = 0; number < all; ++number) {
      if (name == std::to_string(number) || (name.size() > 4 && uuid_text(number).starts_with(name)))
        found = number;
    }
    if (found < 0) break;  // as the driver does: what follows a name that is none is hidden too
    numbers.push_back(found);
  }
  for (int number = 0; visible == nullptr && number < all; ++number) numbers.push_back(number);
  return numbers;
}

std::string uuid_bytes(int number) {
  std::string bytes;
  for (int i = 0; i < 16; ++i) bytes += static_cast<char>(i == 0 ? number : i);
  return bytes;
}

}  // namespace rewire::fake_cuda
