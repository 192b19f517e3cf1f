/* One address with two dynamic symbols: the one that is asked for has no size, as in libmariadb. */
        .text
        .globl  sized_work
        .type   sized_work, @function
        .globl  plugin_work
        .type   plugin_work, @function
sized_work:
plugin_work:
        lea     5(%rdi), %eax
        ret
        .size   sized_work, . - sized_work
        .section .note.GNU-stack, "", @progbits
