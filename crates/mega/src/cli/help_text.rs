//! What stands below the options in the help of commands: exit codes and examples.

pub(super) const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.";

pub(super) const RUN_EXIT_CODES: &str = "\
Exit codes: those of COMMAND (128 + n when signal n ended it); 126 when mega cannot execute it, 127 when mega \
does not find it; before it starts: 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega run --policy mega --set scans=5 --report report.json -- redis-server";

pub(super) const SCAN_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega scan $(pidof redis-server) --window 10s --bloat";

pub(super) const TOP_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega top
  mega top mega-top-20261124T140509Z.json
  mega top redis.rec";

pub(super) const WORTH_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing; with COMMAND its own, as `mega run`.

Example:
  mega worth $(pidof redis-server) --seconds 5";

pub(super) const RECORD_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a kernel feature or a privilege is missing; with COMMAND its own, as `mega run`.

Example:
  mega record --pid $(pidof redis-server) --for 10m -o redis.rec
  mega record -o gups.rec -- ./gups";

pub(super) const REPLAY_EXAMPLE: &str = "\
Exit codes: 0 done, 1 the file is no recording or cannot be read, 2 wrong usage.

Example:
  mega replay redis.rec --policy adaptive,mega,ingens --svg redis.svg
  mega replay redis.rec --memory 64GiB --fragmentation 80%";

pub(super) const RANGE_EXAMPLE: &str = "\
Exit codes: 0 every region is as you want it, 1 some are not, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega promote 4711 7f0000000000+1GiB";

pub(super) const COMPACT_EXAMPLE: &str = "\
Exit codes: 0 it emptied as many as you asked for, 1 it emptied fewer, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega compact --blocks 100 --dry-run";

pub(super) const COVERAGE_EXAMPLE: &str = "\
It only looks. To have mega keep so much in huge pages for as long as a program lives, promise it: `coverage = \"95%\"` in a [[select]] \
of the configuration (mega.toml(5)), or `mega run --coverage 95%`; coverage_of and --coverage-of say of which memory.

Exit codes: 0 enough is in huge pages, 1 not enough is, or failed, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega coverage --select guests --min 95% --wait 60s
  mega coverage 4711 --of '/memfd:*'";

pub(super) const EVENTS_EXAMPLE: &str = "\
Exit codes: 0 done, 1 no mega is running or one did not answer, 2 wrong usage, 3 a privilege is missing.

Example:
  mega events --follow --json";

pub(super) const REPORT_EXAMPLE: &str = "\
Exit codes: 0 done, 1 no daemon is running or a file cannot be read or written, 2 wrong usage, 3 a privilege is missing.

Example:
  mega report -o day.html
  mega report redis.rec -o redis.html";

pub(super) const GROW_EXAMPLE: &str = "\
Exit codes: 0 hzmem got as much as you asked for, 1 it got less, 2 wrong usage, 3 a kernel feature or a privilege \
is missing.

Example:
  mega hz grow 512MiB --node 0";

pub(super) const SHRINK_EXAMPLE: &str = "\
Exit codes: 0 it gave the memory back, 1 some of it is in use, 2 wrong usage, 3 a kernel feature or a privilege is missing.

Example:
  mega hz shrink 0x138000000";

pub(super) const PROFILES_EXAMPLE: &str = "\
Exit codes: 0 done, 1 failed or no such profile, 2 wrong usage.

Example:
  mega profiles show redis-server";

pub(super) const OF_THE_LAB: &str = "\
Another program, mega-lab, takes the arguments; `--help` shows them. Exit codes: those of mega-lab; 3 when it is not installed.";
