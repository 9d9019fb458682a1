//! Who else clears Accessed bits or changes page sizes on this machine.

use std::path::Path;

use crate::kernel::Kernel;

/// One line for each that can be seen.
pub(super) fn find(kernel: &dyn Kernel) -> Vec<String> {
    [damon(kernel), generations(kernel), khugepaged(kernel)]
        .into_iter()
        .flatten()
        .collect()
}

/// DAMON's kernel threads, one for each instance.
fn damon(kernel: &dyn Kernel) -> Option<String> {
    let names = kernel.list(Path::new("/proc")).ok()?;
    let threads: Vec<String> = names
        .iter()
        .filter_map(|name| name.to_str()?.parse().ok())
        .filter_map(|pid| crate::process::stat(kernel, pid).ok())
        .filter(|stat| stat.is_kernel_thread() && stat.name.starts_with("kdamond"))
        .map(|stat| stat.name)
        .collect();
    (!threads.is_empty()).then(|| {
        format!(
            "DAMON runs ({}): it clears the Accessed bits of the pages it samples, so that counts are a little low",
            threads.join(", ")
        )
    })
}

/// The multi-generational LRU (6.1) walks page tables when memory is short.
fn generations(kernel: &dyn Kernel) -> Option<String> {
    let text = kernel
        .read(Path::new("/sys/kernel/mm/lru_gen/enabled"))
        .ok()?;
    let text = String::from_utf8_lossy(&text);
    let features = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()?;
    (features & 1 != 0).then(|| {
        format!(
            "the multi-generational LRU is on ({}): it clears Accessed bits when memory is short",
            text.trim()
        )
    })
}

/// khugepaged promotes on its own where the mode lets it.
fn khugepaged(kernel: &dyn Kernel) -> Option<String> {
    let mode = crate::settings::thp_mode::read(kernel).ok()?;
    let defrag = kernel
        .read(Path::new(
            "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
        ))
        .ok()?;
    let which = match mode {
        crate::settings::thp_mode::ThpMode::Always => "every process",
        crate::settings::thp_mode::ThpMode::Madvise => "memory that programs asked huge pages for",
        crate::settings::thp_mode::ThpMode::Never => return None,
    };
    (defrag.trim_ascii() == b"1")
        .then(|| format!("khugepaged promotes on its own in {which} (THP mode `{mode}`)"))
}
