# Installs the build into one prefix, moves it to another, and asks the binary there what it finds.
unset(ENV{DESTDIR}) # a packager's would stand before the prefix
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} exits ${code}: ${output}${error}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/first")
file(RENAME "${WORK}/first" "${WORK}/moved")
set(rewire "${WORK}/moved/bin/rewire")
run("${rewire}" --version)

# Nothing but the installed plugins: no other folder is looked into.
unset(ENV{REWIRE_PLUGIN_PATH})
set(ENV{XDG_DATA_HOME} "${WORK}/none")
run("${rewire}" plugins)
file(GLOB installed "${WORK}/moved/lib/rewire/plugins/*.so")
foreach(plugin ${installed})
  string(FIND "${output}" "${plugin}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "the moved binary does not find ${plugin}; it says: ${output}")
  endif()
endforeach()
run("${rewire}" doctor)

# What shells and man look for.
foreach(file share/bash-completion/completions/rewire share/zsh/site-functions/_rewire share/fish/vendor_completions.d/rewire.fish
        share/man/man1/rewire.1 share/man/man1/rewire-data-info.1)
  if(NOT EXISTS "${WORK}/moved/${file}")
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
foreach(shell bash zsh fish)
  run("${rewire}" completion ${shell})
  file(GLOB script "${WORK}/moved/share/${shell}*/*/*rewire*")
  file(READ "${script}" installed_script)
  if(NOT output STREQUAL installed_script)
    message(FATAL_ERROR "${script} is not what `rewire completion ${shell}` prints")
  endif()
endforeach()

# Beside the binary stands what compiles kernels for it; it says that nobody else calls it.
execute_process(COMMAND "${WORK}/moved/libexec/rewire/nvrtc-worker" RESULT_VARIABLE code ERROR_VARIABLE error)
if(NOT code EQUAL 2 OR NOT error MATCHES "started by rewire")
  message(FATAL_ERROR "the moved nvrtc-worker exits ${code}: ${error}")
endif()
run("${CMAKE_COMMAND}" "-DREADELF=${READELF}" "-DFOLDERS=${WORK}/moved" -P "${CMAKE_CURRENT_LIST_DIR}/../floors/library_paths.cmake")
message(STATUS "found in the moved tree: ${installed}")
file(REMOVE_RECURSE "${WORK}")
