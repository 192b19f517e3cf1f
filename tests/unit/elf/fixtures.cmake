# The objects that the tests of `elf` read: one source, linked in each way that matters to call slots and symbol tables. Always with -O2, whatever
# the build type is: tail calls depend on it.
if(NOT TARGET unit_elf)
  return()
endif()
set(source_dir ${CMAKE_CURRENT_LIST_DIR}/fixtures)
set(fixture_dir ${CMAKE_CURRENT_BINARY_DIR}/elf_fixtures)
file(MAKE_DIRECTORY ${fixture_dir})
find_program(RTRACE_STRIP strip REQUIRED)
find_program(RTRACE_OBJCOPY objcopy REQUIRED)
set(fixtures "")

function(elf_fixture name source)
  add_custom_command(OUTPUT ${fixture_dir}/${name}
    COMMAND ${RTRACE_FIXTURE_COMPILER} -O2 -fno-ipa-icf -o ${fixture_dir}/${name} ${source_dir}/${source} ${ARGN}
    DEPENDS ${source_dir}/${source} ${source_dir}/library.map VERBATIM)
  set(fixtures ${fixtures} ${fixture_dir}/${name} PARENT_SCOPE)
endfunction()

function(elf_derived name from)
  add_custom_command(OUTPUT ${fixture_dir}/${name} COMMAND ${ARGN}
    WORKING_DIRECTORY ${fixture_dir} DEPENDS ${fixture_dir}/${from} VERBATIM)
  set(fixtures ${fixtures} ${fixture_dir}/${name} PARENT_SCOPE)
endfunction()

elf_fixture(lazy calls.c -fpie -pie -fcf-protection=none -Wl,-z,lazy)
elf_fixture(now calls.c -fpie -pie -fcf-protection=none -Wl,-z,now)
elf_fixture(ibt_lazy calls.c -fpie -pie -fcf-protection -Wl,-z,lazy -Wl,-z,ibtplt)
elf_fixture(ibt_now calls.c -fpie -pie -fcf-protection -Wl,-z,now -Wl,-z,ibtplt)
elf_fixture(no_plt calls.c -fpie -pie -fcf-protection=none -fno-plt)
elf_fixture(no_pie calls.c -fno-pie -no-pie -fcf-protection=none)
elf_fixture(static calls.c -static)
elf_fixture(static_pie calls.c -static-pie -fpie)
elf_fixture(sysv_hash calls.c -fpie -pie -rdynamic -Wl,--hash-style=sysv)
elf_fixture(library.so library.c -shared -fPIC -nostartfiles -Wl,--version-script=${source_dir}/library.map
  -Wl,-soname,libfixture.so.1 -Wl,--build-id=sha1)
elf_fixture(mute.so mute.c -shared -fPIC -nostartfiles)
elf_fixture(mute_no_pie mute.c -DPROGRAM -fno-pie -no-pie)
elf_fixture(marks.so marks.c -shared -fPIC)
elf_fixture(with_debug calls.c -fpie -pie -g -Wl,--build-id=sha1)
elf_fixture(without_id calls.c -fpie -pie -g -Wl,--build-id=none)

elf_derived(marks.stripped.so marks.so ${RTRACE_STRIP} -o marks.stripped.so marks.so)
elf_derived(stripped lazy ${RTRACE_STRIP} -o stripped lazy)
foreach(kind with_debug without_id)
  elf_derived(${kind}.debug ${kind} ${RTRACE_OBJCOPY} --only-keep-debug ${kind} ${kind}.debug)
  elf_derived(${kind}.stripped ${kind}.debug
    ${RTRACE_OBJCOPY} --strip-all --add-gnu-debuglink=${kind}.debug ${kind} ${kind}.stripped)
endforeach()

# As the GDB manual makes "MiniDebugInfo": the functions that .dynsym lacks, packed by xz; and a stream cut short.
find_program(RTRACE_XZ xz REQUIRED)
elf_derived(packed with_debug.debug sh -c
  "${RTRACE_OBJCOPY} -S --keep-symbol=static_helper with_debug.debug mini && ${RTRACE_XZ} -kf mini && \
   ${RTRACE_OBJCOPY} --strip-all --add-section .gnu_debugdata=mini.xz with_debug packed")
elf_derived(packed_short packed sh -c
  "head -c 200 mini.xz > short.xz && \
   ${RTRACE_OBJCOPY} --strip-all --add-section .gnu_debugdata=short.xz with_debug packed_short")

add_custom_target(elf_fixtures DEPENDS ${fixtures})
add_dependencies(unit_elf elf_fixtures)
target_compile_definitions(unit_elf PRIVATE RTRACE_ELF_FIXTURES="${fixture_dir}")
