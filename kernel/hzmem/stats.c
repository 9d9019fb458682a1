// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/fs/hzmem: the pool, its nodes, its ranges, the mounts. The kobjects of nodes, ranges
 * and mounts are what keeps them: their release functions free them.
 */

#include <linux/kobject.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include "compress.h"
#include "hotplug.h"
#include "limits.h"
#include "lru.h"
#include "stats.h"

static struct kobject *root;
static struct kset *node_set;
static struct kset *range_set;
static struct kset *mount_set;

/* ---- A node ------------------------------------------------------------------------- */

enum node_value {
	NODE_TOTAL,
	NODE_FREE,
	NODE_PINNED,
	NODE_RETIRED,
	NODE_SECTIONS,
	NODE_DAEMON_CPU_NS,
};

struct value_attribute {
	struct kobj_attribute attribute;
	int value;
};

static unsigned long count_sections(struct hz_node *node)
{
	struct hz_section *section;
	unsigned long count = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(section, &node->sections, list)
		count++;
	rcu_read_unlock();
	return count;
}

static ssize_t show_node(struct kobject *kobject,
			 struct kobj_attribute *attribute, char *out)
{
	struct hz_node *node = container_of(kobject, struct hz_node, kobject);
	unsigned long long value = 0;

	switch (container_of(attribute, struct value_attribute,
			     attribute)->value) {
	case NODE_TOTAL:
		value = atomic_long_read(&node->total);
		break;
	case NODE_FREE:
		value = atomic_long_read(&node->free);
		break;
	case NODE_PINNED:
		value = atomic_long_read(&node->pinned);
		break;
	case NODE_RETIRED:
		value = atomic_long_read(&node->retired);
		break;
	case NODE_SECTIONS:
		value = count_sections(node);
		break;
	case NODE_DAEMON_CPU_NS:
		value = READ_ONCE(node->daemon->se.sum_exec_runtime);
		break;
	}
	return sysfs_emit(out, "%llu\n", value);
}

#define NODE_FILE(file, number) \
	static struct value_attribute node_##file = { \
		.attribute = __ATTR(file, 0444, show_node, NULL), \
		.value = number, \
	}

NODE_FILE(total, NODE_TOTAL);
NODE_FILE(free, NODE_FREE);
NODE_FILE(pinned, NODE_PINNED);
NODE_FILE(retired, NODE_RETIRED);
NODE_FILE(sections, NODE_SECTIONS);
NODE_FILE(daemon_cpu_ns, NODE_DAEMON_CPU_NS);

static struct attribute *node_attrs[] = {
	&node_total.attribute.attr,
	&node_free.attribute.attr,
	&node_pinned.attribute.attr,
	&node_retired.attribute.attr,
	&node_sections.attribute.attr,
	&node_daemon_cpu_ns.attribute.attr,
	NULL
};
ATTRIBUTE_GROUPS(node);

static void release_node(struct kobject *kobject)
{
	kfree(container_of(kobject, struct hz_node, kobject));
}

static const struct kobj_type node_type = {
	.release = release_node,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = node_groups,
};

void hz_stats_init_node(struct hz_node *node)
{
	kobject_init(&node->kobject, &node_type);
}

int hz_stats_add_node(struct hz_node *node)
{
	node->kobject.kset = node_set;
	return kobject_add(&node->kobject, NULL, "node%d", node->id);
}

/* Who reads one of its files has finished when this returns. */
void hz_stats_remove_node(struct hz_node *node)
{
	kobject_del(&node->kobject);
}

/* ---- A range ------------------------------------------------------------------------ */

static struct hz_range *range_of(struct kobject *kobject)
{
	return container_of(kobject, struct hz_range, kobject);
}

/* Where something lies in physical memory is nobody's business but root's. */
static ssize_t start_show(struct kobject *kobject,
			  struct kobj_attribute *attribute, char *out)
{
	return sysfs_emit(out, "%#llx\n", range_of(kobject)->start);
}

static ssize_t bytes_show(struct kobject *kobject,
			  struct kobj_attribute *attribute, char *out)
{
	return sysfs_emit(out, "%llu\n", range_of(kobject)->size);
}

static ssize_t node_show(struct kobject *kobject,
			 struct kobj_attribute *attribute, char *out)
{
	return sysfs_emit(out, "%d\n", range_of(kobject)->node->id);
}

static ssize_t origin_show(struct kobject *kobject,
			   struct kobj_attribute *attribute, char *out)
{
	return sysfs_emit(out, "%s\n",
			  range_of(kobject)->added ? "added" : "boot");
}

/* The sections stay until hz_stats_remove_range() has waited for this. */
static ssize_t free_show(struct kobject *kobject,
			 struct kobj_attribute *attribute, char *out)
{
	return sysfs_emit(out, "%lu\n", hz_range_free(range_of(kobject)));
}

static struct kobj_attribute range_start = __ATTR_RO_MODE(start, 0400);
static struct kobj_attribute range_bytes = __ATTR_RO(bytes);
static struct kobj_attribute range_node = __ATTR_RO(node);
static struct kobj_attribute range_origin = __ATTR_RO(origin);
static struct kobj_attribute range_free = __ATTR_RO(free);

static struct attribute *range_attrs[] = {
	&range_start.attr,
	&range_bytes.attr,
	&range_node.attr,
	&range_origin.attr,
	&range_free.attr,
	NULL
};
ATTRIBUTE_GROUPS(range);

static void release_range(struct kobject *kobject)
{
	kfree(range_of(kobject));
}

static const struct kobj_type range_type = {
	.release = release_range,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = range_groups,
};

void hz_stats_init_range(struct hz_range *range)
{
	kobject_init(&range->kobject, &range_type);
}

/* Under the pool's lock, which keeps the number. Its name tells nothing of where it lies. */
int hz_stats_add_range(struct hz_range *range)
{
	static unsigned int number;

	range->kobject.kset = range_set;
	return kobject_add(&range->kobject, NULL, "%u", number++);
}

/*
 * Who reads one of its files has finished when this returns. Under the pool's lock, so those
 * files must not take it.
 */
void hz_stats_remove_range(struct hz_range *range)
{
	kobject_del(&range->kobject);
}

/* ---- A mount ------------------------------------------------------------------------ */

enum mount_value {
	MOUNT_SIZE,
	MOUNT_WATERMARK,
	MOUNT_PERIOD,
	MOUNT_NODE,
	MOUNT_READAHEAD,
	MOUNT_COMPRESSED_LIMIT,
	MOUNT_RESIDENT,
	MOUNT_ZERO,
	MOUNT_COMPRESSED,
	MOUNT_CORRUPT,
	MOUNT_POISONED,
	MOUNT_ACTIVE,
	MOUNT_INACTIVE,
	MOUNT_INCOMPRESSIBLE,
	MOUNT_PINNED,
	MOUNT_COMPRESSED_BYTES,
	MOUNT_EVENTS,	/* and what follows, one for each event */
};

/* As sysfs says it: 0 is no limit. */
static long long limit_shown(u64 limit)
{
	return limit == HZ_UNLIMITED ? 0 : limit;
}

static long long mount_value(struct hz_mount *mount, int value)
{
	const struct hz_settings *settings = &mount->settings;

	switch (value) {
	case MOUNT_SIZE:
		return limit_shown(hz_limit_pages(mount));
	case MOUNT_WATERMARK:
		return settings->watermark;
	case MOUNT_PERIOD:
		return settings->period_ms;
	case MOUNT_NODE:
		return settings->node;
	case MOUNT_READAHEAD:
		return settings->readahead;
	case MOUNT_COMPRESSED_LIMIT:
		return limit_shown(hz_limit_compressed(mount));
	case MOUNT_RESIDENT:
		return atomic_long_read(&mount->states[HZ_RESIDENT]);
	case MOUNT_ZERO:
		return atomic_long_read(&mount->states[HZ_ZERO]);
	case MOUNT_COMPRESSED:
		return atomic_long_read(&mount->states[HZ_COMPRESSED]);
	case MOUNT_CORRUPT:
		return atomic_long_read(&mount->states[HZ_CORRUPT]);
	case MOUNT_POISONED:
		return atomic_long_read(&mount->states[HZ_POISONED]);
	case MOUNT_ACTIVE:
		return hz_lru_sum(mount, HZ_ACTIVE);
	case MOUNT_INACTIVE:
		return hz_lru_sum(mount, HZ_INACTIVE);
	case MOUNT_INCOMPRESSIBLE:
		return atomic_long_read(&mount->marks[HZ_INCOMPRESSIBLE]);
	case MOUNT_PINNED:
		return atomic_long_read(&mount->marks[HZ_PINNED]);
	case MOUNT_COMPRESSED_BYTES:
		return atomic64_read(&mount->compressed_bytes);
	default:
		return atomic_long_read(&mount->events[value - MOUNT_EVENTS]);
	}
}

static struct hz_mount *mount_of(struct kobject *kobject)
{
	return container_of(kobject, struct hz_mount, kobject);
}

static ssize_t show_mount(struct kobject *kobject,
			  struct kobj_attribute *attribute, char *out)
{
	int value = container_of(attribute, struct value_attribute,
				 attribute)->value;

	return sysfs_emit(out, "%lld\n",
			  mount_value(mount_of(kobject), value));
}

static ssize_t show_compress(struct kobject *kobject,
			     struct kobj_attribute *attribute, char *out)
{
	int algorithm = mount_of(kobject)->settings.algorithm;

	return sysfs_emit(out, "%s\n", hz_algorithm_name(algorithm));
}

#define MOUNT_FILE(file, number) \
	static struct value_attribute mount_##file = { \
		.attribute = __ATTR(file, 0444, show_mount, NULL), \
		.value = number, \
	}
#define EVENT_FILE(file, event) MOUNT_FILE(file, MOUNT_EVENTS + (event))

MOUNT_FILE(size, MOUNT_SIZE);
MOUNT_FILE(watermark, MOUNT_WATERMARK);
MOUNT_FILE(period_ms, MOUNT_PERIOD);
MOUNT_FILE(node, MOUNT_NODE);
MOUNT_FILE(readahead, MOUNT_READAHEAD);
MOUNT_FILE(compressed_limit_bytes, MOUNT_COMPRESSED_LIMIT);
MOUNT_FILE(resident, MOUNT_RESIDENT);
MOUNT_FILE(zero, MOUNT_ZERO);
MOUNT_FILE(compressed, MOUNT_COMPRESSED);
MOUNT_FILE(corrupt, MOUNT_CORRUPT);
MOUNT_FILE(poisoned, MOUNT_POISONED);
MOUNT_FILE(active, MOUNT_ACTIVE);
MOUNT_FILE(inactive, MOUNT_INACTIVE);
MOUNT_FILE(incompressible, MOUNT_INCOMPRESSIBLE);
MOUNT_FILE(pinned, MOUNT_PINNED);
MOUNT_FILE(compressed_bytes, MOUNT_COMPRESSED_BYTES);
EVENT_FILE(faults_zero, HZ_FAULTS_ZERO);
EVENT_FILE(faults_resident, HZ_FAULTS_RESIDENT);
EVENT_FILE(faults_decompress, HZ_FAULTS_DECOMPRESS);
EVENT_FILE(faults_cow, HZ_FAULTS_COW);
EVENT_FILE(compressions, HZ_COMPRESSIONS);
EVENT_FILE(compressions_zero, HZ_COMPRESSIONS_ZERO);
EVENT_FILE(compressions_refused, HZ_COMPRESSIONS_REFUSED);
EVENT_FILE(direct_reclaims, HZ_DIRECT_RECLAIMS);
EVENT_FILE(readaheads, HZ_READAHEADS);
EVENT_FILE(sigbus, HZ_SIGBUS);
EVENT_FILE(scans, HZ_SCANS);
EVENT_FILE(pages_scanned, HZ_PAGES_SCANNED);

static struct kobj_attribute mount_compress =
	__ATTR(compress, 0444, show_compress, NULL);

static struct attribute *mount_attrs[] = {
	&mount_size.attribute.attr,
	&mount_watermark.attribute.attr,
	&mount_period_ms.attribute.attr,
	&mount_compress.attr,
	&mount_node.attribute.attr,
	&mount_readahead.attribute.attr,
	&mount_compressed_limit_bytes.attribute.attr,
	&mount_resident.attribute.attr,
	&mount_zero.attribute.attr,
	&mount_compressed.attribute.attr,
	&mount_corrupt.attribute.attr,
	&mount_poisoned.attribute.attr,
	&mount_active.attribute.attr,
	&mount_inactive.attribute.attr,
	&mount_incompressible.attribute.attr,
	&mount_pinned.attribute.attr,
	&mount_compressed_bytes.attribute.attr,
	&mount_faults_zero.attribute.attr,
	&mount_faults_resident.attribute.attr,
	&mount_faults_decompress.attribute.attr,
	&mount_faults_cow.attribute.attr,
	&mount_compressions.attribute.attr,
	&mount_compressions_zero.attribute.attr,
	&mount_compressions_refused.attribute.attr,
	&mount_direct_reclaims.attribute.attr,
	&mount_readaheads.attribute.attr,
	&mount_sigbus.attribute.attr,
	&mount_scans.attribute.attr,
	&mount_pages_scanned.attribute.attr,
	NULL
};
ATTRIBUTE_GROUPS(mount);

static void release_mount(struct kobject *kobject)
{
	struct hz_mount *mount = mount_of(kobject);

	kfree(mount->lrus);
	kfree(mount);
}

static const struct kobj_type mount_type = {
	.release = release_mount,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = mount_groups,
};

void hz_stats_init_mount(struct hz_mount *mount)
{
	kobject_init(&mount->kobject, &mount_type);
}

int hz_stats_add_mount(struct hz_mount *mount)
{
	mount->kobject.kset = mount_set;
	return kobject_add(&mount->kobject, NULL, "%u:%u",
			   MAJOR(mount->device), MINOR(mount->device));
}

/* Who reads one of its files has finished when this returns. It may never have been added. */
void hz_stats_remove_mount(struct hz_mount *mount)
{
	if (mount->kobject.state_in_sysfs)
		kobject_del(&mount->kobject);
}

/* ---- The pool ------------------------------------------------------------------------ */

static ssize_t add_store(struct kobject *kobject,
			 struct kobj_attribute *attribute, const char *text,
			 size_t length)
{
	int error = hz_hotplug_add(text);

	return error ?: length;
}

static ssize_t remove_store(struct kobject *kobject,
			    struct kobj_attribute *attribute, const char *text,
			    size_t length)
{
	int error = hz_hotplug_remove(text);

	return error ?: length;
}

static ssize_t compressors_show(struct kobject *kobject,
				struct kobj_attribute *attribute, char *out)
{
	ssize_t length = 0;
	int algorithm;

	for (algorithm = 0; algorithm < HZ_ALGORITHMS; algorithm++) {
		if (hz_has_algorithm(algorithm))
			length += sysfs_emit_at(out, length, "%s%s",
						length ? " " : "",
						hz_algorithm_name(algorithm));
	}
	return length + sysfs_emit_at(out, length, "\n");
}

static struct kobj_attribute add_attribute = __ATTR(add, 0200, NULL, add_store);
static struct kobj_attribute remove_attribute =
	__ATTR(remove, 0200, NULL, remove_store);
static struct kobj_attribute compressors_attribute = __ATTR_RO(compressors);

static struct attribute *root_attributes[] = {
	&add_attribute.attr,
	&remove_attribute.attr,
	&compressors_attribute.attr,
	NULL
};

static const struct attribute_group root_group = {
	.attrs = root_attributes,
};

/* ---- All of it ------------------------------------------------------------------------ */

int hz_stats_init(void)
{
	root = kobject_create_and_add("hzmem", fs_kobj);
	if (!root)
		return -ENOMEM;
	node_set = kset_create_and_add("nodes", NULL, root);
	if (!node_set)
		goto no_nodes;
	range_set = kset_create_and_add("ranges", NULL, root);
	if (!range_set)
		goto no_ranges;
	mount_set = kset_create_and_add("mounts", NULL, root);
	if (!mount_set)
		goto no_mounts;
	return 0;
no_mounts:
	kset_unregister(range_set);
no_ranges:
	kset_unregister(node_set);
no_nodes:
	kobject_put(root);
	return -ENOMEM;
}

/* Memory can be added and removed from here on. */
int hz_stats_open(void)
{
	return sysfs_create_group(root, &root_group);
}

void hz_stats_close(void)
{
	sysfs_remove_group(root, &root_group);
}

/* The nodes, ranges and mounts have gone. */
void hz_stats_exit(void)
{
	kset_unregister(mount_set);
	kset_unregister(range_set);
	kset_unregister(node_set);
	kobject_put(root);
}
