# rtrace_module(NAME MODULES other... DEPENDENCIES dep...): the static library of src/NAME. MODULES is the
# module's row in the layering table, and tests/layering compares the two.
function(rtrace_module name)
  cmake_parse_arguments(ARG "" "" "MODULES;DEPENDENCIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc ${CMAKE_CURRENT_SOURCE_DIR}/*.S)
  add_library(rtrace_${name} STATIC ${sources})
  target_link_libraries(rtrace_${name} PUBLIC rtrace_options)
  # fmt's headers are most of what compiling a small file costs.
  if(name STREQUAL base)
    target_precompile_headers(rtrace_base PRIVATE <fmt/format.h> <algorithm> <functional> <map> <memory> <optional> <span>
      <string> <string_view> <unordered_map> <variant> <vector>)
  else()
    target_precompile_headers(rtrace_${name} REUSE_FROM rtrace_base)
  endif()
  if(RTRACE_UNITY)
    set_target_properties(rtrace_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
  foreach(module IN LISTS ARG_MODULES)
    target_link_libraries(rtrace_${name} PUBLIC rtrace_${module})
  endforeach()
  foreach(dependency IN LISTS ARG_DEPENDENCIES)
    target_link_libraries(rtrace_${name} PRIVATE rtrace_dep_${dependency})
  endforeach()
endfunction()

# rtrace_unit_test(MODULE): tests/unit/MODULE/*_test.cc as one program, unit_MODULE.
function(rtrace_unit_test module)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/${module}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(unit_${module} ${sources})
  target_link_libraries(unit_${module} PRIVATE rtrace_${module} GTest::gmock GTest::gtest_main)
  target_include_directories(unit_${module} PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit)
  target_compile_options(unit_${module} PRIVATE ${RTRACE_UNIT_OPTIONS})
  target_precompile_headers(unit_${module} REUSE_FROM unit_headers)
  # Each file has a namespace of its own, so that any of them can be compiled as one.
  if(RTRACE_UNITY)
    set_target_properties(unit_${module} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
  # A process takes longer to begin than most tests to run: each program is one test.
  add_test(NAME unit.${module} COMMAND unit_${module} --gtest_brief=1)
endfunction()
