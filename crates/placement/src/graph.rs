//! The graph that is cut in two, and its coarser images.

use fastrand::Rng;

/// The two sides of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Left,
    Right,
}

impl Half {
    pub fn other(self) -> Self {
        match self {
            Half::Left => Half::Right,
            Half::Right => Half::Left,
        }
    }
}

/// A graph whose vertices stand for one or more ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct AffinityGraph {
    /// The index of the first edge of each vertex, and the end of the last vertex's edges.
    pub starts: Vec<u32>,
    /// Neighbours with weights; each edge is stored twice.
    pub edges: Vec<(u32, i64)>,
    /// The number of ranks for which each vertex stands.
    pub sizes: Vec<u32>,
    /// The side on which a vertex must be, if it is fixed.
    pub fixed: Vec<Option<Half>>,
}

impl AffinityGraph {
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    pub fn neighbors(&self, vertex: u32) -> &[(u32, i64)] {
        let vertex = vertex as usize;
        &self.edges[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    pub fn size_max(&self) -> u64 {
        u64::from(self.sizes.iter().copied().max().unwrap_or_default())
    }

    /// Adds two vertices without ranks, one fixed on each side. A vertex that a positive pull draws
    /// to the left is connected with the left one, with this weight; a negative pull draws to the
    /// right.
    pub fn attract(&mut self, pulls: &[i64]) {
        let (left, right) = (self.len() as u32, self.len() as u32 + 1);
        let mut starts = vec![0];
        let mut edges = Vec::with_capacity(self.edges.len() + 2 * pulls.len());
        for (vertex, &pull) in (0..).zip(pulls) {
            edges.extend_from_slice(self.neighbors(vertex));
            if pull != 0 {
                edges.push((if pull > 0 { left } else { right }, pull.abs()));
            }
            starts.push(edges.len() as u32);
        }
        for side in [Half::Left, Half::Right] {
            let drawn = (0..).zip(pulls).filter(|(_, pull)| match side {
                Half::Left => **pull > 0,
                Half::Right => **pull < 0,
            });
            edges.extend(drawn.map(|(vertex, pull)| (vertex, pull.abs())));
            starts.push(edges.len() as u32);
            self.sizes.push(0);
            self.fixed.push(Some(side));
        }
        (self.starts, self.edges) = (starts, edges);
    }

    /// The number of ranks on the left.
    pub fn load(&self, sides: &[Half]) -> u64 {
        let left = self.sizes.iter().zip(sides).filter(|(_, side)| **side == Half::Left);
        left.map(|(size, _)| u64::from(*size)).sum()
    }

    /// The weight of the edges between the sides.
    pub fn cut(&self, sides: &[Half]) -> i64 {
        let outer = |vertex: u32| {
            let crossing = self
                .neighbors(vertex)
                .iter()
                .filter(|n| sides[n.0 as usize] != sides[vertex as usize]);
            crossing.map(|neighbor| neighbor.1).sum::<i64>()
        };
        (0..self.len() as u32).map(outer).sum::<i64>() / 2
    }

    /// Returns a coarser image, in which strongly connected pairs are merged into one vertex of at
    /// most `size_max` ranks, and the image of each vertex.
    pub fn coarsened(&self, size_max: u64, rng: &mut Rng) -> (Self, Vec<u32>) {
        let mates = self.mates(size_max, rng);
        let mut images = vec![u32::MAX; self.len()];
        let mut pairs = Vec::new();
        for vertex in 0..self.len() as u32 {
            if images[vertex as usize] == u32::MAX {
                let mate = mates[vertex as usize];
                images[vertex as usize] = pairs.len() as u32;
                images[mate as usize] = pairs.len() as u32;
                pairs.push((vertex, mate));
            }
        }
        (self.contracted(&pairs, &images), images)
    }

    /// For each vertex, the vertex with which it is merged, or itself.
    fn mates(&self, size_max: u64, rng: &mut Rng) -> Vec<u32> {
        let mut mates = vec![u32::MAX; self.len()];
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        rng.shuffle(&mut order);
        for vertex in order {
            if mates[vertex as usize] != u32::MAX {
                continue;
            }
            let size = self.sizes[vertex as usize];
            let mut best = vertex;
            let mut best_rating = 0.0;
            let mut equals = 0;
            for &(neighbor, weight) in self.neighbors(vertex) {
                let other = self.sizes[neighbor as usize];
                let fits = mates[neighbor as usize] == u32::MAX
                    && u64::from(size) + u64::from(other) <= size_max
                    && self.fixed[neighbor as usize] == self.fixed[vertex as usize];
                let rating = weight as f64 / f64::from(other);
                if !fits || rating < best_rating {
                    continue;
                }
                // Choose among equal neighbours at random, with equal probability.
                equals = if rating > best_rating { 1 } else { equals + 1 };
                if equals == 1 || rng.u32(0..equals) == 0 {
                    (best, best_rating) = (neighbor, rating);
                }
            }
            mates[vertex as usize] = best;
            mates[best as usize] = vertex;
        }
        mates
    }

    fn contracted(&self, pairs: &[(u32, u32)], images: &[u32]) -> Self {
        let mut smaller = Self { starts: vec![0], ..Self::default() };
        // For each image, the position of its edge to the image under construction, if it has one.
        let mut places = vec![u32::MAX; pairs.len()];
        for (image, &(one, mate)) in (0..).zip(pairs) {
            let begin = smaller.edges.len() as u32;
            let second = if mate == one { &[][..] } else { self.neighbors(mate) };
            for &(neighbor, weight) in self.neighbors(one).iter().chain(second) {
                let other = images[neighbor as usize];
                if other == image {
                    continue;
                }
                let place = &mut places[other as usize];
                if *place == u32::MAX || *place < begin {
                    *place = smaller.edges.len() as u32;
                    smaller.edges.push((other, 0));
                }
                smaller.edges[*place as usize].1 += weight;
            }
            smaller.starts.push(smaller.edges.len() as u32);
            let size = self.sizes[one as usize];
            let more = if mate == one { 0 } else { self.sizes[mate as usize] };
            smaller.sizes.push(size + more);
            smaller.fixed.push(self.fixed[one as usize]);
        }
        smaller
    }
}
