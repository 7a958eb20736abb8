// The jumps of libc_call.h, one for each name of libc_calls.bzl. Because they
// are jumps, they pass on all arguments, variadic ones too.

        .macro  LIBC_CALL name
        .pushsection .rodata.urnic_libc, "a", @progbits
        .asciz  "\name"
        .popsection
        .pushsection .bss.urnic_libc, "aw", @nobits
.Lslot_\name:
        .zero   8
        .popsection
        .globl  urnic_libc_\name
        .hidden urnic_libc_\name
        .type   urnic_libc_\name, @function
        // Weak: a shared object may define its own.
        .weak   __wrap_\name
        .hidden __wrap_\name
        .type   __wrap_\name, @function
        .p2align 4
urnic_libc_\name:
__wrap_\name:
        .cfi_startproc
        endbr64
        movq    .Lslot_\name(%rip), %r11
        testq   %r11, %r11
        je      1f
        jmp     *%r11
1:      leaq    .Lslot_\name(%rip), %r11
        jmp     first_call
        .cfi_endproc
        .size   urnic_libc_\name, . - urnic_libc_\name
        .endm

        .section .rodata.urnic_libc, "a", @progbits
        .globl  urnic_libc_names, urnic_libc_names_end
        .hidden urnic_libc_names, urnic_libc_names_end
urnic_libc_names:

        .section .bss.urnic_libc, "aw", @nobits
        .globl  urnic_libc_slots
        .hidden urnic_libc_slots
        .p2align 3
urnic_libc_slots:

        .text
        .hidden urnic_libc_look_up

// Looks up the addresses before the first call; r11: the slot. Saves the
// argument registers and al, the number of vector registers. No function of the
// list has vector arguments.
        .type   first_call, @function
        .p2align 4
first_call:
        .cfi_startproc
        pushq   %rax
        .cfi_adjust_cfa_offset 8
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        pushq   %rcx
        .cfi_adjust_cfa_offset 8
        pushq   %r8
        .cfi_adjust_cfa_offset 8
        pushq   %r9
        .cfi_adjust_cfa_offset 8
        pushq   %r11
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    urnic_libc_look_up
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %r11
        .cfi_adjust_cfa_offset -8
        popq    %r9
        .cfi_adjust_cfa_offset -8
        popq    %r8
        .cfi_adjust_cfa_offset -8
        popq    %rcx
        .cfi_adjust_cfa_offset -8
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        popq    %rax
        .cfi_adjust_cfa_offset -8
        jmp     *(%r11)
        .cfi_endproc
        .size   first_call, . - first_call

#include "verbs/preload/libc_calls.inc"

        .section .rodata.urnic_libc, "a", @progbits
urnic_libc_names_end:

        .section .note.GNU-stack, "", @progbits
