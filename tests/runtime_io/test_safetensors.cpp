// safetensors: the same bytes as the reference library writes, and one clear message for every fault.
#include <algorithm>
#include <cstring>

#include "ir/error.h"
#include "runtime/io/files.h"
#include "runtime/io/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace rewire::runtime {
namespace {

using namespace std::string_literals;
using ir::DType;
using test::message_of;
using test::TemporaryFolder;

std::string file_with(const std::string& header, const std::string& data = "") {
  std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

SafetensorsFile parse(const std::string& text) {
  return parse_safetensors(std::as_bytes(std::span(text.data(), text.size())), "w.safetensors");
}

std::string message(const std::string& text) {
  return message_of<UserError>([&] { parse(text); });
}

const std::string kFault = "w.safetensors: not a readable safetensors file: ";

/// The message for this header, less its beginning.
std::string fault(const std::string& header, const std::string& data = "") {
  const std::string text = message(file_with(header, data));
  return text.starts_with(kFault) ? text.substr(kFault.size()) : "unexpected: " + text;
}

// Written by safetensors 0.8.0: {"z.ppp…": i64 [1, -2], "a.weight": f32 [[1.5, -2, 3.25], [0, 1e-3, 7]],
// "a.half": f16 [0.5, -1], "mask": [True, False, True]}, metadata {"k": 'v "q"'}. The long name brings the
// data to a multiple of 64, where the library pads to 8 only.
const std::string kGolden =
    "8\x01\x00\x00\x00\x00\x00\x00"s +
    R"({"__metadata__":{"k":"v \"q\""},"z.ppppppppppppppppppppppppppppppppppp":{"dtype":"I64","shape":[2],)"
    R"("data_offsets":[0,16]},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[16,40]},"a.half":{"dtype":)"
    R"("F16","shape":[2],"data_offsets":[40,44]},"mask":{"dtype":"BOOL","shape":[3],"data_offsets":[44,47]}}       )" +
    "\x01\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff"s +
    "\x00\x00\xc0\x3f\x00\x00\x00\xc0\x00\x00\x50\x40\x00\x00\x00\x00\x6f\x12\x83\x3a\x00\x00\xe0\x40"s +
    "\x00\x38\x00\xbc\x01\x00\x01"s;

TEST_CASE("A file of the reference library is read, and written back byte for byte") {
  const SafetensorsFile file = parse(kGolden);
  REQUIRE(file.tensors.size() == 4);
  CHECK(file.metadata == std::map<std::string, std::string>{{"k", "v \"q\""}});
  const HostTensor& weight = file.tensors.at("a.weight");
  CHECK(weight.type() == ir::TensorType{DType::f32, {2, 3}});
  CHECK(to_double(weight).data == std::vector<double>{1.5, -2, 3.25, 0, double{1e-3f}, 7});
  CHECK(to_double(file.tensors.at("a.half")).data == std::vector<double>{0.5, -1});
  CHECK(to_double(file.tensors.at("mask")).data == std::vector<double>{1, 0, 1});
  CHECK(to_double(file.tensors.at("z." + std::string(35, 'p'))).data == std::vector<double>{1, -2});

  const TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  write_safetensors(path, file.tensors, file.metadata);
  const std::vector<std::byte> written = read_file(path);
  CHECK(std::string(reinterpret_cast<const char*>(written.data()), written.size()) == kGolden);
}

TEST_CASE("Every dtype makes the round trip, each tensor aligned to its elements in the file") {
  TensorMap tensors;
  for (const DType dtype :
       {DType::u8, DType::f16, DType::f64, DType::i1, DType::bf16, DType::f32, DType::i64, DType::i32}) {
    const std::string name = "t." + std::string(ir::dtype_name(dtype));
    tensors.emplace(name, to_host(ir::Tensor({dtype, {1, 3}}, {0, 1, 1})));
    tensors.emplace(name + ".scalar", to_host(ir::Tensor({dtype, {}}, {1})));
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  write_safetensors(path, tensors, {{"ключ", "line\nbreak"}});
  const SafetensorsFile file = read_safetensors(path);
  CHECK(file.metadata.at("ключ") == "line\nbreak");
  REQUIRE(file.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    CHECK(file.tensors.at(name).type() == tensor.type());
    CHECK(std::ranges::equal(file.tensors.at(name).bytes(), tensor.bytes()));
  }
  const std::vector<std::byte> bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK((8 + length) % 64 == 0);
}

TEST_CASE("No tensors and no metadata are a file too") {
  const TemporaryFolder folder;
  const std::string path = folder.file("empty.safetensors");
  write_safetensors(path, {});
  CHECK(read_safetensors(path).tensors.empty());
  CHECK(parse(file_with("{}")).metadata.empty());
}

TEST_CASE("A name that is no text cannot be written, and the old file survives") {
  const TemporaryFolder folder;
  const std::string path = folder.file("w.safetensors");
  write_safetensors(path, {}, {{"old", "file"}});
  TensorMap tensors;
  tensors.emplace("\xff", HostTensor({DType::f32, {}}));
  CHECK(message_of<UserError>([&] { write_safetensors(path, tensors); }) ==
        "cannot write the name or metadata '\\xff' into a safetensors file: it is not UTF-8");
  CHECK(read_safetensors(path).metadata.at("old") == "file");
  CHECK(folder.entries() == 1);
}

TEST_CASE("A header length that the file cannot hold is refused") {
  CHECK(message("") == kFault + "0 bytes are too few for the header's length");
  CHECK(message("\x01\x00\x00"s) == kFault + "3 bytes are too few for the header's length");
  CHECK(message("\x03\x00\x00\x00\x00\x00\x00\x00{}"s) ==
        kFault + "it claims a header of 3 bytes, but 2 follow");
  CHECK(message("\xff\xff\xff\xff\xff\xff\xff\xff{}"s) ==
        kFault + "it claims a header of 18446744073709551615 bytes, but 2 follow");
  CHECK(message(file_with(std::string(100'000'001, ' '))) ==
        kFault + "a header of 100000001 bytes is longer than the format's 100000000");
}

TEST_CASE("Every truncation of a good safetensors file is refused") {
  for (std::size_t size = 0; size < kGolden.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(parse(kGolden.substr(0, size)), UserError);
  }
  CHECK(message(kGolden.substr(0, kGolden.size() - 1)) ==
        kFault + "tensor 'mask' ends at byte 47 of 46: the file is truncated or the header corrupt");
  CHECK(message(kGolden + "x") == kFault + "1 bytes at its end belong to no tensor");
}

TEST_CASE("Text that is no JSON is refused where it goes wrong") {
  CHECK(fault("") == "the header is not JSON at byte 1");
  CHECK(fault("{\"a\":") == "the header is not JSON at byte 6");
  CHECK(fault("{\"a\": NaN}") == "the header is not JSON at byte 7");
  CHECK(fault("{} {}") == "the header is not JSON at byte 4");
  CHECK(fault("{\"\xff\": {}}") == "the header is not JSON at byte 3");
  CHECK(fault("\0"s) == "the header is not JSON at byte 1");
}

TEST_CASE("JSON of another form is refused, however deep") {
  CHECK(fault("[]") == "the header has an array, which the format does not allow there");
  CHECK(fault("3") == "the header has a number, which the format does not allow there");
  CHECK(fault(R"({"a": 1})") == "tensor 'a' has a number, which the format does not allow there");
  CHECK(fault(R"({"a": null})") == "tensor 'a' has null, which the format does not allow there");
  CHECK(fault(R"({"a": {"dtype": {"b": 1}}})") ==
        "tensor 'a' has an object, which the format does not allow there");
  CHECK(fault(R"({"a": {"dtype": true}})") ==
        "tensor 'a' has a truth value, which the format does not allow there");
  CHECK(fault(R"({"a": {"shape": "b"}})") ==
        "tensor 'a' has a string, which the format does not allow there");
  CHECK(fault(R"({"a": {"shape": [[1]]}})") ==
        "tensor 'a' has an array, which the format does not allow there");
  CHECK(fault(R"({"__metadata__": {"k": 1}})") ==
        "the metadata has a number, which the format does not allow there");
  CHECK(fault(R"({"__metadata__": []})") ==
        "the metadata has an array, which the format does not allow there");
  const std::size_t deep = 1'000'000;
  CHECK(fault(std::string(deep, '[')) == "the header has an array, which the format does not allow there");
  std::string objects;
  for (std::size_t i = 0; i < deep; ++i) objects += "{\"a\":";
  CHECK(fault(objects) == "tensor 'a' has an unknown key 'a'");
}

TEST_CASE("Names and keys stand once, and none is missing") {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  CHECK(fault("{\"a\":" + entry + ",\"a\":" + entry + "}", "x") == "the name 'a' appears twice");
  CHECK(fault(R"({"__metadata__":{},"__metadata__":{}})") == "the name '__metadata__' appears twice");
  CHECK(fault(R"({"__metadata__":{"k":"1","k":"2"}})") == "metadata 'k' appears twice");
  CHECK(fault(R"({"a":{"dtype":"U8","dtype":"U8"}})") == "tensor 'a' has 'dtype' twice");
  CHECK(fault(R"({"a":{"dtype":"U8","shape":[1]}})") == "tensor 'a' has no 'data_offsets'");
  CHECK(fault(R"({"a":{}})") == "tensor 'a' has no 'dtype'");
  CHECK(fault(R"({"a":{"colour":1}})") == "tensor 'a' has an unknown key 'colour'");
}

TEST_CASE("A tensor's numbers must be true of the file") {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets,
                         const std::string& data = "") {
    return fault(
        R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
        data);
  };
  CHECK(tensor("F8_E4M3", "[1]", "[0,1]", "x") ==
        "tensor 'a' has dtype 'F8_E4M3'; supported are F64 F32 BF16 F16 I64 I32 U8 BOOL");
  CHECK(tensor("U8", "[-1]", "[0,1]") ==
        "tensor 'a' has a negative number, which the format does not allow there");
  CHECK(tensor("U8", "[1.0]", "[0,1]") ==
        "tensor 'a' has a number that is not a 64-bit integer, which the format does not allow there");
  CHECK(tensor("U8", "[1]", "[0,18446744073709551616]") ==
        "tensor 'a' has a number that is not a 64-bit integer, which the format does not allow there");
  CHECK(tensor("U8", "[1]", "[0]") == "tensor 'a' has 'data_offsets' that are not two numbers");
  CHECK(tensor("U8", "[1]", "[0,1,2]") == "tensor 'a' has 'data_offsets' that are not two numbers");
  CHECK(tensor("U8", "[0]", "[0,0]") == "tensor 'a' of shape [0] has no elements");
  CHECK(tensor("U8", "[1]", "[1,0]", "x") == "tensor 'a' ends at 0, before it begins at 1");
  CHECK(tensor("F32", "[3]", "[0,8]", "12345678") ==
        "tensor 'a', F32[3], takes 12 bytes, but its data_offsets span 8");
  CHECK(tensor("F32", "[4294967296,4294967296]", "[0,8]", "12345678") ==
        "tensor 'a' of shape [4294967296,4294967296] has more than 2^64 bytes");
  CHECK(tensor("U8", "[1099511627776]", "[0,1099511627776]", "x") ==
        "tensor 'a' ends at byte 1099511627776 of 1: the file is truncated or the header corrupt");
  CHECK(tensor("U8", "[18446744073709551615]", "[0,18446744073709551615]", "x") ==
        "tensor 'a' ends at byte 18446744073709551615 of 1: the file is truncated or the header corrupt");
  CHECK(tensor("U8", "[1]", "[1,2]", "xy") == "tensor 'a' leaves a gap of 1 bytes before it");
}

TEST_CASE("Overlapping tensors, and holes between them, are refused") {
  const auto two = [](const std::string& first, const std::string& second) {
    return fault(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                     R"(},"b\n":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                 "wxyz");
  };
  CHECK(two("[0,2]", "[1,3]") == "tensor 'b\\x0a' overlaps the tensor before it");
  CHECK(two("[0,2]", "[0,2]") == "tensor 'b\\x0a' overlaps the tensor before it");
  CHECK(two("[2,4]", "[1,3]") == "tensor 'b\\x0a' leaves a gap of 1 bytes before it");
  const SafetensorsFile file = parse(file_with(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},)"
                                               R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                                               "wxyz"));  // any order in the header is good
  CHECK(file.tensors.at("a").as<std::uint8_t>()[0] == 'y');
}

}  // namespace
}  // namespace rewire::runtime
