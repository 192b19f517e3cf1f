# In the last section of code, which crtn.o ends by 5 bytes: the last page of the text segment has fewer than
# 16 to spare.
  .section .fini, "ax", @progbits
  .balign 4096, 0x90
  .fill 4096 - 13, 1, 0x90
  .section .note.GNU-stack, "", @progbits
