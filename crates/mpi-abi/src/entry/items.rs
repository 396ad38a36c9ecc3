//! The macros behind the exported functions. Each function is one item, which says how the call
//! gets in, its C parameters, what is made of them, and what is called with that:
//!
//! ```text
//! entry! {
//!     open MPI_Send(buf: *const c_void, count: c_int, datatype: Datatype, dest: c_int, …);
//!     comm = communicator(6, comm); buf = elements(1, buf, count, datatype); …
//!     => calls::point_to_point::send(buf, dest, tag, comm)
//! }
//! ```
//!
//! What makes the arguments are methods of [`Call`](super::Call) and, for the tools interface, of
//! [`Tools`](crate::calls::tools::Tools).

/// An exported function: under its name, and with a `P` before it for tools. To debuggers and to
/// who looks at the stack (`crate::call_stack`) both have the function's name, and so has the one
/// body to which they lead, as jumps where the compiler makes them so.
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
                    // SAFETY: the same function with the same promises.
                    unsafe { Passed::handed(BODY($(Passed::received($parameter)),*)) }
                }
            };
            const _: () = {
                #[unsafe(export_name = concat!("P", stringify!($name)))]
                unsafe extern "C" fn $name($($parameter: $type),*) -> $result {
                    // SAFETY: the same function with the same promises.
                    unsafe { Passed::handed(BODY($(Passed::received($parameter)),*)) }
                }
            };
        };
    };
}

/// A function that is implemented; the first word is how it gets in, as in the tables.
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
                $crate::entry::enter_value(|library| $crate::$($path)::+(library, $($given),*))
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

/// The body of a function whose errors have messages and error handlers.
macro_rules! call_body {
    (
        $enter:ident $name:ident($($parameter:ident),*)
        $($argument:ident = $kind:ident($($raw:expr),*);)*
        => $($path:ident)::+($($given:ident),*)
    ) => {{
        static ENTRY: $crate::entry::EntryPoint = $crate::entry::EntryPoint {
            name: stringify!($name),
            parameters: &[$(stringify!($parameter)),*],
            recent: $crate::call_sites::RecentPlaces::none(),
        };
        $crate::entry::$enter(&ENTRY, || [$($crate::c::Passed::word($parameter)),*], |call| {
            // SAFETY: the program passes what the standard, or the header of the native interface,
            // says of each parameter; what of that a method relies on, the table grants by naming
            // it for the parameter.
            unsafe {
                $(let $argument = call.$kind($($raw),*)?;)*
                $crate::$($path)::+(call, $($given),*)
            }
        })
    }};
}

/// An exported function with such a body.
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

/// An exported function of the tools interface, whose errors are codes alone.
macro_rules! with_tools {
    (
        $enter:ident $name:ident($($parameter:ident: $type:ty),*);
        $($argument:ident = $kind:ident($($raw:expr),*);)*
        => $($path:ident)::+($($given:ident),*)
    ) => {
        $crate::entry::exported! {
            $name($($parameter: $type),*) -> std::ffi::c_int {
                $crate::entry::$enter(|tools| {
                    // SAFETY: the program passes what the standard says of each parameter; what of
                    // that a method relies on, the table grants by naming it for the parameter.
                    unsafe {
                        $(let $argument = tools.$kind($($raw),*)?;)*
                        $crate::$($path)::+(tools, $($given),*)
                    }
                })
            }
        }
    };
}

/// A function that this version does not implement, and whose error handler hears of that.
macro_rules! absent {
    ($name:ident($($parameter:ident: $type:ty),*); => $handler_owner:ident$(($object:ident))?) => {
        $crate::entry::exported! {
            $name($($parameter: $type),*) -> std::ffi::c_int {
                static ENTRY: $crate::entry::EntryPoint = $crate::entry::EntryPoint {
                    name: stringify!($name),
                    parameters: &[$(stringify!($parameter)),*],
                    recent: $crate::call_sites::RecentPlaces::none(),
                };
                $crate::entry::unsupported(&ENTRY, $crate::report::HandlerOwner::$handler_owner$(($object))?)
            }
        }
    };
}

/// A function of the native interface: under its name only, and no error handler hears of errors.
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
