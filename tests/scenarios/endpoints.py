"""Endpoints of programs that were started separately, without a launcher (tests/c/endpoint_service.c)."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import tempfile

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
def a_send_to_a_process_that_has_closed_everything_ends(runner):
    needs_combray(runner)
    command = [*runner.mpiexec, "-x", "COMBRAY_HELPER=never", "-n", "2", str(runner.build / "endpoints"), "late"]
    code, output, _ = run(command)
    assert code == 0, f"exit code {code}\n{output}"


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
    for seed in range(3):
        for apart in (False, True):
            random_programs(str(runner.build / "endpoint_random"), seed, apart)


SCENARIOS = [
    a_service_and_its_clients_without_a_launcher,
    a_service_that_waits_for_its_descriptor,
    a_service_survives_killed_clients,
    a_service_and_clients_on_two_machines,
    connections_come_and_go,
    a_client_survives_a_killed_service,
    a_send_to_a_process_that_has_closed_everything_ends,
    programs_do_at_random_what_endpoints_can_do,
]
