// SPDX-License-Identifier: GPL-2.0
/*
 * A gate at which who reclaims his own memory cgroup's memory is held: a group at
 * its limit then waits in the middle of a charge for as long as a test wants it to.
 * Otherwise such a wait is short, or ends with somebody killed.
 *
 * Reclaim asks the shrinkers of a group that has objects for them. So who closes the
 * gate, by writing 1 to the parameter closed, has an object charged to his group; 0
 * opens it again, and frees the object. held says how many wait at the gate.
 */

#include <linux/atomic.h>
#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/wait.h>

struct object {
	struct list_head list;
};

static struct kmem_cache *cache;
static struct shrinker *shrinker;
static struct list_lru objects;
/* The object, while the gate is closed; changed under the lock of the parameters. */
static struct object *object;

static DECLARE_WAIT_QUEUE_HEAD(gate);
static atomic_t held = ATOMIC_INIT(0);

static bool is_own(struct mem_cgroup *memcg)
{
	bool own;

	rcu_read_lock();
	own = memcg && mem_cgroup_from_task(current) == memcg;
	rcu_read_unlock();
	return own;
}

static unsigned long hold(struct shrinker *unused, struct shrink_control *sc)
{
	if (list_lru_shrink_count(&objects, sc) && is_own(sc->memcg)) {
		atomic_inc(&held);
		wait_event_killable(gate, !READ_ONCE(object));
		atomic_dec(&held);
	}
	/* Where none is counted the group's shrinker is not asked again. */
	return list_lru_shrink_count(&objects, sc) ?: SHRINK_EMPTY;
}

static unsigned long scan(struct shrinker *unused, struct shrink_control *sc)
{
	return SHRINK_STOP;
}

static int close_gate(void)
{
	struct object *new;

	if (object)
		return -EBUSY;
	new = kmem_cache_alloc_lru(cache, &objects, GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;
	INIT_LIST_HEAD(&new->list);
	WRITE_ONCE(object, new);
	list_lru_add_obj(&objects, &new->list);
	return 0;
}

static void open_gate(void)
{
	struct object *old = object;

	if (!old)
		return;
	list_lru_del_obj(&objects, &old->list);
	WRITE_ONCE(object, NULL);
	wake_up_all(&gate);
	kmem_cache_free(cache, old);
}

static int set_closed(const char *value, const struct kernel_param *parameter)
{
	bool close;
	int ret = kstrtobool(value, &close);

	if (ret)
		return ret;
	if (close)
		return close_gate();
	open_gate();
	return 0;
}

static int get_closed(char *text, const struct kernel_param *parameter)
{
	return sysfs_emit(text, "%d\n", !!object);
}

static const struct kernel_param_ops closed_ops = { .set = set_closed, .get = get_closed };
module_param_cb(closed, &closed_ops, NULL, 0600);
MODULE_PARM_DESC(closed, "1: who reclaims the writer's own group from within it is held; 0: nobody is");

static int get_held(char *text, const struct kernel_param *parameter)
{
	return sysfs_emit(text, "%d\n", atomic_read(&held));
}

static const struct kernel_param_ops held_ops = { .get = get_held };
module_param_cb(held, &held_ops, NULL, 0400);
MODULE_PARM_DESC(held, "How many are held");

static int __init reclaim_gate_init(void)
{
	int ret = -ENOMEM;

	cache = KMEM_CACHE(object, SLAB_ACCOUNT);
	if (!cache)
		return ret;
	shrinker = shrinker_alloc(SHRINKER_MEMCG_AWARE | SHRINKER_NUMA_AWARE, "reclaim-gate");
	if (!shrinker)
		goto destroy_cache;
	ret = list_lru_init_memcg(&objects, shrinker);
	if (ret)
		goto free_shrinker;
	shrinker->count_objects = hold;
	shrinker->scan_objects = scan;
	shrinker_register(shrinker);
	return 0;

free_shrinker:
	shrinker_free(shrinker);
destroy_cache:
	kmem_cache_destroy(cache);
	return ret;
}

static void __exit reclaim_gate_exit(void)
{
	open_gate();
	shrinker_free(shrinker);
	list_lru_destroy(&objects);
	kmem_cache_destroy(cache);
}

module_init(reclaim_gate_init);
module_exit(reclaim_gate_exit);

MODULE_DESCRIPTION("Holds who reclaims the memory of his group, for tests");
MODULE_AUTHOR("The mega developers");
MODULE_LICENSE("GPL");
