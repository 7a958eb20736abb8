// Copies and atomics on memory that may not exist (any more). A fault inside
// [urnic_guarded_begin, urnic_guarded_end) makes the function return 1 instead
// of ending the program: the signal handler of guarded_memory.cc sets the
// instruction pointer to urnic_guarded_fault. So no function here touches the
// stack or a callee-saved register.
//
// Store order: bytes go up, the last eight are one store of
// their own at the end, because programs spin on the last byte of a Write; and
// each aligned piece of eight bytes is one store.

        .text
        .globl  urnic_guarded_begin, urnic_guarded_end, urnic_guarded_fault
        .globl  urnic_guarded_copy, urnic_guarded_cmpxchg, urnic_guarded_xadd
        .globl  urnic_guarded_copy_fold_avx512, urnic_guarded_copy_fold_sse
        .hidden urnic_guarded_begin, urnic_guarded_end, urnic_guarded_fault
        .hidden urnic_guarded_copy, urnic_guarded_cmpxchg, urnic_guarded_xadd
        .hidden urnic_guarded_copy_fold_avx512, urnic_guarded_copy_fold_sse
        .hidden urnic_guarded_rep_min
        .p2align 6
urnic_guarded_begin:

// int urnic_guarded_copy(void* rdi, const void* rsi, size_t rdx)
        .type   urnic_guarded_copy, @function
urnic_guarded_copy:
        cmpq    $8, %rdx
        jb      .Lbelow8
        movq    -8(%rsi,%rdx), %r9       // the last eight, stored at the end
        leaq    -8(%rdi,%rdx), %r10
        subq    $8, %rdx
        je      .Lfinish
        cmpq    $8, %rdx
        jbe     .Lone
        cmpq    urnic_guarded_rep_min(%rip), %rdx
        jae     .Lrep
        // rdx bytes in front of the last eight: 16 at a time
        movq    %rdx, %rcx
        shrq    $4, %rcx
        je      .Ltail
.Lloop:
        movups  (%rsi), %xmm0
        addq    $16, %rsi
        movups  %xmm0, (%rdi)
        addq    $16, %rdi
        decq    %rcx
        jne     .Lloop
        andq    $15, %rdx
        je      .Lfinish
.Ltail:                                  // 1 to 15 bytes are left
        cmpq    $8, %rdx
        jb      .Loverlap
        movq    (%rsi), %rax
        movq    %rax, (%rdi)
        subq    $8, %rdx
        je      .Lfinish
        addq    $8, %rsi
        addq    $8, %rdi
.Loverlap:                               // 1 to 7: end where the last begin
        movq    -8(%rsi,%rdx), %rax
        movq    %rax, -8(%rdi,%rdx)
.Lfinish:
        movq    %r9, (%r10)
        xorl    %eax, %eax
        ret
.Lone:                                   // 9 to 16 bytes in all
        movq    (%rsi), %rax
        movq    %rax, (%rdi)
        movq    %r9, (%r10)
        xorl    %eax, %eax
        ret
.Lrep:                                   // later stores stay behind a rep
        movq    %rdx, %rcx
        rep movsb
        movq    %r9, (%r10)
        xorl    %eax, %eax
        ret
.Lbelow8:
        cmpq    $4, %rdx
        jb      .Lbelow4
        movl    (%rsi), %eax
        movl    -4(%rsi,%rdx), %ecx
        movl    %eax, (%rdi)
        movl    %ecx, -4(%rdi,%rdx)
        xorl    %eax, %eax
        ret
.Lbelow4:
        testq   %rdx, %rdx
        je      .Lnothing
        movzbl  (%rsi), %eax
        cmpq    $1, %rdx
        je      .Lbyte
        movzbl  1(%rsi), %ecx
        movzbl  -1(%rsi,%rdx), %r8d
        movb    %al, (%rdi)
        movb    %cl, 1(%rdi)
        movb    %r8b, -1(%rdi,%rdx)
        xorl    %eax, %eax
        ret
.Lbyte:
        movb    %al, (%rdi)
.Lnothing:
        xorl    %eax, %eax
        ret
        .size   urnic_guarded_copy, . - urnic_guarded_copy

// int urnic_guarded_cmpxchg(uint64_t* rdi, uint64_t compare rsi,
//                           uint64_t swap rdx, uint64_t* original rcx)
        .type   urnic_guarded_cmpxchg, @function
urnic_guarded_cmpxchg:
        movq    %rsi, %rax
        lock cmpxchgq %rdx, (%rdi)
        movq    %rax, (%rcx)
        xorl    %eax, %eax
        ret
        .size   urnic_guarded_cmpxchg, . - urnic_guarded_cmpxchg

// int urnic_guarded_xadd(uint64_t* rdi, uint64_t add rsi,
//                        uint64_t* original rdx)
        .type   urnic_guarded_xadd, @function
urnic_guarded_xadd:
        lock xaddq %rsi, (%rdi)
        movq    %rsi, (%rdx)
        xorl    %eax, %eax
        ret
        .size   urnic_guarded_xadd, . - urnic_guarded_xadd

// int urnic_guarded_copy_fold_X(void* rdi, const void* rsi, size_t rdx,
//                               uint8_t* rcx, uint32_t r8d, const void* r9)
// Copies rdx bytes, a multiple of N and not 0, and leaves in rcx[0, N) the
// accumulators that transport/wire/crc_fold.h describes: N is 256 with
// AVX-512 and 128 with SSE, r8d is the running state, r9 the multipliers.
        .macro  FOLD512 acc, at
        vmovdqu64 \at(%rsi), %zmm4
        vmovdqu64 %zmm4, \at(%rdi)
        vpclmulqdq $0x00, %zmm8, \acc, %zmm5
        vpclmulqdq $0x11, %zmm8, \acc, \acc
        vpternlogq $0x96, %zmm4, %zmm5, \acc     // three-way xor
        .endm
        .type   urnic_guarded_copy_fold_avx512, @function
        .p2align 6
urnic_guarded_copy_fold_avx512:
        vbroadcasti32x4 (%r9), %zmm8
        vmovd   %r8d, %xmm4
        .irp    i, 0, 1, 2, 3
        vmovdqu64 64*\i(%rsi), %zmm\i
        vmovdqu64 %zmm\i, 64*\i(%rdi)
        .endr
        vpxorq  %zmm4, %zmm0, %zmm0
        jmp     .Lnext512
        .p2align 6
.Lloop512:
        .irp    i, 0, 1, 2, 3
        FOLD512 %zmm\i, 64*\i
        .endr
.Lnext512:
        addq    $256, %rsi
        addq    $256, %rdi
        subq    $256, %rdx
        jne     .Lloop512
        .irp    i, 0, 1, 2, 3
        vmovdqu64 %zmm\i, 64*\i(%rcx)
        .endr
        vzeroupper
        xorl    %eax, %eax
        ret
        .size   urnic_guarded_copy_fold_avx512, . - urnic_guarded_copy_fold_avx512

        .macro  FOLD128 acc, at
        movdqu  \at(%rsi), %xmm9
        movdqa  \acc, %xmm10
        movdqu  %xmm9, \at(%rdi)
        pclmulqdq $0x00, %xmm8, %xmm10
        pclmulqdq $0x11, %xmm8, \acc
        pxor    %xmm9, %xmm10
        pxor    %xmm10, \acc
        .endm
        .type   urnic_guarded_copy_fold_sse, @function
        .p2align 6
urnic_guarded_copy_fold_sse:
        movdqu  (%r9), %xmm8
        movd    %r8d, %xmm9
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movdqu  16*\i(%rsi), %xmm\i
        movdqu  %xmm\i, 16*\i(%rdi)
        .endr
        pxor    %xmm9, %xmm0
        jmp     .Lnext128
        .p2align 6
.Lloop128:
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        FOLD128 %xmm\i, 16*\i
        .endr
.Lnext128:
        subq    $-128, %rsi
        subq    $-128, %rdi
        addq    $-128, %rdx
        jne     .Lloop128
        .irp    i, 0, 1, 2, 3, 4, 5, 6, 7
        movdqu  %xmm\i, 16*\i(%rcx)
        .endr
        xorl    %eax, %eax
        ret
        .size   urnic_guarded_copy_fold_sse, . - urnic_guarded_copy_fold_sse

urnic_guarded_fault:
        movl    $1, %eax
        ret
urnic_guarded_end:

        .section .note.GNU-stack, "", @progbits
