"""Endpoints of programs that were started separately, without a launcher (tests/c/endpoint_service.c)."""

import contextlib
import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from harness.scenarios import needs_combray, places, run

# So long, a service and its clients may take on a busy machine.
SECONDS_MAX = 120


@contextlib.contextmanager
def started():
    """Gives a function that starts a part of the program; ends what is left of them."""
    parts = []

    def start(runner, part, file, *arguments, **variables):
        command = [str(runner.build / "endpoint_service"), part, file, *map(str, arguments)]
        parts.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      env=os.environ | variables))
        return parts[-1]

    try:
        yield start
    finally:
        for one in parts:
            if one.poll() is None:
                one.kill()
            one.wait()


@contextlib.contextmanager
def uri_file():
    with tempfile.TemporaryDirectory(prefix="endpoints-") as folder:
        yield str(pathlib.Path(folder) / "uri")


def output_of(part, code=0):
    output = part.communicate(timeout=SECONDS_MAX)[0]
    assert part.returncode == code, f"exit code {part.returncode}\n{output}"
    return output


def serves(runner, clients, dying, *how, apart=False):
    """A service and clients: some of them are killed."""
    needs_combray(runner)
    node = (lambda name: {"COMBRAY_NODE": name}) if apart else (lambda name: {})
    with uri_file() as file, started() as start:
        service = start(runner, "serve", file, clients + dying, *how, **node("service"))
        whole = [start(runner, "use", file, 0, *how, **node("client")) for _ in range(clients)]
        killed = [start(runner, "die", file, 0, *how, **node("client")) for _ in range(dying)]
        for one in whole:
            assert output_of(one) == "client is done\n"
        for one in killed:
            output_of(one, -signal.SIGKILL)
        assert output_of(service) == f"{clients} closed, {dying} lost\n"


@places(3)
def a_service_and_its_clients_without_a_launcher(runner):
    serves(runner, 1, 0)
    serves(runner, 3, 0)


@places(3)
def a_service_that_waits_for_its_descriptor(runner):
    serves(runner, 2, 0, "descriptor")


@places(4)
def a_service_survives_killed_clients(runner):
    serves(runner, 1, 2)
    serves(runner, 1, 1, "descriptor")


@places(3)
def a_service_and_clients_on_two_machines(runner):
    serves(runner, 2, 0, apart=True)
    serves(runner, 1, 1, "descriptor", apart=True)


@places(3)
def connections_come_and_go(runner):
    """An acceptance may be sent before the connecting process has read that the meeting is over, and
    two processes may meet several times at the same time."""
    needs_combray(runner)
    for count, node in ((160, {}), (24, {"COMBRAY_NODE": "other"})):
        with uri_file() as file, started() as start:
            service = start(runner, "serve", file, 2 * count)
            clients = [start(runner, "again", file, count, **node) for _ in range(2)]
            for one in clients:
                assert output_of(one) == "client is done\n"
            assert output_of(service) == f"{2 * count} closed, 0 lost\n"


@places(3)
def programs_with_the_key_in_a_file(runner):
    needs_combray(runner)
    with tempfile.TemporaryDirectory(prefix="endpoints-") as folder, uri_file() as file, started() as start:
        def options(name, content, mode=0o600):
            path = pathlib.Path(folder) / name
            path.write_bytes(content)
            path.chmod(mode)
            return {"ENDPOINT_OPTIONS": f"key={path}"}
        right, wrong = options("right", b"r" * 32), options("wrong", b"w" * 32)
        os.mkfifo(f"{folder}/pipe", 0o600)
        for bad, words in (({"ENDPOINT_OPTIONS": f"key={folder}/pipe"}, "no regular file"),
                           (options("open", b"r" * 32, 0o640), "other users"), (options("short", b"r"), "16 to 4096 bytes"),
                           ({"ENDPOINT_OPTIONS": f"key={folder}/none"}, "cannot be read")):
            assert words in output_of(start(runner, "use", file, **bad), 1)
        service = start(runner, "serve", file, 1, **right)
        while not os.path.exists(file):
            assert service.poll() is None, output_of(service)
        uri = pathlib.Path(file).read_text()
        assert uri.startswith("combray://@"), uri
        assert "key=FILE" in output_of(start(runner, "fail", file))
        assert "another port has this address" in output_of(start(runner, "fail", file, **wrong))
        assert output_of(start(runner, "use", file, **right)) == "client is done\n"
        assert output_of(service) == "1 closed, 0 lost\n"


def record_through(place, port):
    """Listens at a port of its own for one connection, passes its bytes on to the service and back, and gives this port
    and the bytes of the client."""
    listener, recorded = socket.create_server(("127.0.0.1", 0)), bytearray()

    def copy(source, target, kept):
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                kept += part
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)

    def serve():
        client, service = listener.accept()[0], socket.create_connection((place, port))
        back = threading.Thread(target=copy, args=(service, client, bytearray()), daemon=True)
        back.start()
        copy(client, service, recorded)
    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1], recorded


# So many strangers come; more by the variable.
STRANGERS = int(os.environ.get("STRANGERS", "1500"))


@places(3)
def strangers_change_nothing_but_a_counter(runner, connections=STRANGERS):
    """Connections that are silent, send garbage, a part of a greeting or the recorded handshake of another client, or are
    closed at once; clients connect meanwhile, and the service has no more memory or descriptors afterwards."""
    needs_combray(runner)
    with uri_file() as file, started() as start:
        service = start(runner, "guard", file, 3)
        while not os.path.exists(file):
            assert service.poll() is None, output_of(service)
        uri = pathlib.Path(file).read_text()
        port = int(uri.split("/")[3])
        through, recorded = record_through("127.0.0.1", port)
        pathlib.Path(f"{file}.through").write_text("/".join([*uri.split("/")[:3], str(through)]))
        assert output_of(start(runner, "use", f"{file}.through", 0)) == "client is done\n"
        assert len(recorded) > 64, len(recorded)

        def use_of_system():
            status = pathlib.Path(f"/proc/{service.pid}/status").read_text()
            return len(os.listdir(f"/proc/{service.pid}/fd")), int(status.split("VmRSS:")[1].split()[0])
        before, kept = use_of_system(), []
        texts = [b"", b"garbage" * 100, bytes(recorded[:20]), bytes(recorded[:64]), bytes(recorded)]
        client = None
        for number in range(connections):
            stranger = socket.create_connection(("127.0.0.1", port))
            with contextlib.suppress(OSError):
                stranger.sendall(texts[number % len(texts)])
            kept.append(stranger)
            if number % 7 == 0 or len(kept) > 400:
                kept.pop(0).close()
            if number == connections // 2:
                client = start(runner, "use", file, 0)
        assert output_of(client) == "client is done\n"
        for stranger in kept:
            stranger.close()
        deadline = time.monotonic() + SECONDS_MAX
        while use_of_system()[0] > before[0] + 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        after = use_of_system()
        assert after[0] <= before[0] + 4 and after[1] <= before[1] + 8192, f"descriptors and KiB: {before}, then {after}"
        assert output_of(start(runner, "use", file, 0)) == "client is done\n"
        closed, refused = output_of(service).splitlines()
        assert closed == "3 closed, 0 lost", closed
        assert connections - 4 <= int(refused.split()[0]) <= connections + 1, refused


@places(2)
def a_client_survives_a_killed_service(runner):
    needs_combray(runner)
    with uri_file() as file, started() as start:
        service = start(runner, "serve", file, 5)
        client = start(runner, "survive", file)
        assert client.stdout.readline() == "connected\n"
        service.kill()
        assert output_of(client) == "client is done\n"


@places(2)
def nothing_arrives_after_a_message_that_a_killed_client_has_not_finished(runner):
    needs_combray(runner)
    with uri_file() as file, started() as start:
        service = start(runner, "gap", file, 0, COMBRAY_HELPER="never")
        output_of(start(runner, "gap", file, 1), -signal.SIGKILL)
        pathlib.Path(f"{file}.dead").touch()
        assert output_of(service) == "service is done\n"


@places(2)
def a_stopped_peer_is_reported_as_silent(runner):
    needs_combray(runner)
    for nodes in ({}, {"COMBRAY_NODE": "other"}):
        with uri_file() as file, started() as start:
            service = start(runner, "serve", file, 5)
            client = start(runner, "watch", file, **nodes)
            for line, what in (("stop", signal.SIGSTOP), ("go on", signal.SIGCONT), ("stop", signal.SIGSTOP)):
                assert client.stdout.readline() == f"{line}\n"
                service.send_signal(what)
            assert output_of(client) == "client is done\n"


@places(2)
def a_send_to_a_process_that_has_closed_everything_ends(runner):
    needs_combray(runner)
    command = [*runner.mpiexec, "-x", "COMBRAY_HELPER=never", "-n", "2", str(runner.build / "endpoints"), "late"]
    code, output, _ = run(command)
    assert code == 0, f"exit code {code}\n{output}"


# The ways between the processes of a job: all that endpoints do is done over each.
NETS = {"shared memory": {}, "TCP": {"COMBRAY_NET": "tcp"},
        "libfabric": {"COMBRAY_NET": "ofi:tcp:lo"}, "encrypted TCP": {"ENDPOINT_OPTIONS": "encrypt"}}


@places(12)
def endpoints_over_each_network(runner):
    """Ethernet needs hosts: tests/cluster/run programs --net ether --only '^endpoint'. The networks at once, the programs
    of each one after the other."""
    needs_combray(runner)
    with_libfabric = shutil.which("ldconfig") and "libfabric.so.1" in run(["ldconfig", "-p"])[1]
    faults = []

    def play(net):
        apart = 'COMBRAY_NODE=$COMBRAY_RANK exec "$0" "$@"' if net != "shared memory" else 'exec "$0" "$@"'
        settings = [f"{name}={value}" for name, value in NETS[net].items()]
        for count, program, more in ((3, "endpoints", ()), (3, "endpoint_memory", ()), (2, "endpoints", ("silent",)),
                                     (2, "endpoints", ("silent", "COMBRAY_HELPER=never"))):
            words = ["env", *settings, *more[1:], *runner.mpiexec, "-n", str(count), "sh", "-c", apart,
                     str(runner.build / program), *more[:1]]
            try:
                code, output, _ = run(words, timeout=SECONDS_MAX)
                outcome = f"exit code {code}\n{output}" if code else ""
            except AssertionError as problem:
                outcome = str(problem)
            if outcome:
                faults.append(f"{program} {more} over {net}: {outcome}")
    players = [threading.Thread(target=play, args=(net,)) for net in NETS if net != "libfabric" or with_libfabric]
    for player in players:
        player.start()
    for player in players:
        player.join()
    assert not faults, "\n".join(faults)


def random_programs(program, seed, apart):
    """Processes that do at random what endpoints can do (tests/c/endpoint_random.c); some are killed and started
    again, and one may come late. Gives what each has printed, or raises an AssertionError."""
    choice = random.Random(seed)
    processes = choice.randint(2, 4)
    with tempfile.TemporaryDirectory(prefix="endpoints-") as folder:
        started = []

        def start(number, kill):
            variables = {"COMBRAY_NODE": f"node{number % 2}"} if apart else {}
            steps = choice.randint(200, 2500)
            kill = choice.randint(0, steps - 1) if kill else -1
            command = [program, folder, number, processes, seed * 8 + len(started), steps, kill]
            part = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, env=os.environ | variables)
            started.append((part, kill >= 0))
            return part

        try:
            dying = [(number, start(number, True)) for number in range(processes) if choice.random() < 0.3]
            for number in set(range(processes)) - {number for number, _ in dying}:
                start(number, False)
            for number, part in dying:
                part.wait(SECONDS_MAX)
                start(number, False)
            outputs = []
            for part, dies in started:
                output = part.communicate(timeout=SECONDS_MAX)[0]
                expected = -signal.SIGKILL if dies else 0
                assert part.returncode == expected, f"seed {seed}: exit code {part.returncode}\n{output}"
                outputs.append(output)
            return outputs
        finally:
            for part, _ in started:
                part.kill()
                part.wait()


@places(4)
def programs_do_at_random_what_endpoints_can_do(runner):
    """tests/random/endpoints runs many more."""
    needs_combray(runner)
    for seed in range(2):
        for apart in (False, True):
            random_programs(str(runner.build / "endpoint_random"), seed, apart)


@places(4)
def endpoints_that_encrypt(runner):
    """One end with the option is enough, whichever has it; with keys in URIs or in a file."""
    needs_combray(runner)
    with tempfile.TemporaryDirectory(prefix="endpoints-") as folder:
        key = pathlib.Path(folder) / "key"
        key.write_bytes(b"k" * 32)
        key.chmod(0o600)
        with_file = {"ENDPOINT_OPTIONS": f"encrypt,key={key}"}
        encrypts, plain = {"ENDPOINT_OPTIONS": "encrypt"}, {}
        for at_service, at_client, mark in ((encrypts, plain, "+"), (plain, encrypts, ""), (with_file, with_file, "+@")):
            with uri_file() as file, started() as start:
                service = start(runner, "serve", file, 3, COMBRAY_NODE="service", **at_service)
                parts = [start(runner, part, file, 0, COMBRAY_NODE="client", **at_client) for part in ("use", "use", "die")]
                assert [output_of(one, code) for one, code in zip(parts, (0, 0, -signal.SIGKILL))][:2] == ["client is done\n"] * 2
                uri = pathlib.Path(file).read_text().removeprefix("combray://")
                assert output_of(service) == "2 closed, 1 lost\n"
                assert uri.startswith(mark) and ("+" in uri) == ("+" in mark), uri


# The system call by which a process gets a descriptor of another one.
PIDFD_GETFD = 438


def connected_sockets(process):
    """Gives duplicates of the sockets of a process that are connected over TCP."""
    got = ctypes.CDLL(None, use_errno=True).syscall
    pidfd = os.pidfd_open(process)
    try:
        for number in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                if not os.readlink(f"/proc/{process}/fd/{number}").startswith("socket:"):
                    continue
                own = got(PIDFD_GETFD, pidfd, int(number), 0)
                assert own >= 0, os.strerror(ctypes.get_errno())
                one = socket.socket(fileno=own)
                with one:
                    one.getpeername()
                    if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                        yield one
    finally:
        os.close(pidfd)


@places(2)
def what_is_put_into_an_encrypted_connection_ends_it(runner):
    """Bytes that look like a record, but were not made with its key, arrive among those of one of both processes: the
    other one gets the event that says so."""
    needs_combray(runner)
    for number in range(2):
        with uri_file() as file, started() as start:
            service = start(runner, "lose", file, 0, COMBRAY_NODE="service", ENDPOINT_OPTIONS="encrypt")
            client = start(runner, "lose", file, 1, COMBRAY_NODE="client")
            assert client.stdout.readline() == "connected\n"
            sender, receiver = ((client, service), (service, client))[number]
            sent = 0
            for one in connected_sockets(sender.pid):
                one.send(struct.pack("<H", 40) + bytes(40))
                sent += 1
            assert sent > 0
            assert output_of(receiver) == "access\n"
            assert output_of(sender) in ("access\n", "failed\n")


@places(2)
def a_request_whose_mark_of_encryption_was_removed_is_refused(runner):
    """A client gets the URI of a service that encrypts without its mark, and does not encrypt itself."""
    needs_combray(runner)
    with uri_file() as file, uri_file() as changed, started() as start:
        service = start(runner, "serve", file, 1, ENDPOINT_OPTIONS="encrypt")
        while not os.path.exists(file):
            assert service.poll() is None, output_of(service)
        pathlib.Path(changed).write_text(pathlib.Path(file).read_text().replace("+", ""))
        assert "endpoint encrypts" in output_of(start(runner, "fail", changed))
        assert output_of(start(runner, "use", file, 0)) == "client is done\n"
        assert output_of(service) == "1 closed, 0 lost\n"


# What a further idle connection between two processes may take in the service, in bytes, with
# the rounding of the allocator.
IDLE_BYTES_MAX = 2048


@places(2)
def an_idle_connection_takes_little_memory(runner):
    needs_combray(runner)
    for variables in ({}, {"COMBRAY_NODE": "client"}, {"COMBRAY_NODE": "client", "ENDPOINT_OPTIONS": "encrypt"}):
        with uri_file() as file, started() as start:
            service = start(runner, "crowd", file, 240)
            client = start(runner, "join", file, 240, **variables)
            taken = int(output_of(service))
            output_of(client)
            assert taken <= IDLE_BYTES_MAX, f"{taken} bytes for a connection {variables}"


SCENARIOS = [
    a_service_and_its_clients_without_a_launcher,
    a_service_that_waits_for_its_descriptor,
    a_service_survives_killed_clients,
    a_service_and_clients_on_two_machines,
    connections_come_and_go,
    programs_with_the_key_in_a_file,
    endpoints_that_encrypt,
    what_is_put_into_an_encrypted_connection_ends_it,
    a_request_whose_mark_of_encryption_was_removed_is_refused,
    strangers_change_nothing_but_a_counter,
    a_client_survives_a_killed_service,
    an_idle_connection_takes_little_memory,
    nothing_arrives_after_a_message_that_a_killed_client_has_not_finished,
    a_stopped_peer_is_reported_as_silent,
    a_send_to_a_process_that_has_closed_everything_ends,
    endpoints_over_each_network,
    programs_do_at_random_what_endpoints_can_do,
]
