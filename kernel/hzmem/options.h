/* SPDX-License-Identifier: GPL-2.0 */
/* Mount options. */
#ifndef HZMEM_OPTIONS_H
#define HZMEM_OPTIONS_H

#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include "hzmem.h"

/* While mounting or remounting. */
struct hz_options {
	struct hz_settings settings;
	unsigned long given;		/* one bit for each option that was given */
	unsigned int size_percent;	/* not 0: instead of settings.size */
};

extern const struct fs_parameter_spec hz_parameters[];

void hz_options_default(struct hz_options *options);
int hz_options_parse(struct fs_context *context,
		     struct fs_parameter *parameter);
int hz_options_complete(struct fs_context *context);
void hz_options_apply(const struct hz_options *options,
		      struct hz_settings *settings);
void hz_options_apply_to_root(const struct hz_options *options,
			      struct inode *root);
void hz_options_show(struct seq_file *out, const struct hz_settings *settings);

#endif
