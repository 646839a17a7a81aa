/* SPDX-License-Identifier: Apache-2.0 */
/* The dlsym that libcompshim_dl.so exports; see dl_filter.c. */

    .text
    .globl  dlsym
    .type   dlsym, %function
    .align  16

#if defined(__x86_64__)
dlsym:
    .cfi_startproc
    endbr64
    sub     $24, %rsp
    .cfi_adjust_cfa_offset 24
    mov     %rdi, 16(%rsp)
    mov     %rsi, 8(%rsp)
    mov     24(%rsp), %rdx              /* the return address */
    call    cshim_dl_filter
    mov     8(%rsp), %rsi
    mov     16(%rsp), %rdi
    add     $24, %rsp
    .cfi_adjust_cfa_offset -24
    test    %rax, %rax
    jnz     1f
    jmp     *cshim_dl_real(%rip)
1:  ret
    .cfi_endproc

#elif defined(__aarch64__)
dlsym:
    .cfi_startproc
    stp     x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    stp     x0, x1, [sp, #16]
    mov     x29, sp
    mov     x2, x30                     /* the return address */
    bl      cshim_dl_filter
    mov     x9, x0
    ldp     x0, x1, [sp, #16]
    ldp     x29, x30, [sp], #32
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    cbnz    x9, 1f
    adrp    x16, cshim_dl_real
    ldr     x16, [x16, #:lo12:cshim_dl_real]
    br      x16
1:  mov     x0, x9
    ret
    .cfi_endproc

#else
#error "dl_stub.S: a dlsym for this processor is missing; leave libcompshim_dl.so out"
#endif

    .size   dlsym, . - dlsym
    .section .note.GNU-stack, "", %progbits
