//! What a core does by the clock: time-outs, sessions, retention, checkpoints. One task, no timer for each thing.

use std::rc::Rc;
use std::time::Duration;

use crate::core::Core;

/// How often time-outs are looked at. A wait may be longer than asked for by this.
const STEP: Duration = Duration::from_millis(50);

/// Runs until the core ends.
pub async fn run(core: Rc<Core>) {
    let mut ticks = tokio::time::interval(STEP);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let start = core.now();
    let mut second = start;
    let mut retention = start;
    loop {
        ticks.tick().await;
        core.read_clocks();
        let now = core.now();
        expire_produces(&core);
        core.coordinators.tick(&core);
        if now.duration_since(second) >= Duration::from_secs(1) {
            second = now;
            tick_logs(&core);
            close_idle(&core);
        }
        let every = Duration::from_millis(core.config().log_retention_check_interval_ms);
        if now.duration_since(retention) >= every {
            retention = now;
            for partition in core.partitions.all() {
                partition.replica.borrow_mut().log_mut().start_retention(core.wall_clock());
                core.partitions.mark_dirty(&core, &partition);
            }
        }
    }
}

fn expire_produces(core: &Rc<Core>) {
    let now = core.now();
    let connections: Vec<_> = core.connections.borrow().values().map(Rc::clone).collect();
    for connection in connections {
        for pending in connection.overdue_produces(now) {
            pending.time_out(core);
        }
    }
}

fn tick_logs(core: &Rc<Core>) {
    for partition in core.partitions.all() {
        partition.replica.borrow_mut().log_mut().tick(core.wall_clock());
        core.partitions.mark_dirty(core, &partition);
    }
}

fn close_idle(core: &Rc<Core>) {
    let limit = core.config().connections_max_idle;
    let now = core.now();
    for connection in core.connections.borrow().values() {
        if now.duration_since(connection.last_active()) > limit && !connection.is_busy() {
            connection.close();
        }
    }
}
