//! The scale of lengths: what the bars of a histogram are called. A bar for each power of two of microseconds.

/// Bars there are at least.
pub const BARS: usize = 16;

/// The name of bar `i` of `n`, in microseconds: `<1`, `1-2`, … `8K-16K`, and `≥16K` for the last of the first sixteen. Longer waits have bars of their
/// own behind it.
pub fn label(i: usize, n: usize) -> String {
    match i {
        0 => "<1".into(),
        i if i + 1 == n && n <= BARS => format!("≥{}", power(i - 1)),
        i => format!("{}-{}", power(i - 1), power(i)),
    }
}

/// A power of two in few characters: K is 1024.
fn power(n: usize) -> String {
    let unit = ["", "K", "M", "G", "T", "P"].get(n / 10).copied().unwrap_or_default();
    format!("{}{unit}", 1u64 << (n % 10))
}

/// Names of all bars of a histogram with `n` bars.
pub fn labels(n: usize) -> Vec<String> {
    let n = n.max(BARS);
    (0..n).map(|i| label(i, n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_called_as_in_the_original_and_go_on() {
        let sixteen = "<1 1-2 2-4 4-8 8-16 16-32 32-64 64-128 128-256 256-512 512-1K 1K-2K 2K-4K 4K-8K 8K-16K ≥16K";
        assert_eq!(labels(0).join(" "), sixteen);
        assert_eq!(labels(16).join(" "), sixteen);
        assert_eq!(labels(23).split_off(14).join(" "), "8K-16K 16K-32K 32K-64K 64K-128K 128K-256K 256K-512K 512K-1M 1M-2M 2M-4M");
    }
}
