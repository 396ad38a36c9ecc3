//! Compares the declarations with the headers of libfabric, if these and a C compiler exist.

use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use crate::declarations as ours;

/// An expression of C, and its required value.
type Fact = (String, u64);

macro_rules! fields {
    ($facts:ident, $c:literal $rust:ident: $($field:ident $name:ident),*) => {
        $($facts.push((
            format!("offsetof(struct {}, {})", $c, stringify!($field)),
            offset_of!(ours::$rust, $name) as u64,
        ));)*
    };
}

macro_rules! sizes {
    ($facts:ident: $($c:literal $rust:ident),*) => {
        $($facts.push((format!("sizeof(struct {})", $c), size_of::<ours::$rust>() as u64));)*
    };
}

macro_rules! values {
    ($facts:ident: $($name:ident),*) => {
        $($facts.push((stringify!($name).into(), ours::$name as u64));)*
    };
}

fn descriptions(facts: &mut Vec<Fact>) {
    fields!(facts, "fid" Fid: fclass class, context context, ops ops);
    fields!(facts, "fi_ops" FidOps: close close, bind bind, control control);
    fields!(facts, "fi_tx_attr" TransmitAttributes: caps caps, msg_order msg_order,
        inject_size inject_size, size size);
    fields!(facts, "fi_rx_attr" ReceiveAttributes: caps caps, msg_order msg_order, size size);
    fields!(facts, "fi_ep_attr" EndpointAttributes: type kind, max_msg_size max_msg_size);
    fields!(facts, "fi_domain_attr" DomainAttributes: name name, threading threading, av_type av_type,
        mr_mode mr_mode);
    fields!(facts, "fi_fabric_attr" FabricAttributes: name name, prov_name provider);
    fields!(facts, "fi_info" FiInfo: next next, caps caps, mode mode, addr_format address_format,
        src_addrlen source_length, src_addr source, tx_attr transmit, rx_attr receive,
        ep_attr endpoint, domain_attr domain, fabric_attr fabric, nic nic);
    fields!(facts, "fid_nic" Nic: link_attr link);
    fields!(facts, "fi_link_attr" LinkAttributes: speed speed);
    fields!(facts, "fid_fabric" Fabric: ops ops);
    fields!(facts, "fi_ops_fabric" FabricOps: domain domain, trywait trywait);
}

fn objects(facts: &mut Vec<Fact>) {
    fields!(facts, "fid_domain" Domain: ops ops, mr registration);
    fields!(facts, "fi_ops_domain" DomainOps: av_open av_open, cq_open cq_open, endpoint endpoint);
    fields!(facts, "fi_ops_mr" RegistrationOps: reg register);
    fields!(facts, "fid_mr" FidRegion: mem_desc descriptor, key key);
    fields!(facts, "fi_av_attr" VectorAttributes: type kind, count count, flags flags);
    fields!(facts, "fid_av" AddressVector: ops ops);
    fields!(facts, "fi_ops_av" VectorOps: insert insert, remove remove, lookup lookup);
    fields!(facts, "fi_cq_attr" QueueAttributes: size size, format format, wait_obj wait_obj,
        wait_set wait_set);
    fields!(facts, "fid_cq" CompletionQueue: ops ops);
    fields!(facts, "fi_ops_cq" QueueOps: read read, readerr read_error);
    fields!(facts, "fi_cq_msg_entry" CompletionEntry: op_context context, flags flags, len length);
    fields!(facts, "fi_cq_err_entry" ErrorEntry: op_context context, err error, err_data error_data,
        err_data_size error_data_size);
    fields!(facts, "fid_ep" FidEndpoint: cm connection, msg message,
        rma remote);
    fields!(facts, "fi_ops_rma" RemoteOps: read read);
    fields!(facts, "fi_ops_cm" ConnectionOps: getname getname);
    fields!(facts, "fi_ops_msg" MessageOps: recv recv, send send, inject inject);
}

fn sizes_and_values(facts: &mut Vec<Fact>) {
    sizes!(facts: "fi_av_attr" VectorAttributes, "fi_cq_attr" QueueAttributes,
        "fi_cq_msg_entry" CompletionEntry);
    values!(facts:
        FI_MSG,
        FI_RMA,
        FI_READ,
        FI_RECV,
        FI_SEND,
        FI_REMOTE_READ,
        FI_CONTEXT,
        FI_CONTEXT2,
        FI_ORDER_SAS,
        FI_MR_LOCAL,
        FI_MR_VIRT_ADDR,
        FI_MR_ALLOCATED,
        FI_MR_PROV_KEY,
        FI_THREAD_DOMAIN,
        FI_EP_RDM,
        FI_SOCKADDR_IN,
        FI_SOCKADDR_IN6,
        FI_CQ_FORMAT_MSG,
        FI_WAIT_NONE,
        FI_WAIT_FD,
        FI_GETWAIT,
        FI_ENABLE,
        FI_ADDR_UNSPEC,
        FI_EAGAIN,
        FI_EAVAIL
    );
}

#[test]
fn the_headers_say_the_same() {
    let headers = ["fabric", "fi_domain", "fi_endpoint", "fi_rma", "fi_cm", "fi_eq", "fi_errno"];
    if !Path::new("/usr/include/rdma/fabric.h").exists() {
        return eprintln!("skipped: the headers of libfabric are not installed (libfabric-dev)");
    }
    let mut facts = Vec::new();
    descriptions(&mut facts);
    objects(&mut facts);
    sizes_and_values(&mut facts);
    let mut program = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    for header in headers {
        let _ = writeln!(program, "#include <rdma/{header}.h>");
    }
    program += "int main(void) {\n";
    for (expression, _) in &facts {
        let _ = writeln!(program, "printf(\"%llu\\n\", (unsigned long long)({expression}));");
    }
    program += "}\n";
    let private = tempfile::tempdir().unwrap();
    let folder = private.path().join("layout");
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).status();
    let printed = Command::new(&binary).output();
    std::fs::remove_dir_all(&folder).unwrap();
    let Ok(compiled) = compiled else { return eprintln!("skipped: there is no C compiler") };
    assert!(compiled.success(), "the headers have all that is asked for");
    let printed = String::from_utf8(printed.unwrap().stdout).unwrap();
    let there: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(there.len(), facts.len());
    for ((expression, here), there) in facts.iter().zip(there) {
        assert_eq!(*here, there, "{expression}");
    }
}
