//! Envelope and contents suffice to construct an equal datatype.

use std::sync::Arc;

use base::ErrorClass;
use datatype::{
    ArgumentForm, BorrowedDatatype, Combiner, Construction, ContentInteger, Contents, Datatype,
    DistributedDimension, DistributionArgument, Predefined, StructBlock, SubarrayDimension,
};
use proptest::prelude::*;

#[path = "type_maps/oracle.rs"]
#[allow(dead_code)]
mod oracle;
#[path = "type_maps/specs.rs"]
mod specs;

/// Reads contents argument by argument, in the order of the standard.
struct Reader {
    integers: std::vec::IntoIter<ContentInteger>,
    addresses: std::vec::IntoIter<i64>,
    large: std::vec::IntoIter<i64>,
    datatypes: std::vec::IntoIter<Arc<Datatype>>,
    form: ArgumentForm,
}

impl Reader {
    fn new(contents: Contents, form: ArgumentForm) -> Self {
        Self {
            integers: contents.integers.into_iter(),
            addresses: contents.addresses.into_iter(),
            large: contents.large_counts.into_iter(),
            datatypes: contents.datatypes.into_iter(),
            form,
        }
    }

    fn integer(&mut self) -> i64 {
        match self.integers.next() {
            Some(ContentInteger::Value(value)) => value,
            other => panic!("{other:?} where a number belongs"),
        }
    }

    fn count(&mut self) -> i64 {
        match self.form {
            ArgumentForm::Int => self.integer(),
            ArgumentForm::Large => self.large.next().unwrap(),
        }
    }

    fn counts(&mut self, many: i64) -> Vec<i64> {
        (0..many).map(|_| self.count()).collect()
    }

    fn address(&mut self) -> i64 {
        match self.form {
            ArgumentForm::Int => self.addresses.next().unwrap(),
            ArgumentForm::Large => self.large.next().unwrap(),
        }
    }

    fn addresses(&mut self, many: i64) -> Vec<i64> {
        (0..many).map(|_| self.address()).collect()
    }

    fn of(&mut self) -> BorrowedDatatype {
        self.datatypes.next().unwrap().borrowed()
    }

    fn order(&mut self) -> datatype::ArrayOrder {
        match self.integers.next() {
            Some(ContentInteger::Order(order)) => order,
            other => panic!("{other:?} where an order belongs"),
        }
    }

    fn construction(&mut self, combiner: Combiner) -> Construction {
        match combiner {
            Combiner::Duplicate => Construction::Duplicate(self.of()),
            Combiner::Contiguous => Construction::Contiguous { count: self.count(), of: self.of() },
            Combiner::Vector => Construction::Vector {
                count: self.count(),
                block_length: self.count(),
                stride: self.count(),
                of: self.of(),
            },
            Combiner::Hvector => Construction::Hvector {
                count: self.count(),
                block_length: self.count(),
                stride: self.address(),
                of: self.of(),
            },
            Combiner::Indexed => {
                let count = self.count();
                let (block_lengths, displacements) = (self.counts(count), self.counts(count));
                Construction::Indexed { block_lengths, displacements, of: self.of() }
            }
            Combiner::Hindexed => {
                let count = self.count();
                let (block_lengths, displacements) = (self.counts(count), self.addresses(count));
                Construction::Hindexed { block_lengths, displacements, of: self.of() }
            }
            Combiner::IndexedBlock => {
                let (count, block_length) = (self.count(), self.count());
                let displacements = self.counts(count);
                Construction::IndexedBlock { block_length, displacements, of: self.of() }
            }
            Combiner::HindexedBlock => {
                let (count, block_length) = (self.count(), self.count());
                let displacements = self.addresses(count);
                Construction::HindexedBlock { block_length, displacements, of: self.of() }
            }
            Combiner::Struct => {
                let count = self.count();
                let (lengths, displacements) = (self.counts(count), self.addresses(count));
                let blocks = lengths.into_iter().zip(displacements);
                Construction::Struct(
                    blocks
                        .map(|(length, displacement)| StructBlock {
                            length,
                            displacement,
                            of: self.of(),
                        })
                        .collect(),
                )
            }
            Combiner::Subarray => self.subarray(),
            Combiner::Darray => self.darray(),
            Combiner::Resized => Construction::Resized {
                lower_bound: self.address(),
                extent: self.address(),
                of: self.of(),
            },
            other => panic!("{other:?} was not built"),
        }
    }

    fn subarray(&mut self) -> Construction {
        let many = self.integer();
        let (sizes, subsizes, starts) = (self.counts(many), self.counts(many), self.counts(many));
        let dimensions = (0..many as usize).map(|i| SubarrayDimension {
            size: sizes[i],
            subsize: subsizes[i],
            start: starts[i],
        });
        Construction::Subarray {
            dimensions: dimensions.collect(),
            order: self.order(),
            of: self.of(),
        }
    }

    fn darray(&mut self) -> Construction {
        let (size, rank, many) = (self.integer(), self.integer(), self.integer());
        let sizes = self.counts(many);
        let mut next = || self.integers.next().unwrap();
        let kinds: Vec<_> = (0..many).map(|_| next()).collect();
        let arguments: Vec<_> = (0..many).map(|_| next()).collect();
        let dimensions = (0..many as usize).map(|i| DistributedDimension {
            global_size: sizes[i],
            distribution: match kinds[i] {
                ContentInteger::Distribution(distribution) => distribution,
                other => panic!("{other:?} where a distribution belongs"),
            },
            argument: match arguments[i] {
                ContentInteger::DefaultArgument => DistributionArgument::Default,
                ContentInteger::Value(size) => DistributionArgument::Size(size),
                other => panic!("{other:?} where a block size belongs"),
            },
            processes: self.integer(),
        });
        let dimensions = dimensions.collect();
        Construction::Darray { size, rank, dimensions, order: self.order(), of: self.of() }
    }
}

proptest! {
    #[test]
    fn contents_build_the_same_datatype(spec in specs::spec(), large: bool) {
        let form = if large { ArgumentForm::Large } else { ArgumentForm::Int };
        let datatype = spec.build(form);
        let envelope = datatype.envelope();
        if envelope.combiner == Combiner::Named {
            prop_assert_eq!(datatype.contents().unwrap_err().class, ErrorClass::Type);
            return Ok(());
        }
        let mut reader = Reader::new(datatype.contents().unwrap(), form);
        prop_assert_eq!(envelope.integers, reader.integers.len());
        prop_assert_eq!(envelope.addresses, reader.addresses.len());
        prop_assert_eq!(envelope.large_counts, reader.large.len());
        prop_assert_eq!(envelope.datatypes, reader.datatypes.len());
        match form {
            ArgumentForm::Int => prop_assert_eq!(envelope.large_counts, 0),
            ArgumentForm::Large => prop_assert_eq!(envelope.addresses, 0),
        }
        let construction = reader.construction(envelope.combiner);
        let again = Datatype::create(construction, form).unwrap();
        prop_assert_eq!(format!("{:?}", again.construction()), format!("{:?}", datatype.construction()));
    }
}

/// The numbers of arguments in the tables of section 5.1.13.
#[test]
fn envelopes_count_as_the_tables_of_the_standard() {
    let int = Datatype::named(Predefined::Int);
    let of = || int.borrowed();
    let count = |construction: Construction, form| {
        let envelope = Datatype::create(construction, form).unwrap().envelope();
        (envelope.integers, envelope.addresses, envelope.large_counts, envelope.datatypes)
    };
    let vector = Construction::Hvector { count: 2, block_length: 1, stride: 8, of: of() };
    assert_eq!(count(vector.clone(), ArgumentForm::Int), (2, 1, 0, 1));
    assert_eq!(count(vector, ArgumentForm::Large), (0, 0, 3, 1));
    let (block_lengths, displacements) = (vec![1, 2, 3], vec![0, 4, 8]);
    let indexed = Construction::Indexed { block_lengths, displacements, of: of() };
    assert_eq!(count(indexed.clone(), ArgumentForm::Int), (7, 0, 0, 1));
    assert_eq!(count(indexed, ArgumentForm::Large), (0, 0, 7, 1));
    let block = StructBlock { length: 1, displacement: 0, of: of() };
    let two = Construction::Struct(vec![block.clone(), block]);
    assert_eq!(count(two.clone(), ArgumentForm::Int), (3, 2, 0, 2));
    assert_eq!(count(two, ArgumentForm::Large), (0, 0, 5, 2));
    let dimensions = vec![SubarrayDimension { size: 4, subsize: 2, start: 1 }; 3];
    let order = datatype::ArrayOrder::C;
    let subarray = Construction::Subarray { dimensions, order, of: of() };
    assert_eq!(count(subarray.clone(), ArgumentForm::Int), (11, 0, 0, 1));
    assert_eq!(count(subarray, ArgumentForm::Large), (2, 0, 9, 1));
    let dimension = DistributedDimension {
        global_size: 9,
        distribution: datatype::Distribution::Block,
        argument: DistributionArgument::Default,
        processes: 2,
    };
    let dimensions = vec![dimension; 2];
    let darray = Construction::Darray { size: 4, rank: 3, dimensions, order, of: of() };
    assert_eq!(count(darray.clone(), ArgumentForm::Int), (12, 0, 0, 1));
    assert_eq!(count(darray, ArgumentForm::Large), (10, 0, 2, 1));
    let real = Construction::FortranReal { precision: Some(15), range: None };
    assert_eq!(count(real.clone(), ArgumentForm::Int), (2, 0, 0, 0));
    let contents = Datatype::create(real, ArgumentForm::Int).unwrap().contents().unwrap();
    assert_eq!(contents.integers, [ContentInteger::Value(15), ContentInteger::Undefined]);
    assert_eq!(int.envelope().combiner, Combiner::Named);
}
