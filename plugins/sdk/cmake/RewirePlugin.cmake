# rewire_add_plugin(name source...): builds name.so, a rewire plugin. In the rewire tree it lands in
# REWIRE_PLUGIN_OUTPUT_DIRECTORY and installs to REWIRE_PLUGIN_INSTALL_DIRECTORY; elsewhere these are unset and it lands in
# the project's own build folder, whence `--plugin ./build/name.so` takes it.
function(rewire_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE rewire::sdk)
  # Nothing but rewire_plugin_query leaves the library: not even what the compiler emits of std:: templates, which
  # would otherwise be shared with every other library of the process.
  set(symbols "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/rewire_plugin.map")
  target_link_options(${name} PRIVATE "LINKER:--version-script=${symbols}")
  target_compile_definitions(
    ${name} PRIVATE "REWIRE_BUILD_ID=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} $<CONFIG>\"")
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so" CXX_EXTENSIONS OFF C_VISIBILITY_PRESET hidden
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS "${symbols}")
  if(REWIRE_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${REWIRE_PLUGIN_OUTPUT_DIRECTORY}")
  endif()
  if(REWIRE_PLUGIN_INSTALL_DIRECTORY)
    install(TARGETS ${name} LIBRARY DESTINATION "${REWIRE_PLUGIN_INSTALL_DIRECTORY}")
  endif()
endfunction()
