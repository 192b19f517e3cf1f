# What goes where on a Debian-like system, and the package made of it.
install(TARGETS rtrace RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# OPTIONAL: there need not be any shipped prototypes.
install(DIRECTORY conf/ DESTINATION ${CMAKE_INSTALL_DATADIR}/rtrace/conf OPTIONAL)
install(FILES schema/rtrace-trace.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/rtrace)
install(FILES man/rtrace.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES man/rtrace.conf.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES completions/rtrace.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME rtrace)
install(FILES completions/_rtrace DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES completions/rtrace.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The name that Debian's policy (12.5) gives to it.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(CPACK_PACKAGE_NAME rtrace)
set(CPACK_PACKAGE_VENDOR "rtrace")
set(CPACK_PACKAGE_CONTACT "The rtrace developers <rtrace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "library-call tracer for running processes")
set(CPACK_PACKAGE_DESCRIPTION
  "Attaches to a process by pid and shows which functions of which shared libraries it calls, with arguments, results
and durations: also in libraries that dlopen brings in later, such as the extensions of Python, Perl, Ruby and PHP.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
# It is linked statically. getent(1) and locale(1), which it runs for users and locales, are in libc-bin.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc-bin, coreutils")
include(CPack)
