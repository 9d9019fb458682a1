// SPDX-License-Identifier: GPL-2.0
/*
 * The guest's side of mega_exchange.h: asks the host to exchange the memory of
 * pairs of huge pages, for the kernel's promotion. A PCI driver for QEMU's
 * ivshmem-doorbell that binds only where an exchanger has laid out its memory.
 *
 * All that the host writes is untrusted: read once, and good for nothing but to
 * decide how long to wait. Whether a pair was exchanged the kernel sees by the
 * token in it, whatever is said here. What is said matters in one way: a pair is
 * settled only if its state says that the host is done with it, or will never
 * begin. Of every other one nobody knows, and the kernel uses its memory no more.
 */
#include "exchange.h"

#ifdef MEGA_EXCHANGE_BUILT
#include <linux/anon_pud.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include "mega_exchange.h"

/* How long the host may take, first for all and then for those it has begun. */
#define PATIENCE_NS (1 * NSEC_PER_SEC)
/* A host that is there answers within this, so there is no need to sleep. */
#define SPIN_NS (50 * NSEC_PER_USEC)

/* What came of all the pairs so far; each has a file. */
struct counts {
	u64 requests;		/* rung for */
	u64 exchanged;		/* pairs that were */
	u64 refused;		/* pairs that were not, by the host's decision */
	u64 refused_invalid;	/* of these, by its reason: -EINVAL */
	u64 refused_not_guest;	/* -EPERM */
	u64 refused_unsupported; /* -EOPNOTSUPP */
	u64 refused_busy;	/* -EBUSY */
	u64 refused_paused;	/* -EAGAIN */
	u64 refused_no_memory;	/* -ENOMEM */
	u64 refused_failed;	/* -EIO */
	u64 cancelled;		/* pairs that the host was too late for */
	u64 lied;		/* pairs whose result is not what happened */
	u64 unsettled;		/* pairs that the host left in the middle */
	u64 not_asked;		/* pairs for which there was nobody to ask */
	u64 busy;		/* and those while an old request was not over */
};

/*
 * A device. Its exchanges are under the lock: one request at a time. It lives from
 * its probe to its removal, and the kernel calls nobody here before it has been
 * registered or after it was unregistered, which waits for a call to end.
 */
struct exchange_device {
	struct device *dev;
	void __iomem *registers;
	struct mega_exchange_header *header;
	struct mega_exchange_pair *pairs;
	struct mutex lock;
	struct counts counts;
	bool leaving;
	u64 sequence;
	/* What the sources' and the targets' first words were. */
	u64 source_words[MEGA_EXCHANGE_MAX_PAIRS];
	u64 target_words[MEGA_EXCHANGE_MAX_PAIRS];
};

/*
 * The one that is registered. Set before the kernel may call, and cleared after it
 * may not; who only asks whether there is one reads its header under the lock.
 */
static struct exchange_device *the_device;
static DEFINE_MUTEX(the_lock);

static bool is_serving(struct exchange_device *device)
{
	return READ_ONCE(device->header->features) &
	       MEGA_EXCHANGE_FEATURE_SERVING;
}

static u64 first_word(unsigned long frame)
{
	return READ_ONCE(*(u64 *)page_address(pfn_to_page(frame)));
}

/* Whether the host is done with a pair, or will never begin. */
static bool is_settled(struct mega_exchange_pair *pair)
{
	/* What the host did is to be seen by who sees that it is done. */
	u32 state = smp_load_acquire(&pair->state);

	return state == MEGA_EXCHANGE_DONE || state == MEGA_EXCHANGE_CANCELLED;
}

/* ---- A request --------------------------------------------------------- */

static void write_pairs(struct exchange_device *device,
			const struct anon_pud_pair *pairs, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct mega_exchange_pair *pair = &device->pairs[i];

		WRITE_ONCE(pair->source, PFN_PHYS(pairs[i].source));
		WRITE_ONCE(pair->target, PFN_PHYS(pairs[i].target));
		WRITE_ONCE(pair->result, -EIO);
		WRITE_ONCE(pair->state, MEGA_EXCHANGE_PENDING);
		device->source_words[i] = first_word(pairs[i].source);
		device->target_words[i] = first_word(pairs[i].target);
	}
	WRITE_ONCE(device->header->pairs, nr);
	WRITE_ONCE(device->header->sequence, ++device->sequence);
}

/*
 * Whether the host carries nothing more out of the last request: until then its pairs
 * are not to be written over.
 */
static bool is_over(u32 state)
{
	return state == MEGA_EXCHANGE_IDLE || state == MEGA_EXCHANGE_DONE ||
	       state == MEGA_EXCHANGE_CANCELLED;
}

/* Hands the pairs over. False where the host does not take requests. */
static bool request(struct exchange_device *device,
		    const struct anon_pud_pair *pairs, unsigned int nr)
{
	u32 old = READ_ONCE(device->header->state);

	if (!is_serving(device)) {
		device->counts.not_asked += nr;
		return false;
	}
	if (!is_over(old)) {
		device->counts.busy += nr;
		return false;
	}
	write_pairs(device, pairs, nr);
	/* This is a full barrier: the pairs are there before it is said that they are. */
	if (cmpxchg(&device->header->state, old, MEGA_EXCHANGE_PENDING) != old) {
		device->counts.busy += nr;
		return false;
	}
	device->counts.requests++;
	iowrite32((u32)(u16)READ_ONCE(device->header->host_peer) << 16,
		  device->registers + MEGA_EXCHANGE_BAR0_DOORBELL);
	return true;
}

/* Waits for a moment, longer where it has been long; false when it is enough. */
static bool wait_a_moment(struct exchange_device *device, u64 begin)
{
	u64 waited = ktime_get_ns() - begin;

	if (waited > PATIENCE_NS)
		return false;
	if (waited < SPIN_NS)
		cpu_relax();
	else
		usleep_range(50, 200);
	return true;
}

static void wait_for_request(struct exchange_device *device)
{
	u64 begin = ktime_get_ns();

	while (READ_ONCE(device->header->state) != MEGA_EXCHANGE_DONE &&
	       !READ_ONCE(device->leaving) && is_serving(device))
		if (!wait_a_moment(device, begin))
			break;
}

/* Takes back what the host has not begun. True if that is all of it. */
static bool cancel(struct exchange_device *device, unsigned int nr)
{
	unsigned int i;

	if (cmpxchg(&device->header->state, MEGA_EXCHANGE_PENDING,
		    MEGA_EXCHANGE_CANCELLED) == MEGA_EXCHANGE_PENDING) {
		device->counts.cancelled += nr;
		return true;
	}
	for (i = 0; i < nr; i++)
		if (cmpxchg(&device->pairs[i].state, MEGA_EXCHANGE_PENDING,
			    MEGA_EXCHANGE_CANCELLED) == MEGA_EXCHANGE_PENDING)
			device->counts.cancelled++;
	return false;
}

/* Waits for the pairs that the host has begun, which takes it microseconds. */
static void settle(struct exchange_device *device, struct anon_pud_pair *pairs,
		   unsigned int nr)
{
	u64 begin = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < nr; i++) {
		while (!is_settled(&device->pairs[i]))
			if (!wait_a_moment(device, begin))
				break;
		pairs[i].unsettled = !is_settled(&device->pairs[i]);
		if (!pairs[i].unsettled)
			continue;
		device->counts.unsettled++;
		dev_warn_once(device->dev,
			      "the host has left an exchange in the middle\n");
	}
}

/* What the host gave as its reason. Another than those that there are is in the sum alone. */
static void count_refusal(struct counts *counts, s32 result)
{
	counts->refused++;
	switch (result) {
	case -EINVAL:
		counts->refused_invalid++;
		break;
	case -EPERM:
		counts->refused_not_guest++;
		break;
	case -EOPNOTSUPP:
		counts->refused_unsupported++;
		break;
	case -EBUSY:
		counts->refused_busy++;
		break;
	case -EAGAIN:
		counts->refused_paused++;
		break;
	case -ENOMEM:
		counts->refused_no_memory++;
		break;
	case -EIO:
		counts->refused_failed++;
		break;
	}
}

/* For the counts alone. */
static void compare_results(struct exchange_device *device,
			    const struct anon_pud_pair *pairs, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		s32 result = READ_ONCE(device->pairs[i].result);
		u32 state = READ_ONCE(device->pairs[i].state);
		bool exchanged;

		if (pairs[i].unsettled)
			continue;
		exchanged = first_word(pairs[i].source) == device->target_words[i] &&
			    first_word(pairs[i].target) == device->source_words[i];
		device->counts.exchanged += exchanged;
		if (state == MEGA_EXCHANGE_CANCELLED ? exchanged : exchanged == !!result) {
			device->counts.lied++;
			dev_warn_once(device->dev,
				      "the host does not do what it says\n");
		} else if (state == MEGA_EXCHANGE_DONE && !exchanged) {
			count_refusal(&device->counts, result);
			dev_info_once(device->dev,
				      "the host refuses an exchange: error %d\n",
				      result);
		}
	}
}

static void exchange(struct anon_pud_pair *pairs, unsigned int nr)
{
	struct exchange_device *device = the_device;

	mutex_lock(&device->lock);
	if (request(device, pairs, nr)) {
		wait_for_request(device);
		if (!cancel(device, nr)) {
			settle(device, pairs, nr);
			compare_results(device, pairs, nr);
		}
	}
	mutex_unlock(&device->lock);
}

static struct anon_pud_exchanger exchanger = {
	.max = MEGA_EXCHANGE_MAX_PAIRS,
	.exchange = exchange,
};

static int set_pairs(const char *value, const struct kernel_param *parameter)
{
	return param_set_uint_minmax(value, parameter, 1,
				     MEGA_EXCHANGE_MAX_PAIRS);
}

static const struct kernel_param_ops pairs_operations = {
	.set = set_pairs,
	.get = param_get_uint,
};

/* Only at load: the kernel reads it without a lock. */
module_param_cb(exchange_pairs, &pairs_operations, &exchanger.max, 0444);
MODULE_PARM_DESC(exchange_pairs,
		 "Pairs in one request to the host, at most: 1 to 512, to compare with (default 512)");

bool mega_exchange_available(void)
{
	bool available;

	mutex_lock(&the_lock);
	available = the_device && is_serving(the_device);
	mutex_unlock(&the_lock);
	return available;
}

/* ---- The counts and the host's reason, each a file of the device ------- */

#define COUNT(name)							\
	static ssize_t name##_show(struct device *dev,			\
				   struct device_attribute *attribute,	\
				   char *buffer)			\
	{								\
		struct exchange_device *device = dev_get_drvdata(dev);	\
									\
		return sysfs_emit(buffer, "%llu\n",			\
				  READ_ONCE(device->counts.name));	\
	}								\
	static DEVICE_ATTR_RO(name)

COUNT(requests);
COUNT(exchanged);
COUNT(refused);
COUNT(refused_invalid);
COUNT(refused_not_guest);
COUNT(refused_unsupported);
COUNT(refused_busy);
COUNT(refused_paused);
COUNT(refused_no_memory);
COUNT(refused_failed);
COUNT(cancelled);
COUNT(lied);
COUNT(unsettled);
COUNT(not_asked);
COUNT(busy);

/* Why nobody on the host serves the device, as far as the host says it. */
static const char *const refusals[] = {
	[0] = "unknown",
	[MEGA_EXCHANGE_REFUSES_DEVICES] = "devices",
	[MEGA_EXCHANGE_REFUSES_ENCRYPTED] = "encrypted",
	[MEGA_EXCHANGE_REFUSES_MEMORY] = "memory",
	[MEGA_EXCHANGE_REFUSES_HOST] = "host",
	[MEGA_EXCHANGE_REFUSES_OTHER] = "other",
};

static ssize_t refusal_show(struct device *dev,
			    struct device_attribute *attribute, char *buffer)
{
	struct exchange_device *device = dev_get_drvdata(dev);
	u32 refusal = READ_ONCE(device->header->refusal);

	if (is_serving(device))
		return sysfs_emit(buffer, "none\n");
	/* A newer host may have more of them. */
	refusal = min(refusal, MEGA_EXCHANGE_REFUSES_OTHER);
	return sysfs_emit(buffer, "%s\n", refusals[refusal]);
}
static DEVICE_ATTR_RO(refusal);

static struct attribute *count_attributes[] = {
	&dev_attr_requests.attr,
	&dev_attr_exchanged.attr,
	&dev_attr_refused.attr,
	&dev_attr_refused_invalid.attr,
	&dev_attr_refused_not_guest.attr,
	&dev_attr_refused_unsupported.attr,
	&dev_attr_refused_busy.attr,
	&dev_attr_refused_paused.attr,
	&dev_attr_refused_no_memory.attr,
	&dev_attr_refused_failed.attr,
	&dev_attr_cancelled.attr,
	&dev_attr_lied.attr,
	&dev_attr_unsettled.attr,
	&dev_attr_not_asked.attr,
	&dev_attr_busy.attr,
	&dev_attr_refusal.attr,
	NULL,
};

static const struct attribute_group count_group = {
	.name = "mega_exchange",
	.attrs = count_attributes,
};

static const struct attribute_group *count_groups[] = { &count_group, NULL };

/* ---- The device -------------------------------------------------------- */

/* Other uses of ivshmem have something else in their memory: leave them alone. */
static bool is_ours(const struct mega_exchange_header *header)
{
	return READ_ONCE(header->magic) == MEGA_EXCHANGE_MAGIC &&
	       READ_ONCE(header->version) == MEGA_EXCHANGE_VERSION &&
	       READ_ONCE(header->max_pairs) == MEGA_EXCHANGE_MAX_PAIRS &&
	       READ_ONCE(header->page_shift) == MEGA_EXCHANGE_PAGE_SHIFT;
}

static int map(struct pci_dev *pci, struct exchange_device *device)
{
	void *memory;
	int error;

	if (pci_resource_len(pci, 2) < MEGA_EXCHANGE_BYTES ||
	    pci_resource_len(pci, 0) < MEGA_EXCHANGE_BAR0_DOORBELL + 4)
		return -ENODEV;
	error = pcim_enable_device(pci);
	if (error)
		return error;
	error = pcim_request_all_regions(pci, KBUILD_MODNAME);
	if (error)
		return error;
	/* It is memory, shared with a process on the host. */
	memory = devm_memremap(&pci->dev, pci_resource_start(pci, 2),
			       MEGA_EXCHANGE_BYTES, MEMREMAP_WB);
	if (IS_ERR(memory))
		return PTR_ERR(memory);
	device->header = memory;
	device->pairs = memory + MEGA_EXCHANGE_PAIRS_OFFSET;
	if (!is_ours(device->header))
		return -ENODEV;
	device->registers = pcim_iomap(pci, 0, 0);
	return device->registers ? 0 : -ENOMEM;
}

static int probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct exchange_device *device;
	int error;

	device = devm_kzalloc(&pci->dev, sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;
	device->dev = &pci->dev;
	mutex_init(&device->lock);
	error = map(pci, device);
	if (error)
		return error;
	pci_set_drvdata(pci, device);

	mutex_lock(&the_lock);
	error = the_device ? -EBUSY : 0;
	if (!error) {
		the_device = device;
		error = anon_pud_set_exchanger(&exchanger);
		if (error)
			the_device = NULL;
	}
	mutex_unlock(&the_lock);
	return error;
}

/* The device may be taken away while a request is with the host: it is given up. */
static void remove(struct pci_dev *pci)
{
	struct exchange_device *device = pci_get_drvdata(pci);

	WRITE_ONCE(device->leaving, true);
	mutex_lock(&the_lock);
	/* Not again after a shutdown. */
	if (the_device == device) {
		anon_pud_set_exchanger(NULL);
		the_device = NULL;
	}
	mutex_unlock(&the_lock);
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(MEGA_EXCHANGE_PCI_VENDOR, MEGA_EXCHANGE_PCI_DEVICE) },
	{ }
};

static struct pci_driver driver = {
	.name = "mega_exchange",
	.id_table = ids,
	.probe = probe,
	.remove = remove,
	/* Who boots another kernel leaves it no request. */
	.shutdown = remove,
	.dev_groups = count_groups,
};

int mega_exchange_init(void)
{
	return pci_register_driver(&driver);
}

void mega_exchange_exit(void)
{
	pci_unregister_driver(&driver);
}
#endif /* MEGA_EXCHANGE_BUILT */
