//! Where replicas of new partitions go: brokers of all racks in turn, unfenced ones first.
//!
//! As Kafka's `StripedReplicaPlacer`: the first replica is on an unfenced broker, racks alternate, partitions start one
//! broker further each, and the start is random so that small topics do not all land on the first broker.

use std::collections::BTreeMap;

use protocol_compat::ids::BrokerId;

use crate::image::BrokerRegistration;

/// Replicas of `count` partitions. `start` is a random number.
///
/// # Errors
/// Kafka's text for INVALID_REPLICATION_FACTOR.
pub(crate) fn place<'a>(
    brokers: impl Iterator<Item = &'a BrokerRegistration>,
    count: usize,
    replication_factor: usize,
    start: usize,
) -> Result<Vec<Vec<BrokerId>>, String> {
    let mut unfenced: BTreeMap<Option<&str>, Vec<BrokerId>> = BTreeMap::new();
    let mut fenced: BTreeMap<Option<&str>, Vec<BrokerId>> = BTreeMap::new();
    let mut total = 0_usize;
    for broker in brokers {
        let cordoned = broker.cordoned_log_dirs.as_ref().is_some_and(|cordoned| {
            !broker.log_dirs.is_empty() && broker.log_dirs.iter().all(|dir| cordoned.contains(dir))
        });
        if cordoned || broker.in_controlled_shutdown {
            continue;
        }
        total += 1;
        let list = if broker.fenced { &mut fenced } else { &mut unfenced };
        list.entry(broker.rack.as_deref()).or_default().push(broker.id);
    }
    if unfenced.is_empty() {
        return Err("All brokers are currently fenced.".to_owned());
    }
    if replication_factor > total {
        return Err(format!(
            "The target replication factor of {replication_factor} cannot be reached because only {total} broker(s) \
             are registered or some brokers have all their log directories cordoned."
        ));
    }
    let leaders = interleave(&unfenced);
    let rest = interleave(&fenced);
    Ok((0..count)
        .map(|partition| {
            let turn = |list: &[BrokerId]| {
                let at =
                    if list.is_empty() { 0 } else { start.wrapping_add(partition) % list.len() };
                let mut turned = list.to_vec();
                turned.rotate_left(at);
                turned
            };
            let mut replicas = turn(&leaders);
            replicas.extend(turn(&rest));
            replicas.truncate(replication_factor);
            replicas
        })
        .collect())
}

/// One of each rack, then the second of each, and so on.
fn interleave(racks: &BTreeMap<Option<&str>, Vec<BrokerId>>) -> Vec<BrokerId> {
    let longest = racks.values().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|at| racks.values().filter_map(move |rack| rack.get(at)))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::testkit::broker;

    #[test]
    fn replicas_are_distinct_and_racks_alternate() {
        let mut brokers: Vec<_> = (0..4).map(broker).collect();
        for (at, broker) in brokers.iter_mut().enumerate() {
            broker.rack = Some(format!("r{}", at / 2));
        }
        let placed = place(brokers.iter(), 4, 2, 1).expect("four brokers");
        for replicas in &placed {
            assert_eq!(replicas.len(), 2);
            assert_ne!(replicas[0].0 / 2, replicas[1].0 / 2, "{placed:?}");
        }
        let leaders: std::collections::BTreeSet<_> = placed.iter().map(|r| r[0]).collect();
        assert_eq!(leaders.len(), 4);
    }

    #[test]
    fn refusals_are_kafkas() {
        let one = [broker(1)];
        assert_eq!(place(one.iter(), 1, 1, 7), Ok(vec![vec![BrokerId(1)]]));
        assert_eq!(
            place(one.iter(), 1, 3, 0),
            Err("The target replication factor of 3 cannot be reached because only 1 broker(s) are registered or some brokers have all their log directories cordoned.".to_owned())
        );
        let mut fenced = broker(1);
        fenced.fenced = true;
        assert_eq!(
            place([fenced].iter(), 1, 1, 0),
            Err("All brokers are currently fenced.".to_owned())
        );
    }
}
