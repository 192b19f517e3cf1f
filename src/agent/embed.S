// The linked blob, as data of the tracer.
  .section .rodata
  .globl rtrace_blob_begin, rtrace_blob_end
  .balign 16
rtrace_blob_begin:
  .incbin RTRACE_BLOB_FILE
rtrace_blob_end:

  .globl rtrace_blob_frames_begin, rtrace_blob_frames_end
  .balign 16
rtrace_blob_frames_begin:
  .incbin RTRACE_FRAMES_FILE
rtrace_blob_frames_end:

  .section .note.GNU-stack, "", @progbits
