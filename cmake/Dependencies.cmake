# What rtrace links. libelf and Capstone come in statically and fmt is compiled into base: the dynamic linker's
# work on shared copies of them is most of what starting rtrace would cost.
find_package(fmt REQUIRED)  # its headers; base/fmt_instances.cc is its library
find_path(RTRACE_LIBELF_INCLUDE libelf.h REQUIRED)
find_library(RTRACE_LIBELF libelf.a REQUIRED)
find_library(RTRACE_ZLIB libz.a REQUIRED)
find_library(RTRACE_ZSTD libzstd.a)
find_library(RTRACE_LZMA liblzma.a REQUIRED)
find_path(RTRACE_LIBDW_INCLUDE elfutils/libdw.h REQUIRED)
find_library(RTRACE_LIBDW libdw.a REQUIRED)
find_library(RTRACE_CAPSTONE libcapstone.a REQUIRED)
find_path(RTRACE_TOMLPP_INCLUDE toml++/toml.h REQUIRED)

add_library(rtrace_libelf STATIC IMPORTED)
set_target_properties(rtrace_libelf PROPERTIES IMPORTED_LOCATION ${RTRACE_LIBELF})
target_link_libraries(rtrace_libelf INTERFACE ${RTRACE_ZLIB} ${RTRACE_LZMA})
if(RTRACE_ZSTD)
  target_link_libraries(rtrace_libelf INTERFACE ${RTRACE_ZSTD})
endif()
add_library(rtrace_dep_elf INTERFACE)
target_link_libraries(rtrace_dep_elf INTERFACE rtrace_libelf)

# Of libdw only what reads DWARF is linked; its libdwfl, which needs liblzma and libbz2, stays out.
add_library(rtrace_libdw STATIC IMPORTED)
set_target_properties(rtrace_libdw PROPERTIES IMPORTED_LOCATION ${RTRACE_LIBDW})
target_link_libraries(rtrace_libdw INTERFACE rtrace_libelf)
add_library(rtrace_dep_dw INTERFACE)
target_link_libraries(rtrace_dep_dw INTERFACE rtrace_libdw)
target_include_directories(rtrace_dep_dw SYSTEM INTERFACE ${RTRACE_LIBDW_INCLUDE})

add_library(rtrace_dep_capstone INTERFACE)
target_link_libraries(rtrace_dep_capstone INTERFACE ${RTRACE_CAPSTONE})

# The demangler whose output can be bounded; libstdc++.so keeps it to itself.
add_library(rtrace_dep_demangler INTERFACE)
target_link_libraries(rtrace_dep_demangler INTERFACE supc++)

add_library(rtrace_dep_toml INTERFACE)
target_include_directories(rtrace_dep_toml SYSTEM INTERFACE ${RTRACE_TOMLPP_INCLUDE})

add_library(rtrace_options INTERFACE)
target_include_directories(rtrace_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(rtrace_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror
  # g++ 12 sees overlaps and overruns in std::string's own code (GCC bugs 105329, 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
if(RTRACE_SANITIZE OR RTRACE_FUZZ)
  target_compile_options(rtrace_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer
    # What libFuzzer learns from: which edges are taken, and, where nothing else is done with the build, what is compared.
    $<$<BOOL:${RTRACE_FUZZ}>:-fsanitize-coverage=inline-8bit-counters,pc-table$<$<NOT:$<BOOL:${RTRACE_SANITIZE}>>:,trace-cmp>>)
  target_link_options(rtrace_options INTERFACE -fsanitize=address,undefined)
else()
  # Lines for backtraces are enough: with all of what debuggers want, compiling takes half as long again.
  target_compile_options(rtrace_options INTERFACE $<$<CONFIG:RelWithDebInfo>:-g1>)
  # For src/start_order.ld, which names functions.
  target_compile_options(rtrace_options INTERFACE -ffunction-sections)
  target_link_options(rtrace_options INTERFACE -static-libstdc++ -static-libgcc)
endif()
