//! The macros for the exported functions. Each function is one item, which specifies how the call
//! enters the library, its C parameters, how these become checked arguments, and which function is
//! called with them:
//!
//! ```text
//! entry! {
//!     open MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, …);
//!     comm = communicator(6, comm); buf = elements(1, buf, count, datatype); …
//!     => calls::point_to_point::send(buf, dest, tag, comm)
//! }
//! ```
//!
//! The arguments are made by methods of [`Call`](crate::call::Call) and, for the tools interface,
//! of [`Tools`](crate::calls::tools::Tools).
//!
//! Why: docs/internals/decisions/0034-entry-points-are-items-of-a-table.md

/// Defines an exported function, under its name and, for tools, with a prefix `P`. In debuggers and
/// in stack traces (`crate::call_stack`) both have the name of the function, and so has the common
/// body that they call, or jump to if the compiler permits.
macro_rules! exported {
    ($name:ident($($parameter:ident: $type:ty),*) -> $result:ty $body:block) => {
        const _: () = {
            #[allow(unused_variables, reason = "what no implementation needs")]
            #[allow(unused_unsafe, reason = "some functions have no pointers")]
            unsafe extern "C" fn $name($($parameter: $type),*) -> $result $body

            const BODY: unsafe extern "C" fn($($type),*) -> $result = $name;

            use $crate::c::Passed;

            const _: () = {
                #[unsafe(export_name = stringify!($name))]
                unsafe extern "C" fn $name($($parameter: $type),*) -> $result {
                    // SAFETY: this is the body of the function, and the caller makes the guarantees
                    // of the function.
                    unsafe { Passed::handed(BODY($(Passed::received($parameter)),*)) }
                }
            };
            const _: () = {
                #[unsafe(export_name = concat!("P", stringify!($name)))]
                unsafe extern "C" fn $name($($parameter: $type),*) -> $result {
                    // SAFETY: this is the body of the function, and the caller makes the guarantees
                    // of the function.
                    unsafe { Passed::handed(BODY($(Passed::received($parameter)),*)) }
                }
            };
        };
    };
}

/// Defines a function that is implemented. The first word specifies how the call enters the
/// library, as in the tables.
macro_rules! entry {
    (open $($item:tt)*) => { $crate::entry::with_call! { enter $($item)* } };
    (local $($item:tt)*) => { $crate::entry::with_call! { enter_local $($item)* } };
    (any $($item:tt)*) => { $crate::entry::with_call! { enter_any_time $($item)* } };
    (any_thread $($item:tt)*) => { $crate::entry::with_call! { enter_any_thread $($item)* } };
    (tool $($item:tt)*) => { $crate::entry::with_tools! { enter_tool $($item)* } };
    (any_tool $($item:tt)*) => { $crate::entry::with_tools! { enter_tool_any_time $($item)* } };
    (
        value $name:ident($($parameter:ident: $type:ty),*) -> $result:ty;
        => $($path:ident)::+($($given:ident),*)
    ) => {
        $crate::entry::exported! {
            $name($($parameter: $type),*) -> $result {
                // SAFETY: the program makes this call, by the rules of the standard for threads.
                unsafe {
                    $crate::entry::enter_value(|library| $crate::$($path)::+(library, $($given),*))
                }
            }
        }
    };
    (
        free $name:ident($($parameter:ident: $type:ty),*) -> $result:ty;
        => $($path:ident)::+($($given:ident),*)
    ) => {
        $crate::entry::exported! {
            $name($($parameter: $type),*) -> $result { $crate::$($path)::+($($given),*) }
        }
    };
}

/// The body of a function whose errors have messages and go to error handlers.
macro_rules! call_body {
    (
        $enter:ident $name:ident($($parameter:ident),*)
        $($argument:ident = $kind:ident($($raw:expr),*);)*
        => $($path:ident)::+($($given:ident),*)
    ) => {{
        static ENTRY: $crate::entry_point::EntryPoint = $crate::entry_point::EntryPoint {
            name: stringify!($name),
            parameters: &[$(stringify!($parameter)),*],
            recent: $crate::call_sites::RecentPlaces::none(),
        };
        // SAFETY: the program makes this call, by the rules of the standard for threads. It passes
        // what the standard, or the header of the native interface, requires of each parameter. By
        // naming a method for a parameter, the table states that this includes what the method
        // relies on.
        unsafe {
            $crate::entry::$enter(&ENTRY, || [$($crate::c::Passed::word($parameter)),*], |call| {
                $(let $argument = call.$kind($($raw),*)?;)*
                $crate::$($path)::+(call, $($given),*)
            })
        }
    }};
}

/// Defines an exported function with a body of `call_body`.
macro_rules! with_call {
    (
        $enter:ident $name:ident($($parameter:ident: $type:ty),*);
        $($argument:ident = $kind:ident($($raw:expr),*);)*
        => $($path:ident)::+($($given:ident),*)
    ) => {
        $crate::entry::exported! {
            $name($($parameter: $type),*) -> std::ffi::c_int {
                $crate::entry::call_body! {
                    $enter $name($($parameter),*)
                    $($argument = $kind($($raw),*);)*
                    => $($path)::+($($given),*)
                }
            }
        }
    };
}

/// Defines an exported function of the tools interface, whose errors are codes only.
macro_rules! with_tools {
    (
        $enter:ident $name:ident($($parameter:ident: $type:ty),*);
        $($argument:ident = $kind:ident($($raw:expr),*);)*
        => $($path:ident)::+($($given:ident),*)
    ) => {
        $crate::entry::exported! {
            $name($($parameter: $type),*) -> std::ffi::c_int {
                $crate::entry::$enter(|tools| {
                    // SAFETY: the program passes what the standard requires of each parameter. By
                    // naming a method for a parameter, the table states that this includes what the
                    // method relies on.
                    unsafe {
                        $(let $argument = tools.$kind($($raw),*)?;)*
                        $crate::$($path)::+(tools, $($given),*)
                    }
                })
            }
        }
    };
}

/// Defines a function that this version does not implement, and which calls the error handler of
/// its object.
#[cfg_attr(
    not(any(dialect = "mpich", dialect = "open_mpi")),
    allow(unused_macros, reason = "the standard ABI has all functions")
)]
macro_rules! absent {
    ($name:ident($($parameter:ident: $type:ty),*); => $handler_owner:ident$(($object:ident))?) => {
        $crate::entry::exported! {
            $name($($parameter: $type),*) -> std::ffi::c_int {
                static ENTRY: $crate::entry_point::EntryPoint = $crate::entry_point::EntryPoint {
                    name: stringify!($name),
                    parameters: &[$(stringify!($parameter)),*],
                    recent: $crate::call_sites::RecentPlaces::none(),
                };
                let owner = $crate::handler_owner::HandlerOwner::$handler_owner$(($object))?;
                // SAFETY: the program makes this call, by the rules of the standard for threads.
                unsafe { $crate::entry::unsupported(&ENTRY, owner) }
            }
        }
    };
}

/// Defines a function of the native interface: under its name only, and with errors that go to no
/// error handler.
macro_rules! native {
    (open $($item:tt)*) => { $crate::entry::native! { @enter_native $($item)* } };
    (any $($item:tt)*) => { $crate::entry::native! { @enter_native_any_time $($item)* } };
    (
        @$enter:ident $name:ident($($parameter:ident: $type:ty),*);
        $($argument:ident = $kind:ident($($raw:expr),*);)*
        => $($path:ident)::+($($given:ident),*)
    ) => {
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some functions have no pointers")]
        unsafe extern "C" fn $name($($parameter: $type),*) -> std::ffi::c_int {
            $crate::entry::call_body! {
                $enter $name($($parameter),*)
                $($argument = $kind($($raw),*);)*
                => $($path)::+($($given),*)
            }
        }
    };
}

pub(crate) use {absent, call_body, entry, exported, native, with_call, with_tools};
