//! Cartesian grids (section 8.5 of the standard).

use base::{Error, ErrorClass, Result};
use collectives::neighborhood::{Edge, Neighborhood};

/// A grid of processes: rank 0 is at the origin, and the last dimension varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dimensions: Box<[Dimension]>,
}

/// One dimension of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The number of positions, at least one.
    pub size: u32,
    /// Whether the first position follows the last one.
    pub periodic: bool,
}

impl Cartesian {
    /// Makes a grid of at most `processes` processes from the sizes of its dimensions and whether
    /// they are periodic. A grid without dimensions has one position.
    ///
    /// # Errors
    /// `Dims` if a size is not positive, or the grid has more positions than there are processes.
    pub fn new(dimensions: impl Iterator<Item = (i32, bool)>, processes: u32) -> Result<Self> {
        let checked = (0..).zip(dimensions).map(|(index, (size, periodic))| match size {
            1.. => Ok(Dimension { size: size as u32, periodic }),
            _ => {
                let what = format!("dimension {index} has the size {size}, but must be positive");
                Err(Error::new(ErrorClass::Dims, what))
            }
        });
        let dimensions: Box<[_]> = checked.collect::<Result<_>>()?;
        let positions = dimensions
            .iter()
            .fold(1u64, |positions, dimension| positions.saturating_mul(dimension.size.into()));
        if positions > processes.into() {
            let what = format!(
                "the grid has {positions} positions, but the communicator has only {processes} \
                 processes"
            );
            return Err(Error::new(ErrorClass::Dims, what));
        }
        Ok(Self { dimensions })
    }

    /// The dimensions of the grid.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The number of processes: the product of the sizes.
    pub fn process_count(&self) -> u32 {
        self.dimensions.iter().map(|dimension| dimension.size).product()
    }

    /// Returns the coordinates of the process with this rank, one for each dimension (section
    /// 8.5.5).
    ///
    /// # Errors
    /// `Rank` if there is no such process.
    pub fn coordinates(&self, rank: i32) -> Result<Vec<u32>> {
        let count = self.process_count();
        match u32::try_from(rank) {
            Ok(rank) if rank < count => Ok(self.position(rank)),
            _ => {
                let what = format!("rank {rank} is not in the grid, which has {count} processes");
                Err(Error::new(ErrorClass::Rank, what))
            }
        }
    }

    /// Returns the rank of the process at these coordinates, one for each dimension. A coordinate
    /// may lie outside a periodic dimension.
    ///
    /// # Errors
    /// `Arg` if a coordinate lies outside a dimension that is not periodic.
    pub fn rank(&self, coordinates: &[i32]) -> Result<u32> {
        let mut rank = 0;
        for (index, (dimension, coordinate)) in self.dimensions.iter().zip(coordinates).enumerate()
        {
            let Some(inside) = dimension.inside((*coordinate).into()) else {
                let what = format!(
                    "coordinate {index} is {coordinate}, but the dimension has the positions 0 to \
                     {} and is not periodic",
                    dimension.size - 1
                );
                return Err(Error::new(ErrorClass::Arg, what));
            };
            rank = rank * dimension.size + inside;
        }
        Ok(rank)
    }

    /// Returns the ranks that the process `rank` receives from and sends to when all data moves
    /// by `displacement` along a dimension (section 8.5.6); `None` beyond the border.
    ///
    /// # Errors
    /// `Dims` if there is no such dimension.
    pub fn shift(
        &self,
        rank: u32,
        direction: i32,
        displacement: i32,
    ) -> Result<(Option<u32>, Option<u32>)> {
        let count = self.dimensions.len();
        let Some(dimension) = usize::try_from(direction).ok().filter(|index| *index < count) else {
            let what = match count {
                0 => "there is no direction in a grid without dimensions".to_owned(),
                _ => format!(
                    "there is no dimension {direction}: those of the grid are 0 to {}",
                    count - 1
                ),
            };
            return Err(Error::new(ErrorClass::Dims, what));
        };
        let step = i64::from(displacement);
        Ok((self.moved(rank, dimension, -step), self.moved(rank, dimension, step)))
    }

    /// Returns the grid of the dimensions that remain, as it contains the process `rank`, and the
    /// ranks of its processes in this grid, in the order of the new grid (section 8.5.7).
    pub fn part(&self, rank: u32, remain: &[bool]) -> (Self, Vec<u32>) {
        let own = self.position(rank);
        let kept: Box<[Dimension]> = self
            .dimensions
            .iter()
            .zip(remain)
            .filter(|(_, remains)| **remains)
            .map(|(dimension, _)| *dimension)
            .collect();
        let part = Self { dimensions: kept };
        let member = |number: u32| {
            let mut inside = part.position(number).into_iter();
            let dimensions = self.dimensions.iter().zip(remain).zip(&own);
            dimensions.fold(0, |rank, ((dimension, remains), own)| {
                let coordinate = if *remains { inside.next().unwrap_or(0) } else { *own };
                rank * dimension.size + coordinate
            })
        };
        let members = (0..part.process_count()).map(member).collect();
        (part, members)
    }

    /// Returns the neighbours of the process `rank`: for each dimension first the preceding one,
    /// then the following one; `None` beyond the border.
    pub fn neighbors(&self, rank: u32) -> Vec<Option<u32>> {
        (0..self.dimensions.len())
            .flat_map(|index| [self.moved(rank, index, -1), self.moved(rank, index, 1)])
            .collect()
    }

    /// Returns the neighbours for neighbourhood collectives. The block that a process sends to
    /// its preceding neighbour arrives there as the block of the following neighbour, even if
    /// both neighbours are one process. Thus each process receives in the order in which the
    /// others send.
    pub fn neighborhood(&self, rank: u32) -> Neighborhood {
        let neighbors = self.neighbors(rank);
        let edge = |block: usize| neighbors[block].map(|peer| Edge { peer, block });
        Neighborhood {
            outgoing_blocks: neighbors.len(),
            incoming_blocks: neighbors.len(),
            sends: (0..neighbors.len()).filter_map(edge).collect(),
            // Block numbers are even for the preceding neighbour and odd for the following one.
            receives: (0..neighbors.len()).filter_map(|number| edge(number ^ 1)).collect(),
        }
    }

    fn position(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut coordinates = vec![0; self.dimensions.len()];
        for (coordinate, dimension) in coordinates.iter_mut().zip(&self.dimensions).rev() {
            *coordinate = rest % dimension.size;
            rest /= dimension.size;
        }
        coordinates
    }

    fn moved(&self, rank: u32, index: usize, step: i64) -> Option<u32> {
        let stride: u32 = self.dimensions[index + 1..].iter().map(|after| after.size).product();
        let dimension = self.dimensions[index];
        let coordinate = rank / stride % dimension.size;
        let inside = dimension.inside(i64::from(coordinate) + step)?;
        Some(rank - coordinate * stride + inside * stride)
    }
}

impl Dimension {
    /// Returns the position for a coordinate; `None` if it is outside.
    fn inside(self, coordinate: i64) -> Option<u32> {
        let size = i64::from(self.size);
        if self.periodic {
            return Some(coordinate.rem_euclid(size) as u32);
        }
        (0..size).contains(&coordinate).then_some(coordinate as u32)
    }
}
