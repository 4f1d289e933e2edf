# Runs the rewire command of a .check file's first line ("RUN: dump …") and holds what it prints to the file's patterns.
#
#   cmake -DREWIRE=… -DFILECHECK=… -DFILE=… -P file_check.cmake
# The plugins beside this binary, not those that the user has installed.
set(ENV{XDG_DATA_HOME} "${CMAKE_CURRENT_BINARY_DIR}/data")
file(STRINGS "${FILE}" run LIMIT_COUNT 1 REGEX "^RUN: ")
string(REGEX REPLACE "^RUN: " "" command "${run}")
separate_arguments(command UNIX_COMMAND "${command}")
execute_process(COMMAND "${REWIRE}" ${command} --quiet COMMAND "${FILECHECK}" "${FILE}" RESULTS_VARIABLE codes
                ERROR_VARIABLE error)
if(NOT codes STREQUAL "0;0")
  message(FATAL_ERROR "rewire ${command}\n${error}")
endif()
