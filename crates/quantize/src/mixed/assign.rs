//! The best choice of one option for each of many things under one budget: a knapsack with several choices, as good as found by
//! going along the convex hull of each thing's options, by trying those of large things one by one, and by trading what is left.

/// What an option takes and what it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// What it takes of the budget.
    pub(super) bytes: u64,
    /// What is to be small in sum.
    pub(super) cost: f64,
}

/// Options that differ by more than this part of the budget from what was found are tried one by one.
const LARGE: u64 = 128;
/// The most things that are held at an option that was found so.
const FIXED: usize = 8;
/// The most rounds in which two things trade bytes.
const TRADES: usize = 256;

/// Of each thing's options one, so that their bytes are at most `budget` and their cost is small. None where the smallest do not fit.
/// Panics where a thing has no options.
pub(super) fn assign(things: &[Vec<Choice>], budget: u64) -> Option<Vec<usize>> {
    // What is larger and no better than another is of no use.
    let mut allowed: Vec<Vec<usize>> = things.iter().map(|options| useful(options)).collect();
    let all = allowed.clone();
    let mut best = along_hulls(things, &allowed, budget)?;
    // A thing that takes much of the budget may be in the way, or left out because the rest was spent: each of its options is tried.
    let is_large = |thing: usize, option: usize, chosen: &[usize]| {
        things[thing][option].bytes.abs_diff(things[thing][chosen[thing]].bytes) > budget / LARGE
    };
    for _ in 0..FIXED {
        let mut better: Option<(f64, usize, Vec<usize>)> = None;
        let least = cost(things, &best);
        for thing in 0..things.len() {
            for &option in all[thing].iter().filter(|&&option| is_large(thing, option, &best)) {
                let before = std::mem::replace(&mut allowed[thing], vec![option]);
                let found = along_hulls(things, &allowed, budget);
                allowed[thing] = before;
                let Some(found) = found else { continue };
                let cost = cost(things, &found);
                if cost < least && better.as_ref().is_none_or(|better| cost < better.0) {
                    better = Some((cost, thing, found));
                }
            }
        }
        let Some((_, thing, found)) = better else { break };
        allowed[thing] = vec![found[thing]];
        best = found;
    }
    let bytes: u64 = things.iter().zip(&best).map(|(options, &at)| options[at].bytes).sum();
    let mut left = budget - bytes;
    for _ in 0..TRADES {
        if !trade(things, &all, &mut best, &mut left) {
            break;
        }
    }
    Some(best)
}

fn cost(things: &[Vec<Choice>], chosen: &[usize]) -> f64 {
    things.iter().zip(chosen).map(|(options, &at)| options[at].cost).sum()
}

/// Goes along the hulls of the options that are allowed, and takes what fits of the rest.
fn along_hulls(things: &[Vec<Choice>], allowed: &[Vec<usize>], budget: u64) -> Option<Vec<usize>> {
    let hulls: Vec<Vec<usize>> = things.iter().zip(allowed).map(|(options, order)| hull(options, order)).collect();
    let bytes = |thing: usize, option: usize| things[thing][option].bytes;
    let mut smallest = hulls.iter().enumerate().map(|(thing, hull)| bytes(thing, hull[0]));
    let mut left = smallest.try_fold(budget, u64::checked_sub)?;
    let mut chosen: Vec<usize> = hulls.iter().map(|hull| hull[0]).collect();
    // All steps along the hulls, those that save most for a byte first: for one thing they come in their order, as hulls are convex.
    let mut steps: Vec<(f64, usize, usize, usize)> = Vec::new();
    for (thing, hull) in hulls.iter().enumerate() {
        for pair in hull.windows(2) {
            steps.push((saved_by_byte(&things[thing], pair[0], pair[1]), thing, pair[0], pair[1]));
        }
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, thing, from, to) in steps {
        let more = bytes(thing, to) - bytes(thing, from);
        // A step that was left out leaves out those behind it.
        if chosen[thing] == from && more <= left {
            (chosen[thing], left) = (to, left - more);
        }
    }
    fill(things, allowed, &mut chosen, &mut left);
    Some(chosen)
}

fn saved_by_byte(options: &[Choice], from: usize, to: usize) -> f64 {
    (options[from].cost - options[to].cost) / (options[to].bytes - options[from].bytes).max(1) as f64
}

/// The options by their bytes, each of which costs less than those before.
fn useful(options: &[Choice]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..options.len()).collect();
    order.sort_by(|&a, &b| {
        options[a].bytes.cmp(&options[b].bytes).then(options[a].cost.total_cmp(&options[b].cost)).then(a.cmp(&b))
    });
    let mut least = f64::INFINITY;
    order.retain(|&at| {
        let is_less = options[at].cost < least;
        least = least.min(options[at].cost);
        is_less
    });
    order
}

/// Those of the useful options that are on the lower convex hull, from the smallest to that with the least cost.
fn hull(options: &[Choice], useful: &[usize]) -> Vec<usize> {
    let mut hull: Vec<usize> = Vec::new();
    for &next in useful {
        while let [.., before, last] = hull[..]
            && saved_by_byte(options, before, last) <= saved_by_byte(options, before, next)
        {
            hull.pop();
        }
        hull.push(next);
    }
    hull
}

/// Takes single options that save most, as long as they fit.
fn fill(things: &[Vec<Choice>], useful: &[Vec<usize>], chosen: &mut [usize], left: &mut u64) {
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for (thing, options) in things.iter().enumerate() {
            let own = options[chosen[thing]];
            for &at in &useful[thing] {
                let option = options[at];
                let saved = own.cost - option.cost;
                let fits = option.bytes <= own.bytes.saturating_add(*left);
                if fits && saved > 0.0 && best.is_none_or(|best| saved > best.0) {
                    best = Some((saved, thing, at));
                }
            }
        }
        let Some((_, thing, at)) = best else { return };
        *left = *left + things[thing][chosen[thing]].bytes - things[thing][at].bytes;
        chosen[thing] = at;
    }
}

/// Lets one thing have fewer bytes and another one more, where that saves something: the pair that saves most. False where there is none.
fn trade(things: &[Vec<Choice>], useful: &[Vec<usize>], chosen: &mut [usize], left: &mut u64) -> bool {
    let mut best: Option<(f64, [(usize, usize); 2])> = None;
    for (giver, options) in things.iter().enumerate() {
        let own = options[chosen[giver]];
        for &smaller in useful[giver].iter().filter(|&&at| options[at].bytes < own.bytes) {
            let given = options[smaller];
            let room = *left + own.bytes - given.bytes;
            for (taker, options) in things.iter().enumerate().filter(|&(taker, _)| taker != giver) {
                let taken_from = options[chosen[taker]];
                for &larger in &useful[taker] {
                    let taken = options[larger];
                    let fits = taken.bytes <= taken_from.bytes.saturating_add(room);
                    let saved = taken_from.cost - taken.cost - (given.cost - own.cost);
                    if fits && saved > 1e-12 * taken_from.cost && best.is_none_or(|best| saved > best.0) {
                        best = Some((saved, [(giver, smaller), (taker, larger)]));
                    }
                }
            }
        }
    }
    let Some((_, changes)) = best else { return false };
    for (thing, option) in changes {
        *left += things[thing][chosen[thing]].bytes;
        chosen[thing] = option;
    }
    for (thing, _) in changes {
        *left -= things[thing][chosen[thing]].bytes;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(things: &[Vec<Choice>], chosen: &[usize]) -> (u64, f64) {
        let of = |(options, &at): (&Vec<Choice>, &usize)| (options[at].bytes, options[at].cost);
        things.iter().zip(chosen).map(of).fold((0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    }

    /// The least cost of all choices that fit.
    fn by_trying_all(things: &[Vec<Choice>], budget: u64) -> Option<f64> {
        let Some((options, rest)) = things.split_first() else { return Some(0.0) };
        let of = |option: &Choice| Some(option.cost + by_trying_all(rest, budget.checked_sub(option.bytes)?)?);
        options.iter().filter_map(of).min_by(f64::total_cmp)
    }

    /// Numbers that look random; the same each time.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    #[test]
    fn small_cases_are_as_good_as_by_trying_all() {
        let mut next = numbers();
        let (mut found_best, mut cases) = (0, 0);
        for _ in 0..400 {
            let things: Vec<Vec<Choice>> = (0..2 + next(4))
                .map(|_| {
                    let weights = 10 + next(200);
                    let base = (1 + next(1000)) as f64;
                    // As formats are: each bit more makes the error a quarter, more or less.
                    let option = |bits: u64, luck: u64| Choice {
                        bytes: weights * bits,
                        cost: base * weights as f64 * (0.25f64).powi(bits as i32) * (0.6 + luck as f64 / 100.0),
                    };
                    (2..3 + next(5)).map(|bits| option(bits, next(80))).collect()
                })
                .collect();
            let least: u64 = things.iter().map(|options| options.iter().map(|o| o.bytes).min().unwrap()).sum();
            let budget = least + next(least * 2);
            let best = by_trying_all(&things, budget).unwrap();
            let (bytes, cost) = sums(&things, &assign(&things, budget).unwrap());
            assert!(bytes <= budget && cost >= best * (1.0 - 1e-12), "{bytes} of {budget}");
            assert!(cost <= best * 1.5, "{cost} where {best} can be had");
            found_best += usize::from(cost <= best * (1.0 + 1e-9));
            cases += 1;
            assert_eq!(assign(&things, least - 1), None);
            let (bytes, _) = sums(&things, &assign(&things, least).unwrap());
            assert_eq!(bytes, least);
        }
        assert!(found_best * 100 >= cases * 90, "{found_best} of {cases}");
    }

    #[test]
    fn with_room_for_all_each_has_its_best() {
        let option = |bytes, cost| Choice { bytes, cost };
        // The second is larger and worse, the last as good as the one before.
        let things = vec![vec![option(4, 9.0), option(5, 10.0), option(6, 1.0), option(9, 1.0)], vec![option(7, 3.0)]];
        assert_eq!(assign(&things, u64::MAX), Some(vec![2, 0]));
        assert_eq!(assign(&things, 12), Some(vec![0, 0]));
        assert_eq!(assign(&things, 10), None);
        assert_eq!(assign(&[], 0), Some(vec![]));
    }

    /// The greedy way spends the budget on the small ones before the large one's turn comes.
    #[test]
    fn a_thing_that_takes_much_of_the_budget_gets_its_share() {
        let option = |bytes, cost| Choice { bytes, cost };
        let small = vec![option(10, 1.0), option(20, 0.1), option(40, 0.05)];
        let mut things = vec![small; 100];
        things.push(vec![option(1000, 60.0), option(2000, 1.0)]);
        let chosen = assign(&things, 3900).unwrap();
        let (bytes, cost) = sums(&things, &chosen);
        assert!(chosen[100] == 1 && bytes <= 3900, "{bytes}");
        assert!(cost <= 1.0 + 90.0 * 0.1 + 10.0 + 1e-9, "{cost}");
    }

    #[test]
    fn many_things_take_no_time() {
        let mut next = numbers();
        let things: Vec<Vec<Choice>> = (0..400)
            .map(|_| {
                let (weights, base) = (1000 + next(100_000), (1 + next(1000)) as f64);
                (2..10).map(|bits| Choice { bytes: weights * bits, cost: base * 0.25f64.powi(bits as i32) }).collect()
            })
            .collect();
        let all: u64 = things.iter().map(|options| options[0].bytes).sum();
        let chosen = assign(&things, all * 2).unwrap();
        let (bytes, _) = sums(&things, &chosen);
        assert!(bytes <= all * 2 && bytes > all * 2 - 1000 * 8, "what is left is less than the least step: {bytes}");
    }
}
