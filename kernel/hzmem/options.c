// SPDX-License-Identifier: GPL-2.0
/* Reads mount options, says what is wrong with them, and shows them. */

#include <linux/ctype.h>
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include "compress.h"
#include "options.h"
#include "pool.h"

/* Of size= and compressed=. */
static const char no_limit[] = "unlimited";

#define MOST_READAHEAD 64
#define MOST_PERIOD_MS (24 * 3600 * 1000U)

enum option {
	OPTION_SIZE,
	OPTION_UID,
	OPTION_GID,
	OPTION_MODE,
	OPTION_NODE,
	OPTION_COMPRESS,
	OPTION_WATERMARK,
	OPTION_PERIOD,
	OPTION_COMPRESSED,
	OPTION_READAHEAD,
};

const struct fs_parameter_spec hz_parameters[] = {
	fsparam_string("size", OPTION_SIZE),
	fsparam_uid("uid", OPTION_UID),
	fsparam_gid("gid", OPTION_GID),
	fsparam_u32oct("mode", OPTION_MODE),
	fsparam_u32("node", OPTION_NODE),
	fsparam_string("compress", OPTION_COMPRESS),
	fsparam_u32("watermark", OPTION_WATERMARK),
	fsparam_string("period", OPTION_PERIOD),
	fsparam_string("compressed", OPTION_COMPRESSED),
	fsparam_u32("readahead", OPTION_READAHEAD),
	{}
};

void hz_options_default(struct hz_options *options)
{
	options->settings = (struct hz_settings){
		.watermark = 80,
		.period_ms = 10000,
		.algorithm = hz_has_algorithm(HZ_LZ4) ? HZ_LZ4 :
							HZ_NO_ALGORITHM,
		.node = NUMA_NO_NODE,
		.uid = current_fsuid(),
		.gid = current_fsgid(),
		.mode = 0755,
	};
}

/* Reads a number; false unless one is there that fits. *rest is what follows it. */
static bool parse_number(const char *text, u64 *number, const char **rest)
{
	size_t digits = strspn(text, "0123456789");
	char copy[24];

	if (digits >= sizeof(copy))
		return false;
	strscpy(copy, text, digits + 1);
	*rest = text + digits;
	return !kstrtou64(copy, 10, number);
}

/* A number of bytes, with k, m, g or t perhaps; false if there is none, or it does not fit. */
static bool parse_bytes(const char *text, u64 *bytes, const char **rest)
{
	static const char units[] = "kmgt";
	const char *unit;

	if (!parse_number(text, bytes, rest))
		return false;
	unit = **rest ? strchr(units, tolower(**rest)) : NULL;
	if (!unit)
		return true;
	(*rest)++;
	return !check_mul_overflow(*bytes, 1ULL << 10 * (unit - units + 1),
				   bytes);
}

static int parse_size(struct fs_context *context, struct hz_options *options,
		      const char *text)
{
	const char *rest;
	u64 bytes;

	if (!strcmp(text, no_limit)) {
		options->settings.size = HZ_UNLIMITED;
		options->size_percent = 0;
		return 0;
	}
	if (!parse_bytes(text, &bytes, &rest))
		goto bad;
	if (!strcmp(rest, "%")) {
		if (bytes < 1 || bytes > 10000)
			return invalf(context,
				      "hzmem: size=%s: 1 to 10000 percent of the memory that hzmem has",
				      text);
		options->size_percent = bytes;
		return 0;
	}
	if (*rest)
		goto bad;
	if (bytes < HZ_SIZE || bytes > MAX_LFS_FILESIZE)
		return invalf(context,
			      "hzmem: size=%s: at least one page of 2M, and not more than a file can have",
			      text);
	options->settings.size = bytes >> HZ_SHIFT;
	options->size_percent = 0;
	return 0;
bad:
	return invalf(context,
		      "hzmem: size=%s: give bytes, with k, m or g, a percentage, or unlimited",
		      text);
}

/* The milliseconds of "10", "10s" or "500ms"; 0 for anything else. */
static unsigned int period_of(const char *text)
{
	const char *unit;
	u64 number;

	if (!parse_number(text, &number, &unit) || number > MOST_PERIOD_MS)
		return 0;
	if (!strcmp(unit, "ms"))
		return number;
	if (*unit && strcmp(unit, "s"))
		return 0;
	return number <= MOST_PERIOD_MS / 1000 ? number * 1000 : 0;
}

static int parse_period(struct fs_context *context, struct hz_options *options,
			const char *text)
{
	unsigned int period = period_of(text);

	if (!period)
		return invalf(context,
			      "hzmem: period=%s: give seconds, or milliseconds with ms; more than 0, a day at most",
			      text);
	options->settings.period_ms = period;
	return 0;
}

static int parse_compressed(struct fs_context *context,
			    struct hz_options *options, const char *text)
{
	const char *rest;
	u64 bytes;

	if (!strcmp(text, no_limit)) {
		options->settings.compressed_limit = HZ_UNLIMITED;
		return 0;
	}
	if (!parse_bytes(text, &bytes, &rest) || *rest || !bytes)
		return invalf(context,
			      "hzmem: compressed=%s: give more than 0 bytes, with k, m or g, or unlimited",
			      text);
	options->settings.compressed_limit = bytes;
	return 0;
}

static int parse_compress(struct fs_context *context,
			  struct hz_options *options, const char *text)
{
	int algorithm = hz_find_algorithm(text);

	if (algorithm == -EINVAL)
		return invalf(context,
			      "hzmem: compress=%s: this kernel has none or what /sys/fs/hzmem/compressors lists",
			      text);
	options->settings.algorithm = algorithm;
	return 0;
}

static int parse_node(struct fs_context *context, struct hz_options *options,
		      unsigned int node)
{
	if (context->purpose == FS_CONTEXT_FOR_RECONFIGURE &&
	    node != options->settings.node)
		return invalf(context,
			      "hzmem: node= cannot be changed by remounting");
	if (node >= nr_node_ids || !node_online(node))
		return invalf(context, "hzmem: node=%u: there is no such node",
			      node);
	options->settings.node = node;
	return 0;
}

int hz_options_parse(struct fs_context *context,
		     struct fs_parameter *parameter)
{
	struct hz_options *options = context->fs_private;
	struct hz_settings *settings = &options->settings;
	struct fs_parse_result result;
	int option = fs_parse(context, hz_parameters, parameter, &result);

	if (option < 0)
		return option;
	options->given |= BIT(option);
	switch (option) {
	case OPTION_SIZE:
		return parse_size(context, options, parameter->string);
	case OPTION_UID:
		settings->uid = result.uid;
		return 0;
	case OPTION_GID:
		settings->gid = result.gid;
		return 0;
	case OPTION_MODE:
		if (result.uint_32 & ~07777U)
			return invalf(context,
				      "hzmem: mode=%o: more than 07777",
				      result.uint_32);
		settings->mode = result.uint_32;
		return 0;
	case OPTION_NODE:
		return parse_node(context, options, result.uint_32);
	case OPTION_COMPRESS:
		return parse_compress(context, options, parameter->string);
	case OPTION_WATERMARK:
		if (result.uint_32 > 100)
			return invalf(context,
				      "hzmem: watermark=%u: 0 to 100 percent",
				      result.uint_32);
		settings->watermark = result.uint_32;
		return 0;
	case OPTION_PERIOD:
		return parse_period(context, options, parameter->string);
	case OPTION_COMPRESSED:
		return parse_compressed(context, options, parameter->string);
	default: /* OPTION_READAHEAD */
		if (result.uint_32 > MOST_READAHEAD)
			return invalf(context,
				      "hzmem: readahead=%u: 0 to %u pages",
				      result.uint_32, MOST_READAHEAD);
		settings->readahead = result.uint_32;
		return 0;
	}
}

/* What can be told only with all options known. */
int hz_options_complete(struct fs_context *context)
{
	struct hz_options *options = context->fs_private;
	unsigned long total;

	if (!options->size_percent)
		return 0;
	total = hz_pool_total(options->settings.node);
	options->settings.size = mul_u64_u64_div_u64(total,
						     options->size_percent,
						     100);
	if (!options->settings.size)
		return invalf(context,
			      "hzmem: size=%u%%: that is less than a page of the %lu that hzmem has there",
			      options->size_percent, total);
	return 0;
}

/*
 * Changes what was given, and leaves all else as it is now: it need not be what it was when
 * the options were begun with. Who reads a field finds the old value or the new one.
 */
void hz_options_apply(const struct hz_options *options,
		      struct hz_settings *settings)
{
	const struct hz_settings *new = &options->settings;
	unsigned long given = options->given;

	if (given & BIT(OPTION_SIZE))
		WRITE_ONCE(settings->size, new->size);
	if (given & BIT(OPTION_UID))
		WRITE_ONCE(settings->uid, new->uid);
	if (given & BIT(OPTION_GID))
		WRITE_ONCE(settings->gid, new->gid);
	if (given & BIT(OPTION_MODE))
		WRITE_ONCE(settings->mode, new->mode);
	if (given & BIT(OPTION_COMPRESS))
		WRITE_ONCE(settings->algorithm, new->algorithm);
	if (given & BIT(OPTION_WATERMARK))
		WRITE_ONCE(settings->watermark, new->watermark);
	if (given & BIT(OPTION_PERIOD))
		WRITE_ONCE(settings->period_ms, new->period_ms);
	if (given & BIT(OPTION_COMPRESSED))
		WRITE_ONCE(settings->compressed_limit, new->compressed_limit);
	if (given & BIT(OPTION_READAHEAD))
		WRITE_ONCE(settings->readahead, new->readahead);
}

/* The same for the root folder, whose owner and mode others may have changed meanwhile. */
void hz_options_apply_to_root(const struct hz_options *options,
			      struct inode *root)
{
	const struct hz_settings *new = &options->settings;
	unsigned long given = options->given;

	if (!(given & (BIT(OPTION_UID) | BIT(OPTION_GID) | BIT(OPTION_MODE))))
		return;
	inode_lock(root);
	if (given & BIT(OPTION_UID))
		root->i_uid = new->uid;
	if (given & BIT(OPTION_GID))
		root->i_gid = new->gid;
	if (given & BIT(OPTION_MODE))
		root->i_mode = S_IFDIR | new->mode;
	inode_set_ctime_current(root);
	inode_unlock(root);
}

void hz_options_show(struct seq_file *out, const struct hz_settings *settings)
{
	if (settings->size == HZ_UNLIMITED)
		seq_printf(out, ",size=%s", no_limit);
	else if (settings->size)
		seq_printf(out, ",size=%luM",
			   settings->size << (HZ_SHIFT - 20));
	if (!uid_eq(settings->uid, GLOBAL_ROOT_UID))
		seq_printf(out, ",uid=%u",
			   from_kuid_munged(&init_user_ns, settings->uid));
	if (!gid_eq(settings->gid, GLOBAL_ROOT_GID))
		seq_printf(out, ",gid=%u",
			   from_kgid_munged(&init_user_ns, settings->gid));
	if (settings->mode != 0755)
		seq_printf(out, ",mode=%o", settings->mode);
	if (settings->node != NUMA_NO_NODE)
		seq_printf(out, ",node=%d", settings->node);
	seq_printf(out, ",compress=%s,watermark=%u,period=%ums",
		   hz_algorithm_name(settings->algorithm), settings->watermark,
		   settings->period_ms);
	if (settings->compressed_limit == HZ_UNLIMITED)
		seq_printf(out, ",compressed=%s", no_limit);
	else if (settings->compressed_limit)
		seq_printf(out, ",compressed=%llu",
			   settings->compressed_limit);
	if (settings->readahead)
		seq_printf(out, ",readahead=%u", settings->readahead);
}
