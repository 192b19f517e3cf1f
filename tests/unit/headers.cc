// Only the precompiled headers of this target matter; CMake wants a source with them.
