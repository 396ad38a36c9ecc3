//! Virtual topologies (chapter 8 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;
use mpi::info::Info;
use mpi::topology::{
    Cartesian, CommunicatorTopology, DistributedGraph, EdgeWeights, GraphTopology, Neighbors,
    Reordering, WeightedEdge, dimensions, edge_count, edges_of_lists, refuse_intercommunicator,
};

use super::communicators::hand_out;
use crate::arguments::{Integers, KnownCommunicator, OpenIntegers, Out, OutConstant, OutIntegers};
use crate::c::Comm;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;

pub fn topo_test(_call: &Call, comm: KnownCommunicator, status: OutConstant) -> CallOutcome<()> {
    status.set(comm.topology());
    Ok(())
}

pub fn dims_create(_call: &Call, nnodes: c_int, dims: OutIntegers) -> CallOutcome<()> {
    let mut sizes = dims.read_ints()?;
    dimensions::balance(nnodes, &mut sizes).map_err(|error| match error.class {
        ErrorClass::Dims => Failure::of_argument(3, error),
        _ => Failure::of_argument(1, error),
    })?;
    dims.write(sizes.into_iter().map(i64::from))
}

/// Returns whether a call may reorder ranks, from its argument `reorder`.
fn reordering(reorder: c_int) -> Reordering {
    if reorder == 0 { Reordering::Forbidden } else { Reordering::Allowed }
}

pub fn cart_create(
    call: &Call,
    comm_old: KnownCommunicator,
    dims: Integers,
    periods: Integers,
    reorder: c_int,
    comm_cart: Out<Comm>,
) -> CallOutcome<()> {
    let grid = grid(&comm_old, dims, periods)?;
    let made = comm_old.create_cartesian(&call.library.process, grid, reordering(reorder))?;
    hand_out(call, made, comm_cart)
}

/// Returns the rank that the process would get with `reorder`.
pub fn cart_map(
    call: &Call,
    comm: KnownCommunicator,
    dims: Integers,
    periods: Integers,
    newrank: OutConstant,
) -> CallOutcome<()> {
    let grid = CommunicatorTopology::Cartesian(grid(&comm, dims, periods)?);
    let mapped = comm.mapped_rank(&call.library.process, &grid);
    newrank.set(mapped);
    Ok(())
}

fn grid(comm: &KnownCommunicator, dims: Integers, periods: Integers) -> CallOutcome<Cartesian> {
    refuse_intercommunicator(comm).map_err(of_first)?;
    let (sizes, periodic) = (dims.read_ints()?, periods.read_ints()?);
    let dimensions = sizes.into_iter().zip(periodic.into_iter().map(|flag| flag != 0));
    let of_sizes = |error| Failure::of_argument(dims.position(), error);
    Cartesian::new(dimensions, comm.size()).map_err(of_sizes)
}

pub fn cartdim_get(_call: &Call, comm: KnownCommunicator, ndims: Out<c_int>) -> CallOutcome<()> {
    ndims.set(comm.cartesian().map_err(of_first)?.dimensions().len() as c_int);
    Ok(())
}

pub fn cart_get(
    _call: &Call,
    comm: KnownCommunicator,
    maxdims: c_int,
    dims: OutIntegers,
    periods: OutIntegers,
    coords: OutIntegers,
) -> CallOutcome<()> {
    let grid = comm.cartesian().map_err(of_first)?;
    let dimensions = grid.dimensions();
    check_room(2, maxdims, dimensions.len(), "dimensions")?;
    let position = grid.coordinates(comm.rank() as c_int)?;
    dims.write(dimensions.iter().map(|dimension| dimension.size.into()))?;
    periods.write(dimensions.iter().map(|dimension| dimension.periodic.into()))?;
    coords.write(position.into_iter().map(i64::from))
}

pub fn cart_rank(
    _call: &Call,
    comm: KnownCommunicator,
    coords: Integers,
    rank: Out<c_int>,
) -> CallOutcome<()> {
    let grid = comm.cartesian().map_err(of_first)?;
    let coordinates = coords.read_ints()?;
    let found = grid.rank(&coordinates).map_err(|error| Failure::of_argument(2, error))?;
    rank.set(found as c_int);
    Ok(())
}

pub fn cart_coords(
    _call: &Call,
    comm: KnownCommunicator,
    rank: c_int,
    maxdims: c_int,
    coords: OutIntegers,
) -> CallOutcome<()> {
    let grid = comm.cartesian().map_err(of_first)?;
    let position = grid.coordinates(rank).map_err(|error| Failure::of_argument(2, error))?;
    check_room(3, maxdims, position.len(), "dimensions")?;
    coords.write(position.into_iter().map(i64::from))
}

pub fn cart_shift(
    _call: &Call,
    comm: KnownCommunicator,
    direction: c_int,
    disp: c_int,
    rank_source: Out<c_int>,
    rank_dest: Out<c_int>,
) -> CallOutcome<()> {
    let grid = comm.cartesian().map_err(of_first)?;
    let shifted = grid.shift(comm.rank(), direction, disp);
    let (source, destination) = shifted.map_err(|error| Failure::of_argument(2, error))?;
    rank_source.set(source.map_or(MPI_PROC_NULL, |rank| rank as c_int));
    rank_dest.set(destination.map_or(MPI_PROC_NULL, |rank| rank as c_int));
    Ok(())
}

pub fn cart_sub(
    call: &Call,
    comm: KnownCommunicator,
    remain_dims: Integers,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    comm.cartesian().map_err(of_first)?;
    let flags = remain_dims.read_ints()?;
    let remain: Vec<bool> = flags.into_iter().map(|flag| flag != 0).collect();
    let made = comm.create_part_of_cartesian(&call.library.process, &remain)?;
    hand_out(call, made, newcomm)
}

pub fn graph_create(
    call: &Call,
    comm_old: KnownCommunicator,
    nnodes: c_int,
    indx: Integers,
    edges: OpenIntegers,
    reorder: c_int,
    comm_graph: Out<Comm>,
) -> CallOutcome<()> {
    let graph = graph(&comm_old, nnodes, indx, edges)?;
    let made = comm_old.create_graph(&call.library.process, graph, reordering(reorder))?;
    hand_out(call, made, comm_graph)
}

/// Returns the rank that the process would get with `reorder`.
pub fn graph_map(
    call: &Call,
    comm: KnownCommunicator,
    nnodes: c_int,
    indx: Integers,
    edges: OpenIntegers,
    newrank: OutConstant,
) -> CallOutcome<()> {
    let graph = CommunicatorTopology::Graph(graph(&comm, nnodes, indx, edges)?);
    let mapped = comm.mapped_rank(&call.library.process, &graph);
    newrank.set(mapped);
    Ok(())
}

fn graph(
    comm: &KnownCommunicator,
    nnodes: c_int,
    indx: Integers,
    edges: OpenIntegers,
) -> CallOutcome<GraphTopology> {
    refuse_intercommunicator(comm).map_err(of_first)?;
    let Ok(nodes) = usize::try_from(nnodes) else {
        let detail = format!("is {nnodes}, but must not be negative");
        return Err(Failure::argument(2, ErrorClass::Arg, detail));
    };
    if nodes > comm.size() as usize {
        let detail = format!("is {nodes}, but the communicator has {} processes", comm.size());
        return Err(Failure::argument(2, ErrorClass::Topology, detail));
    }
    let index = indx.read_ints()?;
    let count =
        GraphTopology::edge_count(&index).map_err(|error| Failure::of_argument(3, error))?;
    // SAFETY: the standard requires as many edges as the index gives (section 8.5.3).
    let edges = unsafe { edges.first(count) }.read_ints()?;
    GraphTopology::new(index, edges, comm.size()).map_err(|error| Failure::of_argument(4, error))
}

pub fn graphdims_get(
    _call: &Call,
    comm: KnownCommunicator,
    nnodes: Out<c_int>,
    nedges: Out<c_int>,
) -> CallOutcome<()> {
    let graph = comm.graph().map_err(of_first)?;
    nnodes.set(graph.index().len() as c_int);
    nedges.set(graph.edges().len() as c_int);
    Ok(())
}

pub fn graph_get(
    _call: &Call,
    comm: KnownCommunicator,
    maxindex: c_int,
    maxedges: c_int,
    indx: OutIntegers,
    edges: OutIntegers,
) -> CallOutcome<()> {
    let graph = comm.graph().map_err(of_first)?;
    check_room(2, maxindex, graph.index().len(), "nodes")?;
    check_room(3, maxedges, graph.edges().len(), "edges")?;
    indx.write(graph.index().iter().map(|end| i64::from(*end)))?;
    edges.write(graph.edges().iter().map(|node| i64::from(*node)))
}

pub fn graph_neighbors_count(
    _call: &Call,
    comm: KnownCommunicator,
    rank: c_int,
    nneighbors: Out<c_int>,
) -> CallOutcome<()> {
    nneighbors.set(neighbors_of(&comm, rank)?.len() as c_int);
    Ok(())
}

pub fn graph_neighbors(
    _call: &Call,
    comm: KnownCommunicator,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: OutIntegers,
) -> CallOutcome<()> {
    let found = neighbors_of(&comm, rank)?;
    check_room(3, maxneighbors, found.len(), "neighbours")?;
    neighbors.write(found.iter().map(|node| i64::from(*node)))
}

fn neighbors_of<'a>(comm: &'a KnownCommunicator<'_>, rank: c_int) -> CallOutcome<&'a [u32]> {
    let graph = comm.graph().map_err(of_first)?;
    graph.neighbors(rank).map_err(|error| Failure::of_argument(2, error))
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn dist_graph_create_adjacent(
    call: &Call,
    comm_old: KnownCommunicator,
    indegree: c_int,
    sources: Integers,
    sourceweights: Integers,
    outdegree: c_int,
    destinations: Integers,
    destweights: Integers,
    _info: Option<Rc<Info>>,
    reorder: c_int,
    comm_dist_graph: Out<Comm>,
) -> CallOutcome<()> {
    let (incoming, outgoing) = (degree(2, indegree)?, degree(5, outdegree)?);
    let (in_weights, out_weights) = (read_weights(sourceweights)?, read_weights(destweights)?);
    if incoming > 0 && outgoing > 0 && in_weights.is_some() != out_weights.is_some() {
        let detail = "differs from the other list of weights: MPI_UNWEIGHTED must be passed for \
                      both or for neither";
        return Err(Failure::argument(4, ErrorClass::Arg, detail));
    }
    let processes = comm_old.size();
    let (in_ranks, out_ranks) = (sources.read_ints()?, destinations.read_ints()?);
    let weights = match (&in_weights, &out_weights) {
        (None, None) => EdgeWeights::Omitted,
        _ => EdgeWeights::Given,
    };
    let graph = DistributedGraph {
        sources: Neighbors::new(&in_ranks, in_weights.as_deref(), processes)
            .map_err(|error| Failure::of_argument(3, error))?,
        destinations: Neighbors::new(&out_ranks, out_weights.as_deref(), processes)
            .map_err(|error| Failure::of_argument(6, error))?,
        weights,
    };
    let reordering = reordering(reorder);
    let made = comm_old.create_distributed_graph(&call.library.process, graph, reordering)?;
    hand_out(call, made, comm_dist_graph)
}

/// Creates the communicator. A process whose arguments are wrong takes part, too, so that the other
/// processes get an error instead of waiting.
#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn dist_graph_create(
    call: &Call,
    comm_old: KnownCommunicator,
    n: c_int,
    sources: Integers,
    degrees: Integers,
    destinations: OpenIntegers,
    weights: OpenIntegers,
    _info: Option<Rc<Info>>,
    reorder: c_int,
    comm_dist_graph: Out<Comm>,
) -> CallOutcome<()> {
    let process = &call.library.process;
    let edge_weights = match weights.address() {
        MPI_UNWEIGHTED => EdgeWeights::Omitted,
        _ => EdgeWeights::Given,
    };
    match given_edges(&comm_old, n, [sources, degrees], destinations, weights) {
        Ok(edges) => {
            let reordering = reordering(reorder);
            let made = comm_old.create_distributed_graph_of_edges(
                process,
                &edges,
                edge_weights,
                reordering,
            )?;
            hand_out(call, made, comm_dist_graph)
        }
        Err(failure) => {
            comm_old.refuse_distributed_graph_of_edges(process)?;
            Err(failure)
        }
    }
}

fn given_edges(
    comm: &KnownCommunicator,
    n: c_int,
    [sources, degrees]: [Integers; 2],
    destinations: OpenIntegers,
    weights: OpenIntegers,
) -> CallOutcome<Vec<WeightedEdge>> {
    degree(2, n)?;
    let (sources, degrees) = (sources.read_ints()?, degrees.read_ints()?);
    let count = edge_count(&degrees).map_err(|error| Failure::of_argument(4, error))?;
    // SAFETY: the standard requires as many destinations and weights as the degrees give (section
    // 8.5.4).
    let (destinations, weights) = unsafe { (destinations.first(count), weights.first(count)) };
    let (weights, destinations) = (read_weights(weights)?, destinations.read_ints()?);
    Ok(edges_of_lists(&sources, &degrees, &destinations, weights.as_deref(), comm.size())?)
}

/// Returns the weights of edges; `None` for `MPI_UNWEIGHTED`.
fn read_weights(weights: Integers) -> CallOutcome<Option<Vec<c_int>>> {
    match weights.address() {
        MPI_UNWEIGHTED => Ok(None),
        MPI_WEIGHTS_EMPTY if weights.length() > 0 => {
            let count = weights.length();
            let detail = format!("is MPI_WEIGHTS_EMPTY, but there are {count} edges");
            Err(Failure::argument(weights.position(), ErrorClass::Arg, detail))
        }
        _ => weights.read_ints().map(Some),
    }
}

pub fn dist_graph_neighbors_count(
    _call: &Call,
    comm: KnownCommunicator,
    indegree: Out<c_int>,
    outdegree: Out<c_int>,
    weighted: Out<c_int>,
) -> CallOutcome<()> {
    let graph = comm.distributed_graph().map_err(of_first)?;
    indegree.set(graph.sources.ranks.len() as c_int);
    outdegree.set(graph.destinations.ranks.len() as c_int);
    weighted.set_flag(graph.weights == EdgeWeights::Given);
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn dist_graph_neighbors(
    _call: &Call,
    comm: KnownCommunicator,
    maxindegree: c_int,
    sources: OutIntegers,
    sourceweights: OutIntegers,
    maxoutdegree: c_int,
    destinations: OutIntegers,
    destweights: OutIntegers,
) -> CallOutcome<()> {
    let graph = comm.distributed_graph().map_err(of_first)?;
    let (incoming, outgoing) = (degree(2, maxindegree)?, degree(5, maxoutdegree)?);
    let weighted = graph.weights == EdgeWeights::Given;
    report_neighbors(&graph.sources, incoming, sources, weighted.then_some(sourceweights))?;
    report_neighbors(&graph.destinations, outgoing, destinations, weighted.then_some(destweights))
}

/// Stores as many neighbours as there is room for (section 8.5.5).
fn report_neighbors(
    neighbors: &Neighbors,
    room: usize,
    ranks: OutIntegers,
    weights: Option<OutIntegers>,
) -> CallOutcome<()> {
    let reported = neighbors.ranks.len().min(room);
    ranks.write(neighbors.ranks[..reported].iter().map(|rank| i64::from(*rank)))?;
    match weights {
        Some(weights) if !matches!(weights.address(), MPI_UNWEIGHTED | MPI_WEIGHTS_EMPTY) => {
            weights.write(neighbors.weights[..reported].iter().map(|weight| i64::from(*weight)))
        }
        _ => Ok(()),
    }
}

fn degree(position: usize, degree: c_int) -> CallOutcome<usize> {
    usize::try_from(degree).map_err(|_| {
        let detail = format!("is {degree}, but must not be negative");
        Failure::argument(position, ErrorClass::Arg, detail)
    })
}

fn check_room(position: usize, room: c_int, needed: usize, what: &str) -> CallOutcome<()> {
    if usize::try_from(room).is_ok_and(|room| room >= needed) {
        return Ok(());
    }
    let detail = format!("is {room}, but there are {needed} {what}");
    Err(Failure::argument(position, ErrorClass::Arg, detail))
}

/// Returns the number of dimensions of a communicator's grid; 0 if it has none.
pub fn dimension_count(comm: &KnownCommunicator) -> usize {
    comm.cartesian().map_or(0, |grid| grid.dimensions().len())
}

/// Attributes an error to the communicator, which is the first argument of all calls that query its
/// topology.
fn of_first(error: base::Error) -> Failure {
    Failure::of_argument(1, error)
}
