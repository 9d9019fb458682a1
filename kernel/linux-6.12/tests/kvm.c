// SPDX-License-Identifier: GPL-2.0
/*
 * A virtual machine on a giant page: KVM's tables map the guest's memory by 1 GiB, and follow whatever happens to the
 * giant page; neither the guest nor its host reads or writes a page that is not there any more.
 * TRIDENT_RACES_SECONDS for each race (default 10).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "guest.h"
#include "kernel.h"
#include "random.h"
#include "span.h"
#include "tap.h"

#define REGION_PAGES (HUGE / PAGE)

static int device;
static char *span;
/* What every counter of the guest is at. */
static uint32_t counted;

/* EXCHANGE of this process's memory; returns how many pairs were exchanged. */
static uint32_t exchange(struct mega_pair *pairs, uint32_t count)
{
	int self = pidfd_of(getpid());
	struct mega_exchange request = exchange_request(self, pairs, count);

	if (ioctl(device, MEGA_IOC_EXCHANGE, &request))
		tap_bail("EXCHANGE");
	close(self);
	return request.exchanged;
}

/* Again while a page is held by the kernel for a moment. */
static bool exchange_surely(struct mega_pair pair)
{
	for (unsigned int i = 0; i < 20; i++) {
		if (exchange(&pair, 1))
			return true;
		usleep(20000);
	}
	return false;
}

/* ---- One thing after the other ----------------------------------------- */

static void guest_is_right(const char *when)
{
	tap_equal(wrong_pages(span, GIANT, 0, 1), 0, "%s: the host has its data", when);
	tap_ok(guest_sum(0, SPAN_PAGES) == guest_sum_of(span, 0, SPAN_PAGES), "%s: the guest reads the same", when);
	tap_equal(guest_count(0, SPAN_PAGES, counted), 0, "%s: and what it wrote before", when);
	counted++;
	tap_equal(guest_miscounted(span, 0, SPAN_PAGES, counted), 0, "%s: and writes what the host reads", when);
}

static void giant_for_both(const char *when)
{
	promote_surely(device, span);
	guest_is_right(when);
	tap_equal(guest_mapped("pages_1g"), 1, "%s: the guest's tables map it by 1 GiB", when);
	tap_equal(guest_mapped("pages_2m"), 0, "%s: and nothing by 2 MiB", when);
}

/* What takes the giant page apart; the contents are the same afterwards. */
static void demoted(void)
{
	if (demote(device, span) != MEGA_DEMOTE_DONE)
		tap_bail("DEMOTE does not find a giant page");
}

static void protected(void)
{
	char *region = span + 30 * HUGE;

	if (mprotect(region, HUGE, PROT_READ))
		tap_bail("mprotect");
	tap_ok(guest_sum(30 * REGION_PAGES, REGION_PAGES) == guest_sum_of(span, 30 * REGION_PAGES, REGION_PAGES),
	       "a region made read-only: the guest reads it");
	if (mprotect(region, HUGE, PROT_READ | PROT_WRITE))
		tap_bail("mprotect");
}

static void given_back(void)
{
	if (madvise(span + 77 * HUGE, HUGE, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	tap_equal(guest_sum(77 * REGION_PAGES, REGION_PAGES), 0, "a region given back: the guest reads zeros");
	fill_part(span + 77 * HUGE, HUGE, 77 * HUGE, 1);
	guest_set_counters(span, 77 * REGION_PAGES, REGION_PAGES, counted);
}

static void paged_out(void)
{
	if (madvise(span + 100 * HUGE, 4 * HUGE, MADV_PAGEOUT))
		tap_bail("MADV_PAGEOUT");
}

static void shared_with_a_child(void)
{
	uint32_t before = counted;
	int go[2];
	char byte = 0;
	pid_t child;

	if (pipe(go))
		tap_bail("pipe");
	child = fork();
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		bool right = read(go[0], &byte, 1) == 1 && !guest_miscounted(span, 0, SPAN_PAGES, before) &&
			     !wrong_pages(span, GIANT, 0, 1);

		_exit(right ? 0 : 1);
	}
	guest_is_right("shared with a child");
	if (write(go[1], &byte, 1) != 1)
		tap_bail("write");
	tap_ok(ended_well(child), "a child has what was there at the fork, whatever the guest wrote since");
	close(go[0]);
	close(go[1]);
}

/* The contents come with their counters, so both are put back afterwards. */
static void exchanged(void)
{
	struct mega_pair pair = { .first = (uintptr_t)span + 40 * HUGE, .second = (uintptr_t)span + 300 * HUGE };

	tap_ok(exchange_surely(pair), "two huge pages change places");
	tap_equal(wrong_pages(span + 40 * HUGE, HUGE, 300 * HUGE, 1), 0, "the host sees it");
	tap_ok(guest_sum(40 * REGION_PAGES, REGION_PAGES) == guest_sum_of(span, 40 * REGION_PAGES, REGION_PAGES) &&
	       guest_sum(300 * REGION_PAGES, REGION_PAGES) == guest_sum_of(span, 300 * REGION_PAGES, REGION_PAGES),
	       "and so does the guest");
	tap_ok(exchange_surely(pair), "and back");
}

/*
 * KVM's log of dirty pages has what the guest writes, and would have nothing of an exchange, which changes what the host has
 * at two places: who copies by the log alone would lose both. So nothing is exchanged while KVM logs.
 */
static void logged(void)
{
	size_t first = 40 * REGION_PAGES, second = 300 * REGION_PAGES, some = 16;
	struct mega_pair pair = { .first = (uintptr_t)span + 40 * HUGE, .second = (uintptr_t)span + 300 * HUGE };
	char *outside = map_spans(1);
	struct mega_pair half = { .first = pair.first, .second = (uintptr_t)outside };

	fill(outside, HUGE, 2);
	guest_log(true);
	guest_fetch_log();
	tap_equal(guest_count(first, some, counted), 0, "while KVM logs: the guest writes");
	guest_fetch_log();
	tap_equal(guest_logged(first, some), some, "and the log has each page");
	tap_equal(guest_logged(0, SPAN_PAGES), some, "and no other");
	guest_set_counters(span, first, some, counted);

	tap_equal(exchange(&pair, 1), 0, "two huge pages do not change places while KVM logs");
	tap_equal(pair.result, MEGA_PAIR_LOGGED, "for that reason");
	tap_equal(exchange(&half, 1), 0, "nor one of the guest's with one that is not");
	tap_equal(half.result, MEGA_PAIR_LOGGED, "for that reason");
	tap_equal(wrong_pages(span + 40 * HUGE, HUGE, 40 * HUGE, 1) + wrong_pages(span + 300 * HUGE, HUGE, 300 * HUGE, 1) +
		  wrong_pages(outside, HUGE, 0, 2), 0, "and all of them have what they had");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "and the giant page stays");
	guest_fetch_log();
	tap_equal(guest_logged(0, SPAN_PAGES), 0, "the log has nothing of it");
	tap_equal(guest_count(first, REGION_PAGES, counted) + guest_count(second, REGION_PAGES, counted), 0,
		  "the guest writes to both");
	guest_fetch_log();
	tap_equal(guest_logged(first, REGION_PAGES) + guest_logged(second, REGION_PAGES), 2 * REGION_PAGES,
		  "and that the log has");
	guest_set_counters(span, first, REGION_PAGES, counted);
	guest_set_counters(span, second, REGION_PAGES, counted);
	guest_log(false);
	munmap(outside, GIANT);
	tap_ok(exchange_surely(pair), "when KVM logs no more they change places");
	tap_ok(exchange_surely(pair), "and back");
}

static void block_emptied(void)
{
	struct mega_compact request = compact_until(device, frame_of(span) + 3 * MEGA_BLOCK_FRAMES, 9,
						    MEGA_COMPACT_MOVE_HUGE, MEGA_STOP_DONE);

	compact_note(&request);
	tap_equal(request.stop, MEGA_STOP_DONE, "a block under it is emptied");
}

/* NUMA balancing passes a giant page by where its program is, and KVM does not even have to map it anew. */
static void balanced(void)
{
	if (!two_nodes()) {
		/* Not a skip: on one node there is nothing to balance. */
		tap_note("there is one node");
		return;
	}
	run_on_node(node_of(span));
	set_file(BALANCING, "1");
	for (time_t end = time(NULL) + 12; time(NULL) < end;)
		if (wrong_pages(span, GIANT, 0, 1))
			tap_bail("a byte changed");
	set_file(BALANCING, "0");
	run_anywhere();
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "NUMA balancing leaves it giant");
	tap_equal(guest_mapped("pages_1g"), 1, "in the guest's tables, too");
}

/* Where the machine has gone to the other node its memory comes over, though only the guest uses it. */
static void left_behind(void)
{
	time_t end = time(NULL) + SECONDS_OF_BALANCING;
	int node = !node_of(span);

	run_on_node(node);
	set_file(BALANCING, "1");
	while (regions_on(span, node) < SPAN_REGIONS && time(NULL) < end)
		guest_sum(0, SPAN_PAGES);
	set_file(BALANCING, "0");
	run_anywhere();
	tap_equal(regions_on(span, node), SPAN_REGIONS, "what the machine has left behind comes over");
}

/* KVM's tables have one Accessed bit for all of it, too: whatever the guest uses, all of it is in use. */
static void aged(void)
{
	uint64_t frame = frame_of(span);

	if (!mark_idle(frame, SPAN_PAGES)) {
		tap_skip("page_idle", "this kernel has none");
		return;
	}
	tap_equal(idle_pages(frame, SPAN_PAGES), SPAN_REGIONS, "what nobody uses is idle");
	guest_sum(5 * REGION_PAGES, 1);
	tap_equal(idle_pages(frame, SPAN_PAGES), 0, "what the guest uses is not, whichever huge page is looked at first");
	tap_equal(guest_mapped("pages_1g"), 1, "and the guest's tables map it by 1 GiB still");
}

static void split_by(const char *what, void (*act)(void))
{
	act();
	tap_equal(giant_kib(span, GIANT), 0, "%s: it is not giant any more", what);
	tap_equal(guest_mapped("pages_1g"), 0, "%s: nor in the guest's tables", what);
	guest_is_right(what);
	tap_equal(guest_mapped("pages_1g"), 0, "%s: nor when the guest has used all of it", what);
	giant_for_both("giant again");
}

/* ---- While the guest runs ---------------------------------------------- */

/* What nobody uses, beside the span. */
#define COLD (256UL << 20)

/* The last region is not counted in: it is given back while the guest uses the others. */
#define EXPENDABLE (SPAN_REGIONS - 1)
#define KEPT_PAGES (EXPENDABLE * REGION_PAGES)
/* What the guest does between two looks at what it is asked for. */
#define STRETCH (16 * REGION_PAGES)

static volatile bool stop;
static volatile unsigned long passes;
static unsigned long miscounted;

/* What is asked of the thread that runs the guest; it says when that is so. */
enum wish { NOTHING, SUM, REST, RESTING };
static enum wish wish;
/* What the guest makes of the expendable region. */
static uint32_t sum;

static enum wish wished(void)
{
	return __atomic_load_n(&wish, __ATOMIC_ACQUIRE);
}

static void make_wish(enum wish new)
{
	__atomic_store_n(&wish, new, __ATOMIC_RELEASE);
}

static void wait_for(enum wish end)
{
	while (wished() != end)
		usleep(100);
}

static void fulfil(void)
{
	if (wished() == SUM) {
		sum = guest_sum(KEPT_PAGES, REGION_PAGES);
		make_wish(NOTHING);
	} else if (wished() == REST) {
		make_wish(RESTING);
		wait_for(NOTHING);
	}
}

/* The guest counts through all that is kept, again and again. */
static void *counting(void *unused)
{
	while (!stop) {
		for (size_t first = 0; first < KEPT_PAGES; first += STRETCH) {
			size_t rest = KEPT_PAGES - first;

			miscounted += guest_count(first, rest < STRETCH ? rest : STRETCH, counted);
			fulfil();
		}
		counted++;
		passes++;
	}
	return unused;
}

/*
 * While the guest runs, if that is possible. It may be in the way of collapsing base pages: those that it has just
 * faulted in wait, referenced, in its CPU's lists.
 */
static void promote_meanwhile(void)
{
	struct mega_promote request = promote(device, span, 0);

	if (request.stop == MEGA_PROMOTE_DONE || request.stop == MEGA_PROMOTE_ALREADY)
		return;
	make_wish(REST);
	wait_for(RESTING);
	promote_surely(device, span);
	make_wish(NOTHING);
}

/* Another frame for the region, with something else in it: the guest has to read that. */
static bool gives_back(uint64_t *state)
{
	uint64_t seed = 2 + next(state) % 1000;
	char *region = span + EXPENDABLE * HUGE;

	if (madvise(region, HUGE, MADV_DONTNEED))
		tap_bail("MADV_DONTNEED");
	fill_part(region, HUGE, EXPENDABLE * HUGE, seed);
	make_wish(SUM);
	wait_for(NOTHING);
	return sum == guest_sum_of(span, KEPT_PAGES, REGION_PAGES);
}

static bool moves_a_region(uint64_t *state)
{
	uint64_t frame = frame_of(span + next(state) % EXPENDABLE * HUGE) & ~(MEGA_BLOCK_FRAMES - 1ULL);
	struct mega_compact request = compact_request(frame, 9);

	request.flags = MEGA_COMPACT_MOVE_HUGE;
	if (frame && ioctl(device, MEGA_IOC_COMPACT, &request))
		tap_bail("COMPACT");
	return true;
}

static bool only_demotes(uint64_t *state)
{
	(void)state;
	demote(device, span);
	return true;
}

static bool forks(uint64_t *state)
{
	pid_t child = fork();

	(void)state;
	if (child < 0)
		tap_bail("fork");
	if (!child)
		_exit(wrong_pages(span, 64 * HUGE, 0, 1) ? 1 : 0);
	return ended_well(child);
}

/* Promotion, then what takes it apart, while the guest runs. */
static void against(const char *what, bool (*act)(uint64_t *state), long seconds)
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	unsigned long rounds = 0, wrong = 0, seen = 0;
	time_t end;
	pthread_t thread;

	stop = false;
	passes = miscounted = 0;
	promote_surely(device, span);
	pthread_create(&thread, NULL, counting, NULL);
	for (end = time(NULL) + seconds; time(NULL) < end || !passes; rounds++) {
		promote_meanwhile();
		usleep(next(&state) % 3000);
		seen += guest_mapped("pages_1g");
		wrong += !act(&state);
	}
	stop = true;
	pthread_join(thread, NULL);
	tap_equal(wrong, 0, "%s while the guest runs: it reads what is there", what);
	tap_equal(miscounted, 0, "%s while the guest runs: nothing that it wrote is lost", what);
	tap_equal(guest_miscounted(span, 0, KEPT_PAGES, counted) + wrong_pages(span, EXPENDABLE * HUGE, 0, 1), 0,
		  "%s while the guest runs: the host has it all", what);
	tap_ok(seen > 0, "%s while the guest runs: its tables mapped 1 GiB in between", what);
	tap_note("%lu rounds, before %lu of which they did; %lu passes of the guest", rounds, seen, passes);
}

/* The regions that change places while the guest counts in them. */
#define PLAYING 8
#define PLAYING_PAGES (PLAYING * REGION_PAGES)

static void *counting_few(void *unused)
{
	while (!stop) {
		guest_count(0, PLAYING_PAGES, 0);
		passes++;
	}
	return unused;
}

/* Exchanges some pairs, and keeps track of whose contents are where. */
static unsigned long exchange_some(size_t *whose, uint64_t *state)
{
	struct mega_pair pairs[PLAYING / 2];
	size_t order[PLAYING], places[PLAYING / 2][2];
	unsigned long done;

	for (size_t i = 0; i < PLAYING; i++) {
		size_t j = next(state) % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (size_t i = 0; i < PLAYING / 2; i++) {
		places[i][0] = order[2 * i];
		places[i][1] = order[2 * i + 1];
		pairs[i] = (struct mega_pair) {
			.first = (uintptr_t)span + places[i][0] * HUGE, .second = (uintptr_t)span + places[i][1] * HUGE,
		};
	}
	done = exchange(pairs, PLAYING / 2);
	for (size_t i = 0; i < PLAYING / 2; i++) {
		size_t before = whose[places[i][0]];

		if (pairs[i].result != MEGA_PAIR_EXCHANGED)
			continue;
		whose[places[i][0]] = whose[places[i][1]];
		whose[places[i][1]] = before;
	}
	return done;
}

/* What else may happen to the pages that change places, and leaves their contents alone: none of it fails, or it ends the test. */
static bool nothing_else(uint64_t *state)
{
	(void)state;
	return true;
}

static bool pages_out(uint64_t *state)
{
	(void)state;
	if (madvise(span, PLAYING * HUGE, MADV_PAGEOUT))
		tap_bail("MADV_PAGEOUT");
	return true;
}

static bool forks_briefly(uint64_t *state)
{
	pid_t child = fork();

	(void)state;
	if (child < 0)
		tap_bail("fork");
	if (!child) {
		usleep(1000);
		_exit(0);
	}
	return ended_well(child);
}

static bool reads_from_elsewhere(uint64_t *state)
{
	static char copy[HUGE];
	struct iovec local = { copy, HUGE }, remote = { span + HUGE, HUGE };

	(void)state;
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)HUGE;
}

/* Behind what changes places, and not counted in meanwhile. */
#define BEHIND (span + 500 * HUGE)
#define MOVED 8UL

/* To another place and back: what the guest's memory consists of is another mapping meanwhile. Some of it changes places there. */
static bool moves_what_is_behind(uint64_t *state)
{
	static char *room;
	struct mega_pair pair;
	bool whole;

	if (!room)
		room = map_aligned(MOVED * HUGE);
	if (mremap(BEHIND, MOVED * HUGE, MOVED * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room)
		tap_bail("mremap");
	pair = (struct mega_pair) { .first = (uintptr_t)room, .second = (uintptr_t)room + HUGE };
	whole = !exchange_surely(pair) || exchange_surely(pair);
	usleep(next(state) % 5000);
	if (mremap(room, MOVED * HUGE, MOVED * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, BEHIND) != BEHIND)
		tap_bail("mremap");
	return whole;
}

#define KSM "/sys/kernel/mm/ksm/"

/*
 * What changes places is searched for pages that are the same, and some behind it, which are. No more: a search of all of the span
 * takes minutes where each access is checked. Until pages have been merged, ten minutes at most.
 */
static bool are_merged(uint64_t *state)
{
	if (madvise(span, PLAYING * HUGE, MADV_MERGEABLE) || madvise(BEHIND, HUGE, MADV_MERGEABLE))
		tap_bail("MADV_MERGEABLE");
	for (unsigned int i = 0; i < 6000 && read_number(KSM "pages_sharing", 0) <= 0; i++)
		usleep(100000);
	usleep(next(state) % 100000);
	return read_number(KSM "pages_sharing", 0) > 0;
}

/* What else happens; how often it has, and has failed; and pairs that were exchanged in the race. */
static bool (*disturbance)(uint64_t *state);
static volatile unsigned long acts, failed_acts, exchanged_pairs;

/* What a child shares is not exchanged, nor what is in swap: each time some pairs come through first. */
static void *disturbing(void *unused)
{
	uint64_t state = 1;

	while (!stop) {
		unsigned long before = exchanged_pairs;

		while (!stop && exchanged_pairs == before)
			usleep(next(&state) % 3000);
		failed_acts += !disturbance(&state);
		acts++;
	}
	return unused;
}

/*
 * Pages that the guest counts in change places, while something else happens to them. Where they are when the guest comes
 * by is chance. But it counts once at each address in each pass, so what all pages of the same place in their regions have
 * been counted is known.
 */
static void exchanging(const char *what, bool (*act)(uint64_t *state), long seconds)
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	unsigned long rounds = 0, seen = 0;
	size_t whose[PLAYING], wrong = 0, lost = 0;
	pthread_t thread, other;
	time_t end;

	for (size_t i = 0; i < PLAYING; i++)
		whose[i] = i;
	stop = false;
	disturbance = act;
	passes = acts = failed_acts = exchanged_pairs = 0;
	promote_surely(device, span);
	pthread_create(&thread, NULL, counting_few, NULL);
	pthread_create(&other, NULL, disturbing, NULL);
	for (end = time(NULL) + seconds; time(NULL) < end || passes < 2 || (exchanged_pairs && !acts); rounds++) {
		/* It splits the giant page, which is made anew at times. */
		if (rounds % 64 == 0) {
			promote(device, span, 0);
			usleep(2000);
			seen += guest_mapped("pages_1g");
		}
		exchanged_pairs += exchange_some(whose, &state);
	}
	stop = true;
	pthread_join(thread, NULL);
	pthread_join(other, NULL);
	for (size_t i = 0; i < PLAYING; i++)
		wrong += wrong_pages(span + i * HUGE, HUGE, whose[i] * HUGE, 1);
	for (size_t page = 0; page < REGION_PAGES; page++) {
		uint32_t sum = 0;

		for (size_t i = 0; i < PLAYING; i++)
			sum += guest_counter(span, i * REGION_PAGES + page);
		lost += sum != PLAYING * (uint32_t)(counted + passes);
	}
	tap_equal(wrong, 0, "exchanging %s while the guest runs: everything is where it was exchanged to", what);
	tap_equal(lost, 0, "exchanging %s while the guest runs: nothing that it wrote is lost", what);
	tap_ok(exchanged_pairs > 0, "exchanging %s while the guest runs: pairs were exchanged", what);
	tap_equal(failed_acts, 0, "exchanging %s while the guest runs: what else happened went well", what);
	tap_note("%lu rounds, %lu pairs, %lu other acts, %lu times its tables mapped 1 GiB before; %lu passes of the guest", rounds,
		 exchanged_pairs, acts, seen, passes);
	fill_part(span, PLAYING * HUGE, 0, 1);
	guest_set_counters(span, 0, PLAYING_PAGES, counted);
}

/* The end of the span goes to another place and back meanwhile. */
static void exchanging_against_mremap(long seconds)
{
	exchanging("against mremap", moves_what_is_behind, seconds);
	tap_equal(wrong_pages(BEHIND, MOVED * HUGE, BEHIND - span, 1) +
		  guest_miscounted(span, (BEHIND - span) / PAGE, MOVED * REGION_PAGES, counted), 0,
		  "exchanging against mremap while the guest runs: what was moved has what it had");
}

/* Pages behind those that change places are the same, and are merged meanwhile. */
static void exchanging_against_ksm(long seconds)
{
	if (access(KSM "run", W_OK)) {
		tap_skip("exchanging against KSM", "this kernel has none");
		return;
	}
	memset(BEHIND, 5, HUGE);
	set_file(KSM "pages_to_scan", "20000");
	set_file(KSM "sleep_millisecs", "1");
	set_file(KSM "run", "1");
	exchanging("against KSM", are_merged, seconds);
	set_file(KSM "run", "2");
	if (madvise(span, GIANT, MADV_UNMERGEABLE))
		tap_bail("MADV_UNMERGEABLE");
	set_file(KSM "run", "0");
	fill_part(BEHIND, HUGE, BEHIND - span, 1);
	guest_set_counters(span, (BEHIND - span) / PAGE, REGION_PAGES, counted);
}

/* The guest reads a small part of it, again and again. */
static void *reading(void *unused)
{
	while (!stop) {
		if (guest_sum(0, STRETCH) != guest_sum_of(span, 0, STRETCH))
			miscounted++;
		passes++;
	}
	return unused;
}

/* A group that has to give up memory gives up what nobody uses, and leaves the guest its giant page. */
static void hot_when_memory_is_short(void)
{
	char *cold = map_aligned(COLD);
	pthread_t thread;

	if (!write_file("/sys/kernel/mm/lru_gen/enabled", "7")) {
		tap_skip("reclaim with MGLRU", "this kernel has none");
		return;
	}
	fill_part(cold, COLD, 0, 1);
	madvise(cold, COLD, MADV_COLD);
	stop = false;
	passes = miscounted = 0;
	pthread_create(&thread, NULL, reading, NULL);
	for (int i = 0; i < 4; i++) {
		/* A host that is busy may be slow to run the guest. */
		for (unsigned long before = passes; passes < before + 2;)
			usleep(1000);
		cgroup_write("memory.reclaim", "32M");
	}
	stop = true;
	pthread_join(thread, NULL);
	tap_ok(smaps(cold, COLD, "Swap") > 0, "where memory is short, what nobody uses goes to swap");
	tap_note("%ld MiB of it, while the guest read %lu times", smaps(cold, COLD, "Swap") / 1024, passes);
	tap_equal(smaps(span, GIANT, "Swap"), 0, "and nothing that the guest uses");
	tap_equal(giant_kib(span, GIANT), GIANT / 1024, "its giant page stays");
	tap_equal(guest_mapped("pages_1g"), 1, "in its own tables, too");
	tap_equal(miscounted, 0, "and it reads what it should");
	munmap(cold, COLD);
}

int main(void)
{
	long seconds = seconds_of("TRIDENT_RACES_SECONDS", 10);
	bool swaps, grouped = cgroup_enter();

	device = device_open();
	span = map_spans(1);
	if (!guest_start(span)) {
		tap_skip("virtual machines", "this machine cannot have one");
		return tap_end();
	}
	swaps = swap_on();
	fill(span, GIANT, 1);
	guest_is_right("huge pages");
	giant_for_both("promoted");
	aged();
	balanced();
	if (swaps && grouped)
		hot_when_memory_is_short();
	else
		tap_skip("memory that is short", "there is no memory cgroup, or nothing to swap to");
	if (two_nodes())
		split_by("left behind on another node", left_behind);
	split_by("demoted", demoted);
	split_by("a region made read-only and back", protected);
	split_by("a region given back and filled again", given_back);
	split_by("shared with a child", shared_with_a_child);
	if (exchange_available(device)) {
		split_by("two huge pages exchanged", exchanged);
		split_by("two huge pages exchanged while dirty pages are logged", logged);
	} else {
		tap_skip("exchanges", "this kernel has none");
	}
	split_by("a block emptied", block_emptied);
	if (swaps)
		split_by("paged out in part", paged_out);
	else
		tap_skip("paging out", "there is nothing to swap to");

	against("demoting", only_demotes, seconds);
	against("giving back", gives_back, seconds);
	against("emptying blocks", moves_a_region, seconds);
	if (exchange_available(device)) {
		exchanging("alone", nothing_else, seconds);
		exchanging("against demotion", only_demotes, seconds);
		exchanging("against fork", forks_briefly, seconds);
		exchanging("against readers", reads_from_elsewhere, seconds);
		exchanging_against_mremap(seconds);
		exchanging_against_ksm(seconds);
		if (swaps)
			exchanging("against reclaim", pages_out, seconds);
	}
	against("forking", forks, seconds);

	munmap(span, GIANT);
	tap_equal(guest_mapped("pages_1g") + guest_mapped("pages_2m"), 0, "unmapped: nothing of it is in the guest's tables");
	guest_end();
	if (swaps)
		swap_off();
	if (grouped)
		cgroup_leave();
	tap_equal(meminfo("AnonPudMapped"), 0, "at the end nothing is mapped by giant pages");
	return tap_end();
}
