# Debug information of both compilers, in the versions they write, and in the forms in which it is stored.
if(NOT TARGET unit_dwarf)
  return()
endif()
set(source_dir ${CMAKE_CURRENT_LIST_DIR}/fixtures)
set(fixture_dir ${CMAKE_CURRENT_BINARY_DIR}/dwarf_fixtures)
file(MAKE_DIRECTORY ${fixture_dir})
find_program(RTRACE_OBJCOPY objcopy REQUIRED)
find_program(RTRACE_GCC gcc REQUIRED)
find_program(RTRACE_CLANG clang)
set(compilers gcc)
if(RTRACE_CLANG)
  list(APPEND compilers clang)
endif()
set(fixtures "")

function(dwarf_fixture name compiler source)
  add_custom_command(OUTPUT ${fixture_dir}/${name}
    COMMAND ${compiler} -shared -fPIC -O1 -Wl,--build-id=sha1 -o ${name} ${source_dir}/${source} ${ARGN}
    WORKING_DIRECTORY ${fixture_dir} DEPENDS ${source_dir}/${source} VERBATIM)
  set(fixtures ${fixtures} ${fixture_dir}/${name} PARENT_SCOPE)
endfunction()

foreach(compiler IN LISTS compilers)
  string(TOUPPER RTRACE_${compiler} path)
  foreach(version 4 5)
    dwarf_fixture(types_${compiler}_${version}.so ${${path}} types.c -gdwarf-${version})
    dwarf_fixture(classes_${compiler}_${version}.so ${${path}} classes.cc -gdwarf-${version} -nostdlib)
  endforeach()
  dwarf_fixture(caller_${compiler}.so ${${path}} caller.c -g -O2)
  dwarf_fixture(split_${compiler}.so ${${path}} types.c -g -gsplit-dwarf)
endforeach()
dwarf_fixture(compressed.so ${RTRACE_GCC} types.c -g -gz=zlib)
dwarf_fixture(none.so ${RTRACE_GCC} types.c -g0)
dwarf_fixture(lines.so ${RTRACE_GCC} types.c -g1)
dwarf_fixture(type_units.so ${RTRACE_GCC} types.c -g -fdebug-types-section)

foreach(part debug stripped)
  set(fixtures ${fixtures} ${fixture_dir}/apart.${part})
endforeach()
add_custom_command(OUTPUT ${fixture_dir}/apart.debug ${fixture_dir}/apart.stripped
  COMMAND ${RTRACE_OBJCOPY} --only-keep-debug types_gcc_5.so apart.debug
  COMMAND ${RTRACE_OBJCOPY} --strip-all --add-gnu-debuglink=apart.debug types_gcc_5.so apart.stripped
  WORKING_DIRECTORY ${fixture_dir} DEPENDS ${fixture_dir}/types_gcc_5.so VERBATIM)

list(JOIN compilers , compilers)
add_custom_target(dwarf_fixtures DEPENDS ${fixtures})
add_dependencies(unit_dwarf dwarf_fixtures)
target_compile_definitions(unit_dwarf PRIVATE RTRACE_DWARF_FIXTURES="${fixture_dir}"
  RTRACE_DWARF_COMPILERS="${compilers}")
