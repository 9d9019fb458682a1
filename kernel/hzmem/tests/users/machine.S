/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The firmware of the smallest machine that uses its memory: 64 KiB, given to QEMU with -bios. It fills memory from 1 MiB
 * to MEMORY_END with words that follow from their address and the round, checks them, and again for ROUNDS rounds; then
 * it says P or F at the debug port and ends QEMU through isa-debug-exit.
 */
#define MEMORY_START 0x100000
#define MEMORY_END (24 << 20)
#define ROUNDS 4
#define DEBUG_PORT 0xe9
#define EXIT_PORT 0xf4

	.code16
	.org 0
start:
	cli
	lgdtl %cs:descriptors
	movl %cr0, %eax
	orl $1, %eax
	movl %eax, %cr0
	ljmpl $8, $(0xf0000 + protected)

	.code32
protected:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movl $ROUNDS, %ebp
round:
	movl $MEMORY_START, %edi
fill:
	movl %edi, %eax
	imull $0x9e3779b1, %eax
	xorl %ebp, %eax
	/* Every other line is the same everywhere, so that it compresses. */
	testl $0x40, %edi
	jz 1f
	movl %ebp, %eax
1:	movl %eax, (%edi)
	addl $4, %edi
	cmpl $MEMORY_END, %edi
	jb fill
	/* A while in which nothing is touched. */
	movl $30000000, %ecx
1:	decl %ecx
	jnz 1b
	movl $MEMORY_START, %edi
check:
	movl %edi, %eax
	imull $0x9e3779b1, %eax
	xorl %ebp, %eax
	testl $0x40, %edi
	jz 1f
	movl %ebp, %eax
1:	cmpl %eax, (%edi)
	jne failed
	addl $4, %edi
	cmpl $MEMORY_END, %edi
	jb check
	decl %ebp
	jnz round
	movl $'P', %eax
	jmp say
failed:
	movl $'F', %eax
say:
	outb %al, $DEBUG_PORT
	/* QEMU's exit status is twice this and one: 161 or 141. */
	movw $EXIT_PORT, %dx
	outb %al, %dx
1:	hlt
	jmp 1b

	.balign 8
table:
	.quad 0
	.quad 0x00cf9a000000ffff	/* code, 4 GiB */
	.quad 0x00cf92000000ffff	/* data, 4 GiB */
descriptors:
	.word descriptors - table - 1
	.long 0xf0000 + table

	/* Where the processor begins: f000:fff0. */
	.org 0xfff0
	.code16
	ljmp $0xf000, $start
	.org 0x10000
