//! How many connections there are from each address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The most connections at once, and from one address: nobody takes those of all others.
const ALL_MAX: usize = 1024;
const OF_ONE_MAX: usize = 512;

/// The connections that there are.
#[derive(Clone, Debug, Default)]
pub struct Seats(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A connection; dropping it ends it.
#[derive(Debug)]
pub struct Seat {
    seats: Seats,
    peer: IpAddr,
}

impl Seats {
    /// Takes one for an address; `None` if there are too many.
    pub fn take(&self, peer: IpAddr) -> Option<Seat> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&peer).copied().unwrap_or_default();
        if own >= OF_ONE_MAX || taken.values().sum::<usize>() >= ALL_MAX {
            return None;
        }
        taken.insert(peer, own + 1);
        Some(Seat { seats: self.clone(), peer })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_take_all() {
        let seats = Seats::default();
        let peer = |last: u8| IpAddr::from([10, 0, 0, last]);
        let all: Vec<Seat> = (0..OF_ONE_MAX).map(|_| seats.take(peer(1)).unwrap()).collect();
        assert!(seats.take(peer(1)).is_none());
        let others: Vec<Seat> =
            (OF_ONE_MAX..ALL_MAX).map(|_| seats.take(peer(2)).unwrap()).collect();
        assert!(seats.take(peer(3)).is_none());
        drop((all, others));
        assert!(seats.take(peer(1)).is_some());
        assert!(seats.0.lock().unwrap().is_empty(), "those that ended are forgotten");
    }
}
