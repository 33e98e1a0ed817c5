//! Maps time to height: in proportion, stretched where something needs space.

use super::column::Column;

/// A minimum distance in pixels between two times, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub from: i64,
    pub to: i64,
    pub pixels: f64,
}

/// Heights of times, downwards from 0.
pub(super) struct TimeScale {
    /// Times and heights, both in ascending order.
    points: Vec<(i64, f64)>,
    per_ns: f64,
}

impl TimeScale {
    /// The scale that leaves enough space in every column.
    pub(super) fn fitting(columns: &[Column<'_>], per_ns: f64) -> Self {
        /// Each round separates the labels that still touch; few are left after the first.
        const ROUNDS: usize = 40;
        let mut rooms: Vec<Room> = columns.iter().flat_map(Column::rooms).collect();
        let mut times: Vec<i64> = columns.iter().flat_map(Column::times).collect();
        times.extend(rooms.iter().flat_map(|room| [room.from, room.to]));
        times.push(0);
        times.sort_unstable();
        times.dedup();
        let mut scale = Self::solve(&times, &mut rooms, per_ns);
        for _ in 0..ROUNDS {
            let more: Vec<Room> = columns.iter().flat_map(|c| c.touching(&scale)).collect();
            if more.is_empty() {
                break;
            }
            rooms.extend(more);
            scale = Self::solve(&times, &mut rooms, per_ns);
        }
        scale
    }

    fn solve(times: &[i64], rooms: &mut [Room], per_ns: f64) -> Self {
        rooms.sort_by_key(|room| room.to);
        let mut points: Vec<(i64, f64)> = Vec::with_capacity(times.len());
        let mut rooms = rooms.iter().filter(|room| room.from < room.to).peekable();
        for &at in times {
            let mut y = match points.last() {
                Some((earlier, y)) => y + (at - earlier) as f64 * per_ns,
                None => 0.0,
            };
            while let Some(room) = rooms.next_if(|room| room.to <= at) {
                y = y.max(interpolated(&points, room.from, per_ns) + room.pixels);
            }
            points.push((at, y));
        }
        Self { points, per_ns }
    }

    pub(super) fn y(&self, at: i64) -> f64 {
        interpolated(&self.points, at, self.per_ns)
    }
}

fn interpolated(points: &[(i64, f64)], at: i64, per_ns: f64) -> f64 {
    let after = points.partition_point(|(time, _)| *time <= at);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (Some((t0, y0)), Some(&(t1, y1))) => y0 + (y1 - y0) * (at - t0) as f64 / (t1 - t0) as f64,
        (Some((t0, y0)), None) => y0 + (at - t0) as f64 * per_ns,
        (None, Some(&(t1, y1))) => y1 - (t1 - at) as f64 * per_ns,
        (None, None) => 0.0,
    }
}
