# The programs that are traced, in ${targets_dir}. They are never built with sanitizers, whatever rtrace is built with: it
# is their code that is traced.
set(common $<$<COMPILE_LANGUAGE:C>:-std=gnu11> -O2 -Wall -Wextra -U_FORTIFY_SOURCE -fcf-protection=none)

function(e2e_place name)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${targets_dir}
    LIBRARY_OUTPUT_DIRECTORY ${targets_dir})
endfunction()

# e2e_library(NAME SOURCE [COMPILE option...])
function(e2e_library name source)
  cmake_parse_arguments(ARG "" "" "COMPILE" ${ARGN})
  add_library(${name} SHARED targets/${source})
  target_compile_options(${name} PRIVATE ${common} -fPIC ${ARG_COMPILE})
  e2e_place(${name})
endfunction()

# e2e_program(NAME SOURCE [COMPILE option...] [LINK option...] [LIBRARIES library...])
function(e2e_program name source)
  cmake_parse_arguments(ARG "" "" "COMPILE;LINK;LIBRARIES" ${ARGN})
  add_executable(e2e_${name} targets/${source})
  set_target_properties(e2e_${name} PROPERTIES OUTPUT_NAME ${name})
  target_compile_options(e2e_${name} PRIVATE ${common} ${ARG_COMPILE})
  target_link_options(e2e_${name} PRIVATE ${ARG_LINK})
  target_link_libraries(e2e_${name} PRIVATE fixture ${ARG_LIBRARIES})
  e2e_place(e2e_${name})
endfunction()

e2e_library(fixture fixture.c)
e2e_library(plugin_a plugin.c COMPILE -DPLUGIN_ADDS=1000)
e2e_library(plugin_b plugin.c COMPILE -DPLUGIN_ADDS=2000)
e2e_library(statics statics.c)
e2e_library(worker worker.c)
e2e_library(worker_noplt worker.c COMPILE -fno-plt)
e2e_library(worker_at_load worker.c COMPILE -DWORKER_AT_LOAD)
e2e_library(with_dependency worker.c)
foreach(name worker worker_noplt worker_at_load with_dependency)
  target_link_libraries(${name} PRIVATE fixture)
endforeach()
# A dependency that its user does not need by name.
target_link_options(with_dependency PRIVATE -Wl,--no-as-needed)
target_link_libraries(with_dependency PRIVATE plugin_b)
e2e_library(pointers pointers.c COMPILE -fno-plt)
target_link_libraries(pointers PRIVATE fixture)
e2e_library(finds finds.c)
e2e_library(finds_noplt finds.c COMPILE -fno-plt)
e2e_library(audit audit.c)
e2e_library(preload preload.c)
e2e_library(ifunc ifunc.c)
e2e_library(cold cold.c COMPILE -freorder-blocks-and-partition)
# A soname with signs that mean something in filters.
e2e_library(versioned plugin.c COMPILE -DPLUGIN_ADDS=4000)
set_target_properties(versioned PROPERTIES NO_SONAME ON)
target_link_options(versioned PRIVATE -Wl,-soname,libturn++-3.1.so.3.1)
e2e_library(alias_zero alias_zero.S)
set_target_properties(alias_zero PROPERTIES LINKER_LANGUAGE C)
e2e_library(cart cart.cc COMPILE -DCART_LIBRARY)

e2e_program(calls_lazy calls.c COMPILE -fno-pie LINK -no-pie -Wl,-z,lazy)
e2e_program(calls_now calls.c COMPILE -fPIE LINK -pie -Wl,-z,now,-z,relro)
e2e_program(calls_ibtplt calls.c COMPILE -fPIE -fcf-protection=full LINK -pie -Wl,-z,ibtplt,-z,now)
e2e_program(calls_ibtplt_lazy calls.c COMPILE -fPIE -fcf-protection=full LINK -pie -Wl,-z,ibtplt,-z,lazy)
e2e_program(calls_noplt calls.c COMPILE -fPIE -fno-plt LINK -pie)
e2e_program(calls_noplt_exec calls.c COMPILE -fno-pie -fno-plt LINK -no-pie)
e2e_program(calls_stripped calls.c COMPILE -fPIE LINK -pie -s -Wl,-z,now)
e2e_program(address_taken address_taken.c COMPILE -fPIE LINK -pie)
e2e_program(address_taken_exec address_taken.c COMPILE -fno-pie LINK -no-pie)
e2e_program(tail_noplt tail_noplt.c COMPILE -fPIE -fno-plt LINK -pie)
e2e_program(tail_noplt_exec tail_noplt.c COMPILE -fno-pie -fno-plt LINK -no-pie)
e2e_program(two_names two_names.c COMPILE -O2 -fPIE -fno-builtin LINK -pie)
e2e_program(two_names_noplt two_names.c COMPILE -O2 -fPIE -fno-plt -fno-builtin LINK -pie)
e2e_program(two_names_noplt_exec two_names.c COMPILE -O2 -fno-pie -fno-plt -fno-builtin LINK -no-pie)
find_package(Threads REQUIRED)
e2e_program(crossing crossing.c COMPILE -fPIE -fno-plt LINK -pie LIBRARIES pointers)
e2e_program(slots slots.c COMPILE -fPIE -fno-plt LINK -pie -Wl,-z,now LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
e2e_program(entries entries.c)
e2e_program(inside inside.c)
e2e_program(register_calls register_calls.c COMPILE -fPIE LINK -pie -fuse-ld=bfd)
e2e_program(loads loads.c LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(host host.c LIBRARIES ${CMAKE_DL_LIBS})
# The same host, linked in every way that changes how its calls look.
e2e_program(host_now host.c COMPILE -fPIE LINK -pie -Wl,-z,now,-z,relro LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(host_lazy host.c COMPILE -fno-pie LINK -no-pie -Wl,-z,lazy LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(host_ibtplt host.c COMPILE -fPIE -fcf-protection=full LINK -pie -Wl,-z,ibtplt,-z,ibt,-z,now LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(host_ibtplt_lazy host.c COMPILE -fPIE -fcf-protection=full LINK -pie -Wl,-z,ibtplt,-z,ibt,-z,lazy LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(host_noplt host.c COMPILE -fPIE -fno-plt LINK -pie LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(host_noplt_exec host.c COMPILE -fno-pie -fno-plt LINK -no-pie LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(host_stripped host.c COMPILE -fPIE LINK -pie -s -Wl,-z,now LIBRARIES ${CMAKE_DL_LIBS})
e2e_program(clocks clocks.c COMPILE -fPIE LINK -pie)
e2e_program(clocks_noplt clocks.c COMPILE -fPIE -fno-plt LINK -pie)
e2e_program(ifunc_user ifunc_user.c COMPILE -fno-builtin LIBRARIES ifunc)
e2e_program(ifunc_user_noplt ifunc_user.c COMPILE -fno-builtin -fno-plt LIBRARIES ifunc)
e2e_program(firsts firsts.c)
target_sources(e2e_firsts PRIVATE targets/firsts.S)
e2e_program(ignores ignores.c LIBRARIES Threads::Threads)
e2e_program(catches catches.c LIBRARIES Threads::Threads)
e2e_program(finds_next finds_next.c LIBRARIES finds)
e2e_program(finds_next_noplt finds_next.c LIBRARIES finds_noplt)
e2e_program(operations operations.c COMPILE -fPIE LINK -pie)
e2e_program(operations_exec operations.c COMPILE -fno-pie LINK -no-pie)
e2e_program(suspends suspends.c LIBRARIES Threads::Threads)
e2e_program(own_convention own_convention.c COMPILE -mno-red-zone)
e2e_program(own_convention_go own_convention.c COMPILE -mno-red-zone -DGO)
e2e_program(comings comings.c LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
e2e_program(openers openers.c LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
e2e_program(never_back never_back.c)
target_sources(e2e_never_back PRIVATE targets/never_back.S)
e2e_program(timed timed.c)
e2e_program(departs departs.c LIBRARIES Threads::Threads)
e2e_program(vanishes vanishes.c)
e2e_program(repeats repeats.c)
e2e_program(large_pages large_pages.c)
e2e_program(interpreter interpreter.c COMPILE -O2)
e2e_program(provides provides.c COMPILE -fno-builtin LIBRARIES Threads::Threads)
e2e_program(signalled signalled.c)
e2e_program(faulting faulting.cc COMPILE -O1 -fnon-call-exceptions)
target_sources(e2e_faulting PRIVATE targets/faulting.S)
e2e_program(threads threads.c LIBRARIES Threads::Threads)
e2e_program(busy busy.c LIBRARIES Threads::Threads)
e2e_program(numbered numbered.c LIBRARIES Threads::Threads)
e2e_program(children children.c)
e2e_program(nest nest.c COMPILE -O1)
e2e_program(nested_forks nested_forks.c COMPILE -O1)
e2e_program(both_call both_call.c COMPILE -fno-builtin)
e2e_program(brood brood.c COMPILE -fno-builtin LIBRARIES Threads::Threads)
e2e_program(lingers lingers.c COMPILE -fno-builtin LIBRARIES Threads::Threads)
e2e_program(park park.c)
e2e_program(inner inner.c LIBRARIES Threads::Threads)
e2e_program(rings rings.c COMPILE -fno-builtin)
e2e_program(counts counts.c COMPILE -fno-builtin LIBRARIES Threads::Threads)
e2e_program(remaps remaps.c)
e2e_program(late_stack late_stack.c LIBRARIES Threads::Threads)
e2e_program(crowd crowd.c COMPILE -fno-builtin LIBRARIES Threads::Threads)
e2e_program(formats formats.cc COMPILE -fno-builtin -std=c++20 -Wno-format LIBRARIES Threads::Threads)
e2e_program(passes passes.cc COMPILE -g -fno-builtin -std=c++20 LIBRARIES Threads::Threads)
e2e_program(signals signals.c)
e2e_program(waits waits.c)
e2e_program(hides hides.c)
e2e_program(patient patient.c LIBRARIES Threads::Threads)
e2e_program(in_handler in_handler.c)
e2e_program(full_mask full_mask.c)
e2e_program(masks masks.c)
e2e_program(sigtrap sigtrap.c)
e2e_program(trap_handlers trap_handlers.c)
e2e_program(steps steps.c)
e2e_program(blocked blocked.c LIBRARIES Threads::Threads)
e2e_program(hostile hostile.c)
e2e_program(shop cart.cc LIBRARIES cart)
e2e_program(survive survive.c LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
e2e_program(witness witness.c LIBRARIES Threads::Threads)
e2e_program(sleepers sleepers.c LIBRARIES Threads::Threads)
e2e_program(faults faults.c)
e2e_program(execs execs.c LIBRARIES Threads::Threads)
e2e_program(leader_leaves leader_leaves.c LIBRARIES Threads::Threads)
e2e_program(guarded guarded.c LINK -Wl,-z,now)
e2e_program(dispatched dispatched.c COMPILE -O1 -fno-builtin)
e2e_program(vforks vforks.c)
e2e_program(kernel kernel.c LIBRARIES Threads::Threads)
e2e_program(kernel_types kernel_types.c)
e2e_program(fragile fragile.c LINK -Wl,-z,now LIBRARIES Threads::Threads)
# Without frame pointers, whatever the compiler's default is: backtraces go by call frame information.
set(frames_options -fomit-frame-pointer -fno-stack-protector)
e2e_program(frames frames.c COMPILE -g ${frames_options} LIBRARIES Threads::Threads)
e2e_program(frames_no_pie frames.c COMPILE -fno-pie ${frames_options} LINK -no-pie LIBRARIES Threads::Threads)
e2e_program(frames_stripped frames.c COMPILE ${frames_options} LINK -s LIBRARIES Threads::Threads)
e2e_program(frames_debug_frame frames.c COMPILE -g -fno-asynchronous-unwind-tables ${frames_options}
  LIBRARIES Threads::Threads)
e2e_program(frames_cxx frames_cxx.cc COMPILE ${frames_options})
e2e_program(descriptors descriptors.c)
e2e_library(errnos errnos.c COMPILE -DERRNOS_LIBRARY)
e2e_program(errnos errnos.c COMPILE "-DERRNOS_NAMESPACE=\"${targets_dir}/liberrnos.so\""
  LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
add_dependencies(e2e_errnos errnos)

# With SDT probes: <sys/sdt.h> of Debian's systemtap-sdt-dev, which only the tests need.
find_path(SDT_HEADER sys/sdt.h)
if(SDT_HEADER)
  e2e_library(marker marker.c)
  e2e_program(marks marks.c LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
endif()

# The C library's functions with known arguments, each line's expectation beside it. The compiler knows none of them.
foreach(name files maths numbers sockets streams strings threads times wide)
  e2e_program(libc_${name} libc/${name}.c
    COMPILE -O0 -fno-builtin -include ${CMAKE_CURRENT_SOURCE_DIR}/targets/libc/plain.h -Wno-unused-value
      -Wno-unused-result -Wno-unused-variable -Wno-unused-but-set-variable -Wno-deprecated-declarations
    LINK -Wl,-z,now LIBRARIES m Threads::Threads)
endforeach()

# With another C library, dynamic linker included. musl-gcc(1) of Debian's musl-tools.
# Only the tests need it: without it rtrace builds, and they fail for want of their targets.
find_program(MUSL_GCC musl-gcc)
set(musl_options -std=gnu11 -O2 -Wall -Wextra -fcf-protection=none)
function(e2e_musl output)
  cmake_parse_arguments(ARG "" "" "SOURCES;OPTIONS;NEEDS" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/targets/)
  list(TRANSFORM ARG_NEEDS PREPEND ${targets_dir}/musl/)
  add_custom_command(OUTPUT ${targets_dir}/musl/${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${targets_dir}/musl
    COMMAND ${MUSL_GCC} ${musl_options} -o ${targets_dir}/musl/${output} ${ARG_SOURCES} ${ARG_NEEDS} ${ARG_OPTIONS}
    DEPENDS ${ARG_SOURCES} ${ARG_NEEDS} ${CMAKE_CURRENT_SOURCE_DIR}/targets/fixture.h VERBATIM)
  set(musl_targets ${musl_targets} ${targets_dir}/musl/${output} PARENT_SCOPE)
endfunction()
e2e_musl(libfixture.so SOURCES fixture.c OPTIONS -fPIC -shared -Wl,-soname,libfixture.so)
e2e_musl(libplugin_a.so SOURCES plugin.c OPTIONS -fPIC -shared -DPLUGIN_ADDS=1000)
e2e_musl(libworker.so SOURCES worker.c OPTIONS -fPIC -shared NEEDS libfixture.so)
e2e_musl(host SOURCES host.c OPTIONS -fPIE -pie -Wl,-rpath,${targets_dir}/musl NEEDS libfixture.so)
e2e_musl(calls SOURCES calls.c OPTIONS -fPIE -pie -Wl,-rpath,${targets_dir}/musl NEEDS libfixture.so)
e2e_musl(calls_static SOURCES calls.c fixture.c OPTIONS -static)
e2e_musl(frames SOURCES frames.c OPTIONS -fPIE -pie -Wl,-rpath,${targets_dir}/musl NEEDS libfixture.so)
e2e_musl(errnos SOURCES errnos.c OPTIONS -fPIE -pie)
e2e_musl(errnos_static SOURCES errnos.c OPTIONS -static)
if(MUSL_GCC)
  add_custom_target(e2e_musl ALL DEPENDS ${musl_targets})
endif()

# Without a C library: a program for 32 bits needs no other compiler then.
foreach(bits 32 64)
  add_custom_command(OUTPUT ${targets_dir}/tiny${bits}
    COMMAND ${CMAKE_C_COMPILER} -m${bits} -O1 -ffreestanding -fno-pie -fno-stack-protector -fcf-protection=none
            -static -no-pie -nostdlib -o ${targets_dir}/tiny${bits} ${CMAKE_CURRENT_SOURCE_DIR}/targets/tiny.c
    DEPENDS targets/tiny.c)
  list(APPEND tiny ${targets_dir}/tiny${bits})
endforeach()
add_custom_target(e2e_tiny ALL DEPENDS ${tiny})

# What debug information says: in the program, in the library, in a file beside the library, nowhere.
e2e_program(described described.c COMPILE -g)
e2e_program(described_gsplit described.c COMPILE -g -gsplit-dwarf)
e2e_program(described_cxx described.cc COMPILE -g)
# Without optimization: the calls are to be made as they stand in the source.
e2e_program(library library.cc COMPILE -g -O0)
e2e_library(spot spot.c COMPILE -g)
e2e_library(spot_bare spot.c COMPILE -g0)
e2e_program(spotter_bare spotter.c COMPILE -g0 LIBRARIES spot)
e2e_program(spotter_both_bare spotter.c COMPILE -g0 LIBRARIES spot_bare)
e2e_program(spotter_declares spotter.c COMPILE -g LIBRARIES spot_bare)
set(apart ${targets_dir}/apart)
add_custom_command(OUTPUT ${apart}/libspot.so ${apart}/libspot.debug
  COMMAND ${CMAKE_COMMAND} -E make_directory ${apart}
  COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:spot> ${apart}/libspot.debug
  COMMAND ${CMAKE_OBJCOPY} --strip-all --add-gnu-debuglink=${apart}/libspot.debug $<TARGET_FILE:spot> ${apart}/libspot.so
  DEPENDS spot)
add_custom_target(e2e_apart ALL DEPENDS ${apart}/libspot.so)

# The shapes of arguments, by both compilers, without optimization: rtrace is to find them where the psABI says.
find_program(CLANG clang)
set(gcc ${CMAKE_C_COMPILER})
set(clang ${CLANG})
foreach(compiler gcc clang)
  foreach(avx "" _avx)
    set(shapes ${targets_dir}/shapes_${compiler}${avx})
    add_custom_command(OUTPUT ${shapes}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${targets_dir}
      COMMAND ${${compiler}} -std=gnu11 -O0 -g -Wall -Wextra -Wno-unused-parameter -Wno-psabi $<$<BOOL:${avx}>:-mavx>
        -o ${shapes} ${CMAKE_CURRENT_SOURCE_DIR}/targets/shapes.c
      DEPENDS targets/shapes.c COMMAND_EXPAND_LISTS)
    if(${compiler})
      list(APPEND all_shapes ${shapes})
    endif()
  endforeach()
endforeach()
add_custom_target(e2e_shapes ALL DEPENDS ${all_shapes})

# clang keeps in a register what it calls several times, and jumps there at the last.
if(CLANG)
  set(by_register ${targets_dir}/by_register)
  set(flags -std=gnu11 -O2 -fno-plt -Wall -Wextra)
  add_custom_command(OUTPUT ${by_register} ${targets_dir}/libthrice.so
    COMMAND ${CMAKE_COMMAND} -E make_directory ${targets_dir}
    COMMAND ${CLANG} ${flags} -fPIC -shared -o ${targets_dir}/libthrice.so ${CMAKE_CURRENT_SOURCE_DIR}/targets/thrice.c
      $<TARGET_FILE:fixture>
    COMMAND ${CLANG} ${flags} -fPIE -pie -o ${by_register} ${CMAKE_CURRENT_SOURCE_DIR}/targets/by_register.c
      ${targets_dir}/libthrice.so $<TARGET_FILE:fixture> -Wl,-rpath,${targets_dir}
    DEPENDS targets/thrice.c targets/by_register.c fixture VERBATIM)
  add_custom_target(e2e_by_register ALL DEPENDS ${by_register})
endif()

# Without a dynamic linker.
add_executable(e2e_clocks_static targets/clocks.c)
set_target_properties(e2e_clocks_static PROPERTIES OUTPUT_NAME clocks_static)
target_compile_options(e2e_clocks_static PRIVATE ${common})
target_link_options(e2e_clocks_static PRIVATE -static)
e2e_place(e2e_clocks_static)
foreach(kind static static-pie)
  string(REPLACE "-" "_" name ${kind})
  add_executable(e2e_calls_${name} targets/calls.c targets/fixture.c)
  set_target_properties(e2e_calls_${name} PROPERTIES OUTPUT_NAME calls_${name})
  target_compile_options(e2e_calls_${name} PRIVATE ${common} $<IF:$<STREQUAL:${kind},static>,-fno-pie,-fPIE>)
  target_link_options(e2e_calls_${name} PRIVATE -${kind})
  e2e_place(e2e_calls_${name})
  add_executable(e2e_waits_${name} targets/waits.c targets/fixture.c)
  add_executable(e2e_nested_forks_${name} targets/nested_forks.c targets/fixture.c)
  add_executable(e2e_waits_full_${name} targets/waits.c targets/fixture.c targets/full_text.S)
  add_executable(e2e_orphan_full_${name} targets/orphan.c targets/fixture.c targets/full_text.S)
  add_executable(e2e_ifunc_${name} targets/ifunc_user.c targets/ifunc.c)
  add_executable(e2e_errnos_${name} targets/errnos.c)
  add_executable(e2e_frames_${name} targets/frames.c targets/fixture.c)
  target_compile_options(e2e_frames_${name} PRIVATE ${frames_options})
  foreach(program nested_forks waits waits_full orphan_full ifunc errnos frames)
    set_target_properties(e2e_${program}_${name} PROPERTIES OUTPUT_NAME ${program}_${name})
    target_compile_options(e2e_${program}_${name} PRIVATE ${common} -fno-builtin
      $<$<STREQUAL:${program},nested_forks>:-O1>
      $<IF:$<STREQUAL:${kind},static>,-fno-pie,-fPIE>)
    target_link_options(e2e_${program}_${name} PRIVATE -${kind})
    e2e_place(e2e_${program}_${name})
  endforeach()
endforeach()

# Functions that count themselves, and programs that enter and leave them in every way. Exceptions and forced unwinding
# pass through them.
e2e_library(counted counted.c COMPILE -fexceptions)
foreach(name flow flow_signals flow_threads)
  e2e_program(${name} ${name}.c COMPILE -fexceptions LIBRARIES counted Threads::Threads)
endforeach()
e2e_program(requests requests.cc COMPILE -O1)
e2e_program(flow_throws flow_throws.cc LIBRARIES counted Threads::Threads)
e2e_library(lzma_counter lzma_counter.c)
e2e_library(libc_counter libc_counter.c COMPILE -fno-builtin)
foreach(name lzma_counter libc_counter)
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
endforeach()
e2e_program(bare_env bare_env.c)

# The same plugin stripped, with what was stripped in a file beside it, as distributions do it.
set(split ${targets_dir}/libsplit.so)
add_custom_command(OUTPUT ${split} ${split}.debug
  COMMAND ${CMAKE_OBJCOPY} --only-keep-debug $<TARGET_FILE:statics> ${split}.debug
  COMMAND ${CMAKE_OBJCOPY} --strip-all --add-gnu-debuglink=${split}.debug $<TARGET_FILE:statics> ${split}
  DEPENDS statics)
add_custom_target(e2e_split ALL DEPENDS ${split})
add_custom_command(OUTPUT ${targets_dir}/libstripped.so
  COMMAND ${CMAKE_OBJCOPY} --strip-all $<TARGET_FILE:statics> ${targets_dir}/libstripped.so
  DEPENDS statics)
add_custom_target(e2e_stripped ALL DEPENDS ${targets_dir}/libstripped.so)

# And with the names of its static functions packed into it.
find_program(XZ xz REQUIRED)
add_custom_command(OUTPUT ${targets_dir}/libpacked.so
  COMMAND ${CMAKE_OBJCOPY} -S --keep-symbol=garbage_collect $<TARGET_FILE:statics> libpacked.mini
  COMMAND ${XZ} -f libpacked.mini
  COMMAND ${CMAKE_OBJCOPY} --strip-all --add-section .gnu_debugdata=libpacked.mini.xz
    $<TARGET_FILE:statics> ${targets_dir}/libpacked.so
  DEPENDS statics)
add_custom_target(e2e_packed ALL DEPENDS ${targets_dir}/libpacked.so)
