# Fails unless rewire_plugin_query is the one symbol that a plugin built by rewire_add_plugin() defines for others.
#
#   cmake -DNM=<nm> -DPLUGIN=<file> -P exports.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND "${NM}" -D --defined-only --format=posix "${PLUGIN}" OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " [^\n]*\n" ";" names "${symbols}")
list(REMOVE_ITEM names "")
if(NOT names STREQUAL "rewire_plugin_query")
  message(FATAL_ERROR "${PLUGIN} exports '${names}'")
endif()
