/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled kernels (kernels.fatbin) as read-only data, which driver.c hands to the CUDA driver.
 */
    .section .rodata
    .balign 64
    .globl cshim_kernels_binary
    .hidden cshim_kernels_binary
    .type cshim_kernels_binary, @object
cshim_kernels_binary:
    .incbin "kernels.fatbin"
    .size cshim_kernels_binary, . - cshim_kernels_binary
    .section .note.GNU-stack, "", @progbits
