// A safetensors file in the place of the network's weights.
#include <nlohmann/json.hpp>

#include "tests/hostile/cases.h"
#include "tests/hostile/families.h"
#include "tests/hostile/good.h"

namespace rewire::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargest = ~std::uint64_t{0};

/// A file of this header and so many bytes behind it.
std::string file_of(const std::string& header, std::size_t data) {
  return little_endian(header.size(), 8) + header + std::string(data, '\0');
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"head.bias": {"dtype": )" + dtype + R"(, "shape": )" + shape + R"(, "data_offsets": )" +
         offsets + "}}";
}

}  // namespace

void add_safetensors_cases(std::vector<Case>& cases) {
  const std::string file = "w.safetensors";
  Table table(cases, "safetensors",
              Words{"run"} + kModel +
                  Words{"--weights", "@/w.safetensors", "--input", good().file("x.npy"), "--output",
                        "@/out.npy", "--quiet"},
              {copy(good().file(file), file)});
  table.row("sound", {}, fine());
  const Expectation no = refused("@/w.safetensors");
  add_odd_files(table, file, Origin::command_line, no);
  add_lost_links(table, file, no);
  const std::string sound = good().bytes(file);
  std::uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i)
    header_bytes = header_bytes << 8 | static_cast<unsigned char>(sound[static_cast<std::size_t>(i)]);
  const std::string text = sound.substr(8, header_bytes), data = sound.substr(8 + header_bytes);
  add_cuts(table, file, sound.size(), 12, no);
  add_flips(table, file, 0, 8, 8, no);

  const auto bytes = [&](const std::string& what, std::string content) {
    table.row(what, {put(file, std::move(content))}, no);
  };
  for (const std::uint64_t size :
       {std::uint64_t{0}, std::uint64_t{1}, header_bytes - 1, header_bytes + 1, std::uint64_t{sound.size()},
        std::uint64_t{100} << 20, kLargest >> 1, kLargest, kLargest - 7})
    bytes("with a header of " + std::to_string(size) + " bytes", little_endian(size, 8) + sound.substr(8));
  for (const char* header :
       {"", "{", "[]", "null", "1", "\"\"", "{}", "{\"a\":1}", "{\"a\":{}}", "{\"a\":[]}",
        "{\"\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", "{\"__metadata__\":1}",
        "{\"__metadata__\":{\"a\":1}}", "{\"__metadata__\":[]}", "{\"__metadata__\":{\"a\":\"\xff\"}}"})
    bytes(std::string("with the header ") + header, file_of(header, 40));
  for (const char* dtype :
       {"null", "4", "\"f32\"", "\"F33\"", "\"\"", "[\"F32\"]", "\"F32\\u0000\"", "\"F8_E4M3\"", "\"BF16\""})
    bytes(std::string("of the type ") + dtype, file_of(tensor(dtype, "[10]", "[0,40]"), 40));
  for (const char* shape :
       {"null", "10", "[-10]", "[10.0]", "[1e1]", "[\"10\"]", "[[10]]", "{}", "[9223372036854775807]",
        "[18446744073709551615]", "[18446744073709551616]", "[4294967296,4294967296]",
        "[9223372036854775807,2]", "[0,18446744073709551615]", "[11]", "[9]", "[true]"})
    bytes(std::string("of the shape ") + shape, file_of(tensor("\"F32\"", shape, "[0,40]"), 40));
  for (const char* offsets : {"null", "40", "[]", "[0]", "[0,40,80]", "[-40,0]", "[40,0]", "[0,44]", "[4,40]",
                              "[0,36]", "[0,40.0]", "[0,18446744073709551615]", "[18446744073709551615,39]",
                              "[9223372036854775808,9223372036854775848]", "[\"0\",\"40\"]", "{\"0\":40}"})
    bytes(std::string("at the offsets ") + offsets, file_of(tensor("\"F32\"", "[10]", offsets), 40));
  bytes("with a tensor twice", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                       8));
  bytes("with two tensors in one place", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                                 4));
  bytes("with a gap between tensors", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                                              12));
  bytes("with a key that no header has",
        file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4));
  bytes("with a name of a megabyte",
        file_of("{\"" + std::string(1 << 20, 'n') + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                4));
  bytes("with a name that turns a terminal",
        file_of(R"({"\u001b[31m\u202e\u009b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4));
  bytes("with a name that ends in a zero",
        file_of(R"({"head.bias\u0000":{"dtype":"F32","shape":[10],"data_offsets":[0,40]}})", 40));
  bytes("of lists, 200,000 deep", file_of(std::string(200'000, '[') + std::string(200'000, ']'), 0));
  bytes("of objects, 200,000 deep", file_of(
                                        [] {
                                          std::string open;
                                          for (int i = 0; i < 200'000; ++i) open += "{\"a\":";
                                          return open + std::string(200'000, '}');
                                        }(),
                                        0));
  bytes("of 100,000 tensors without elements",
        file_of(
            [] {
              std::string list = "{";
              for (int i = 0; i < 100'000; ++i)
                list += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
                        R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
              return list + "}";
            }(),
            0));
  // The reference reader refuses what stands behind the header's object, blanks aside, and behind the data.
  bytes("with text behind the header's object", file_of(text + "x", 0) + data);
  bytes("with zeros behind the header's object", file_of(text + std::string(8, '\0'), 0) + data);
  table.row("with blanks behind the header's object", {put(file, file_of(text + "    ", 0) + data)}, fine());
  bytes("with a byte behind the data", sound + "x");

  // Each weight in turn: gone, of another type, of another shape.
  const Json weights = Json::parse(text);
  for (const auto& [name, entry] : weights.items()) {
    if (name == "__metadata__") continue;
    Json other = weights;
    other[name]["dtype"] = "I32";
    table.row(name + " is whole numbers", {put(file, file_of(other.dump(), 0) + data)},
              refused("@/w.safetensors", name));
    other = weights;
    other[name]["shape"].push_back(1);
    table.row(name + " has an axis more", {put(file, file_of(other.dump(), 0) + data)},
              refused("@/w.safetensors", name));
    other = weights;
    other[name + ".other"] = other[name];
    other.erase(name);
    table.row(name + " has another name", {put(file, file_of(other.dump(), 0) + data)},
              refused("@/w.safetensors", name));
  }
}

}  // namespace rewire::test
