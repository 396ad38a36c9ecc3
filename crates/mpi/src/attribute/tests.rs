use super::*;

const COMMUNICATOR: AttributeKind = AttributeKind::Communicator;

/// Keyvals whose delete functions record (object, number, value).
struct World {
    keyvals: Keyvals,
    deleted: Rc<RefCell<Vec<(ObjectName, i32, AttributeValue)>>>,
}

impl World {
    fn new() -> Self {
        Self { keyvals: Keyvals::starting_at(10), deleted: Rc::default() }
    }

    fn keyval(&self, copy: CopyRule) -> Rc<Keyval> {
        let deleted = Rc::clone(&self.deleted);
        let delete: DeleteFunction = Rc::new(move |object, number, value| {
            deleted.borrow_mut().push((object, number, value));
            Ok(())
        });
        let number = self.keyvals.create(COMMUNICATOR, copy, Some(delete)).unwrap();
        self.keyvals.find(COMMUNICATOR, number).unwrap()
    }
}

#[test]
fn replacing_a_value_deletes_the_old_one() {
    let world = World::new();
    let keyval = world.keyval(CopyRule::Leave);
    let attributes = Attributes::default();
    assert_eq!(attributes.value(&keyval), None);
    attributes.set(7, &keyval, 0).unwrap();
    attributes.set(7, &keyval, 2).unwrap();
    assert_eq!(attributes.value(&keyval), Some(2));
    assert_eq!(*world.deleted.borrow(), [(7, 10, 0)]);
    attributes.delete(7, &keyval).unwrap();
    assert_eq!(attributes.value(&keyval), None);
    assert_eq!(attributes.delete(7, &keyval).unwrap_err().class, ErrorClass::Keyval);
}

#[test]
fn all_are_deleted_in_reverse_order_of_setting() {
    let world = World::new();
    let keyvals: Vec<_> = (0..3).map(|_| world.keyval(CopyRule::Leave)).collect();
    let attributes = Attributes::default();
    for keyval in &keyvals {
        attributes.set(1, keyval, 0).unwrap();
    }
    attributes.set(1, &keyvals[0], 5).unwrap();
    world.deleted.borrow_mut().clear();
    attributes.delete_all(1).unwrap();
    assert_eq!(*world.deleted.borrow(), [(1, 10, 5), (1, 12, 0), (1, 11, 0)]);
    assert!(attributes.is_empty());
}

#[test]
fn the_copy_rule_decides_what_a_duplicate_gets() {
    let world = World::new();
    let left = world.keyval(CopyRule::Leave);
    let shared = world.keyval(CopyRule::Share);
    let doubled = world.keyval(CopyRule::Ask(Rc::new(|_, _, value| Ok(Some(2 * value)))));
    let refused = world.keyval(CopyRule::Ask(Rc::new(|_, _, _| Ok(None))));
    let attributes = Attributes::default();
    for keyval in [&left, &shared, &doubled, &refused] {
        attributes.set(1, keyval, 21).unwrap();
    }
    let copy = attributes.copied(1).unwrap();
    let values = [&left, &shared, &doubled, &refused].map(|keyval| copy.value(keyval));
    assert_eq!(values, [None, Some(21), Some(42), None]);
}

#[test]
fn functions_that_fail_keep_the_attribute_and_pass_their_code_on() {
    let keyvals = Keyvals::starting_at(1);
    let copy = CopyRule::Ask(Rc::new(|_, _, _| Err(77)));
    let delete: DeleteFunction = Rc::new(|_, _, _| Err(78));
    let number = keyvals.create(COMMUNICATOR, copy, Some(delete)).unwrap();
    let keyval = keyvals.find(COMMUNICATOR, number).unwrap();
    let attributes = Attributes::default();
    attributes.set(1, &keyval, 5).unwrap();
    assert_eq!(attributes.copied(1).unwrap_err().class, ErrorClass::Added(77));
    for failed in
        [attributes.set(1, &keyval, 6), attributes.delete(1, &keyval), attributes.delete_all(1)]
    {
        assert_eq!(failed.unwrap_err().class, ErrorClass::Added(78));
        assert_eq!(attributes.value(&keyval), Some(5));
    }
}

#[test]
fn of_an_object_that_goes_in_any_case_all_attributes_are_deleted() {
    let world = World::new();
    let failing: DeleteFunction = Rc::new(|_, _, value| Err(value as i32));
    let number = |value| {
        let number = world.keyvals.create(COMMUNICATOR, CopyRule::Leave, Some(Rc::clone(&failing)));
        (world.keyvals.find(COMMUNICATOR, number.unwrap()).unwrap(), value)
    };
    let attributes = Attributes::default();
    for (keyval, value) in [(world.keyval(CopyRule::Leave), 1), number(78), number(79)] {
        attributes.set(1, &keyval, value).unwrap();
    }
    let error = attributes.delete_all_despite_errors(1).unwrap_err();
    assert_eq!(error.class, ErrorClass::Added(79), "the first error");
    assert_eq!(*world.deleted.borrow(), [(1, 10, 1)]);
    assert!(attributes.is_empty());
}

#[test]
fn a_freed_keyval_lives_as_long_as_its_attributes() {
    let world = World::new();
    let keyval = world.keyval(CopyRule::Share);
    let attributes = Attributes::default();
    attributes.set(1, &keyval, 5).unwrap();
    drop(keyval);
    world.keyvals.free(COMMUNICATOR, 10).unwrap();
    assert_eq!(world.keyvals.free(COMMUNICATOR, 10).unwrap_err().class, ErrorClass::Keyval);

    let keyval = world.keyvals.find(COMMUNICATOR, 10).unwrap();
    assert_eq!(attributes.value(&keyval), Some(5));
    assert_eq!(attributes.set(1, &keyval, 6).unwrap_err().class, ErrorClass::Keyval);
    let copy = attributes.copied(1).unwrap();
    copy.delete(2, &keyval).unwrap();
    attributes.delete(1, &keyval).unwrap();
    drop((keyval, copy, attributes));
    assert_eq!(*world.deleted.borrow(), [(2, 10, 5), (1, 10, 5)]);
    assert!(world.keyvals.find(COMMUNICATOR, 10).is_err());
}

#[test]
fn a_million_keyvals_leave_nothing_behind() {
    let keyvals = Keyvals::starting_at(1);
    for _ in 0..1_000_000 {
        let number = keyvals.create(COMMUNICATOR, CopyRule::Leave, None).unwrap();
        keyvals.free(COMMUNICATOR, number).unwrap();
    }
    let state = keyvals.state.borrow();
    assert!(state.live.is_empty() && state.freed.is_empty());
}

#[test]
fn a_keyval_serves_one_kind_of_object() {
    let keyvals = Keyvals::starting_at(1);
    let number = keyvals.create(AttributeKind::Datatype, CopyRule::Leave, None).unwrap();
    let error = keyvals.find(COMMUNICATOR, number).unwrap_err();
    assert!(error.detail.contains("datatypes"), "{error}");
    assert!(keyvals.free(COMMUNICATOR, number).is_err());
    assert!(keyvals.find(COMMUNICATOR, number + 1).is_err());
}

#[test]
fn functions_may_use_the_same_object() {
    let keyvals = Rc::new(Keyvals::starting_at(1));
    let attributes = Rc::new(Attributes::default());
    let other = {
        let number = keyvals.create(COMMUNICATOR, CopyRule::Share, None).unwrap();
        keyvals.find(COMMUNICATOR, number).unwrap()
    };
    let copy: CopyFunction = {
        let (attributes, other) = (Rc::clone(&attributes), Rc::clone(&other));
        Rc::new(move |object, _, value| {
            attributes.set(object, &other, value + 1).unwrap();
            Ok(Some(value))
        })
    };
    let delete: DeleteFunction = {
        let (keyvals, attributes) = (Rc::downgrade(&keyvals), Rc::clone(&attributes));
        let other = Rc::clone(&other);
        Rc::new(move |object, number, _| {
            keyvals.upgrade().unwrap().free(COMMUNICATOR, number).unwrap();
            attributes.delete(object, &other).unwrap();
            Ok(())
        })
    };
    let number = keyvals.create(COMMUNICATOR, CopyRule::Ask(copy), Some(delete)).unwrap();
    let keyval = keyvals.find(COMMUNICATOR, number).unwrap();

    attributes.set(1, &keyval, 5).unwrap();
    let duplicate = attributes.copied(1).unwrap();
    assert_eq!(duplicate.value(&keyval), Some(5));
    assert_eq!(attributes.value(&other), Some(6));
    attributes.delete(1, &keyval).unwrap();
    assert!(attributes.is_empty());
    assert_eq!(duplicate.value(&keyval), Some(5));
}
