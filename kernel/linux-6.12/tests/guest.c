// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "device.h"
#include "guest.h"
#include "span.h"
#include "tap.h"

/* Where the guest has its program, in a page of its own, and where the span. */
#define PROGRAM_AT 0UL
#define SPAN_AT GIANT

/* In each page, behind the word that fill() writes. */
#define COUNTER 12

/* KVM's numbers of the two. */
enum slot { PROGRAM_SLOT, SPAN_SLOT };

static int vm, vcpu;
static char *guest_span;
static struct kvm_run *run;
static size_t run_length;
static char *program;
/* The log that was fetched last, a bit for each page. */
static uint64_t dirty[SPAN_PAGES / 64];

/* ---- What the guest does ----------------------------------------------- */

/* From esi on, in ecx pages: edx is rotated, and both halves of the page's word come to it. */
static const uint8_t sum_code[] = {
	0x31, 0xd2,				/*    xor edx, edx */
	0xd1, 0xc2,				/* 1: rol edx, 1 */
	0x33, 0x16,				/*    xor edx, [esi] */
	0x03, 0x56, 0x04,			/*    add edx, [esi + 4] */
	0x81, 0xc6, 0x00, 0x10, 0x00, 0x00,	/*    add esi, 4096 */
	0x49,					/*    dec ecx */
	0x75, 0xf0,				/*    jnz 1b */
	0xf4,					/*    hlt */
};

/* From esi on, in ecx pages: edx counts the counters that are not ebx; each is one more then. */
static const uint8_t count_code[] = {
	0x31, 0xd2,				/*    xor edx, edx */
	0x39, 0x5e, COUNTER,			/* 1: cmp [esi + COUNTER], ebx */
	0x74, 0x01,				/*    je 2f */
	0x42,					/*    inc edx */
	0xff, 0x46, COUNTER,			/* 2: inc dword [esi + COUNTER] */
	0x81, 0xc6, 0x00, 0x10, 0x00, 0x00,	/*    add esi, 4096 */
	0x49,					/*    dec ecx */
	0x75, 0xee,				/*    jnz 1b */
	0xf4,					/*    hlt */
};

#define SUM_AT PROGRAM_AT
#define COUNT_AT (PROGRAM_AT + 64)

/* Lets the guest run from `at` to its hlt; returns its edx. */
static uint32_t execute(uint64_t at, size_t first, size_t pages, uint32_t expected)
{
	struct kvm_regs registers = {
		.rip = at, .rflags = 2, .rsi = SPAN_AT + first * PAGE, .rcx = pages, .rbx = expected,
	};

	if (ioctl(vcpu, KVM_SET_REGS, &registers))
		tap_bail("KVM_SET_REGS");
	if (ioctl(vcpu, KVM_RUN, NULL))
		tap_bail("KVM_RUN");
	if (run->exit_reason != KVM_EXIT_HLT)
		tap_bail("the guest stops for reason %u", run->exit_reason);
	if (ioctl(vcpu, KVM_GET_REGS, &registers))
		tap_bail("KVM_GET_REGS");
	return registers.rdx;
}

uint32_t guest_sum(size_t first, size_t pages)
{
	return execute(SUM_AT, first, pages, 0);
}

uint32_t guest_sum_of(const char *span, size_t first, size_t pages)
{
	uint32_t sum = 0;

	for (size_t page = first; page < first + pages; page++) {
		const volatile uint32_t *word = (const uint32_t *)(span + page * PAGE);

		sum = ((sum << 1 | sum >> 31) ^ word[0]) + word[1];
	}
	return sum;
}

uint32_t guest_count(size_t first, size_t pages, uint32_t expected)
{
	return execute(COUNT_AT, first, pages, expected);
}

void guest_set_counters(char *span, size_t first, size_t pages, uint32_t value)
{
	for (size_t page = first; page < first + pages; page++)
		*(volatile uint32_t *)(span + page * PAGE + COUNTER) = value;
}

uint32_t guest_counter(const char *span, size_t page)
{
	return *(const volatile uint32_t *)(span + page * PAGE + COUNTER);
}

size_t guest_miscounted(const char *span, size_t first, size_t pages, uint32_t expected)
{
	size_t wrong = 0;

	for (size_t page = first; page < first + pages; page++)
		wrong += guest_counter(span, page) != expected;
	return wrong;
}

/* ---- What it runs on --------------------------------------------------- */

static void give_memory(enum slot slot, uint64_t at, char *memory, size_t length, uint32_t flags)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot, .flags = flags, .guest_phys_addr = at, .memory_size = length, .userspace_addr = (uintptr_t)memory,
	};

	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		tap_bail("KVM_SET_USER_MEMORY_REGION");
}

/* Protected mode with segments of all addresses, and no page tables of its own: those of KVM are what is tested. */
static void set_protected_mode(void)
{
	struct kvm_segment data = {
		.limit = 0xffffffff, .selector = 16, .type = 3, .present = 1, .db = 1, .s = 1, .g = 1,
	};
	struct kvm_segment code = data;
	struct kvm_sregs registers;

	code.selector = 8;
	code.type = 11;
	if (ioctl(vcpu, KVM_GET_SREGS, &registers))
		tap_bail("KVM_GET_SREGS");
	registers.cr0 |= 1;
	registers.cs = code;
	registers.ds = registers.es = registers.fs = registers.gs = registers.ss = data;
	if (ioctl(vcpu, KVM_SET_SREGS, &registers))
		tap_bail("KVM_SET_SREGS");
}

bool guest_start(char *span)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (kvm < 0)
		return false;
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		tap_bail("KVM_CREATE_VM");
	program = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (program == MAP_FAILED)
		tap_bail("mmap of the guest's program");
	memcpy(program + SUM_AT, sum_code, sizeof(sum_code));
	memcpy(program + COUNT_AT, count_code, sizeof(count_code));
	guest_span = span;
	give_memory(PROGRAM_SLOT, PROGRAM_AT, program, PAGE, 0);
	give_memory(SPAN_SLOT, SPAN_AT, span, GIANT, 0);
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (vcpu < 0)
		tap_bail("KVM_CREATE_VCPU");
	run_length = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	run = mmap(NULL, run_length, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		tap_bail("mmap of the virtual CPU");
	close(kvm);
	set_protected_mode();
	return true;
}

void guest_end(void)
{
	/* The mapping of the virtual CPU keeps it, and it the machine. */
	munmap(run, run_length);
	munmap(program, PAGE);
	close(vcpu);
	close(vm);
}

long guest_mapped(const char *name)
{
	char path[64], text[32] = "";
	int file;

	snprintf(path, sizeof(path), "/sys/kernel/debug/kvm/%s", name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || read(file, text, sizeof(text) - 1) <= 0)
		tap_bail("read %s", path);
	close(file);
	return atol(text);
}

void guest_log(bool on)
{
	give_memory(SPAN_SLOT, SPAN_AT, guest_span, GIANT, on ? KVM_MEM_LOG_DIRTY_PAGES : 0);
}

void guest_fetch_log(void)
{
	struct kvm_dirty_log request = { .slot = SPAN_SLOT, .dirty_bitmap = dirty };

	if (ioctl(vm, KVM_GET_DIRTY_LOG, &request))
		tap_bail("KVM_GET_DIRTY_LOG");
}

size_t guest_logged(size_t first, size_t pages)
{
	size_t logged = 0;

	for (size_t page = first; page < first + pages; page++)
		logged += dirty[page / 64] >> page % 64 & 1;
	return logged;
}
