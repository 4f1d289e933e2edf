// Cells of CSV: quoted where the format asks for it, and no formulas in a spreadsheet.
#include "runtime/io/csv.h"

#include "tests/support/catch.h"

namespace rewire::runtime {
namespace {

TEST_CASE("A cell is quoted where CSV asks for it") {
  CHECK(csv_field("") == "");
  CHECK(csv_field("none, augment") == "\"none, augment\"");
  CHECK(csv_field("a \"b\"\n") == "\"a \"\"b\"\"\n\"");
  CHECK(csv_field("blocks.0.attn") == "blocks.0.attn");
}

TEST_CASE("A text that a spreadsheet would run as a formula begins with a quote; numbers stay numbers") {
  CHECK(csv_field("=HYPERLINK(\"http://x\",1)") == "\"'=HYPERLINK(\"\"http://x\"\",1)\"");
  CHECK(csv_field("+1+cmd|' /C calc'!A0") == "'+1+cmd|' /C calc'!A0");
  CHECK(csv_field("-2+3") == "'-2+3");
  CHECK(csv_field("@SUM(A1)") == "'@SUM(A1)");
  CHECK(csv_field("\t=1") == "'\t=1");
  CHECK(csv_field("\r=1") == "\"'\r=1\"");
  CHECK(csv_field("-") == "'-");
  for (const char* number : {"-0.5", "-1e-06", "-3", "0.25", "-inf"}) CHECK(csv_field(number) == number);
  CHECK(csv_field("a=1") == "a=1");
}

}  // namespace
}  // namespace rewire::runtime
