# The objects that the tests of `plan` read. Always with -O2, whatever the build type is: tail calls depend on it.
if(NOT TARGET unit_plan)
  return()
endif()
set(plan_source_dir ${CMAKE_CURRENT_LIST_DIR}/fixtures)
set(plan_fixture_dir ${CMAKE_CURRENT_BINARY_DIR}/plan_fixtures)
file(MAKE_DIRECTORY ${plan_fixture_dir})
find_program(RTRACE_STRIP strip REQUIRED)
set(plan_fixtures "")

function(plan_fixture name source)
  add_custom_command(OUTPUT ${plan_fixture_dir}/${name}
    COMMAND ${RTRACE_FIXTURE_COMPILER} -O2 -fno-ipa-icf -o ${plan_fixture_dir}/${name} ${plan_source_dir}/${source} ${ARGN}
    DEPENDS ${plan_source_dir}/${source} ${plan_source_dir}/library.map VERBATIM)
  set(plan_fixtures ${plan_fixtures} ${plan_fixture_dir}/${name} PARENT_SCOPE)
endfunction()

plan_fixture(libplan.so.1 library.c -shared -fPIC -nostdlib -Wl,-soname,libplan.so.1
  -Wl,--version-script=${plan_source_dir}/library.map)
plan_fixture(caller_plt.so caller.c -shared -fPIC -nostdlib -fcf-protection=none -Wl,-z,lazy)
plan_fixture(caller_ibt.so caller.c -shared -fPIC -nostdlib -fcf-protection -Wl,-z,now -Wl,-z,ibtplt)
plan_fixture(caller_noplt.so caller.c -shared -fPIC -nostdlib -fcf-protection=none -fno-plt -DFALSE_JUMP)

# With SDT notes: the source is that of the tests of `elf`.
set(plan_marks ${plan_source_dir}/../../elf/fixtures/marks.c)
foreach(provider fixture later)
  string(REPLACE "fixture" "" suffix "_${provider}")
  string(REGEX REPLACE "^_$" "" suffix "${suffix}")
  add_custom_command(OUTPUT ${plan_fixture_dir}/marks${suffix}.so
    COMMAND ${RTRACE_FIXTURE_COMPILER} -O2 -shared -fPIC "-DPROVIDER=\"${provider}\"" -o marks${suffix}.so ${plan_marks}
    WORKING_DIRECTORY ${plan_fixture_dir} DEPENDS ${plan_marks} VERBATIM)
  list(APPEND plan_fixtures ${plan_fixture_dir}/marks${suffix}.so)
endforeach()

add_custom_command(OUTPUT ${plan_fixture_dir}/libplan_stripped.so.1
  COMMAND ${RTRACE_STRIP} -o libplan_stripped.so.1 libplan.so.1
  WORKING_DIRECTORY ${plan_fixture_dir} DEPENDS ${plan_fixture_dir}/libplan.so.1 VERBATIM)
add_custom_command(OUTPUT ${plan_fixture_dir}/program
  COMMAND ${RTRACE_FIXTURE_COMPILER} -O2 -fpie -pie -o program ${plan_source_dir}/main.c libplan.so.1
  WORKING_DIRECTORY ${plan_fixture_dir} DEPENDS ${plan_source_dir}/main.c ${plan_fixture_dir}/libplan.so.1 VERBATIM)
list(APPEND plan_fixtures ${plan_fixture_dir}/libplan_stripped.so.1 ${plan_fixture_dir}/program)

add_custom_target(plan_fixtures DEPENDS ${plan_fixtures})
add_dependencies(unit_plan plan_fixtures)
target_compile_definitions(unit_plan PRIVATE PLAN_FIXTURES="${plan_fixture_dir}")
