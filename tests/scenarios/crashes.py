"""Processes that a fault of the program kills: the message shows where the program was."""

import os
import shlex

from harness import TESTS
from harness.scenarios import Skip, needs_combray, run

# What the stack of each way to crash contains, and the exit code.
WAYS = {"read": ("read_from (crashes.c:", 139), "overflow": ("descend (crashes.c:", 139),
        "divide": ("crash (crashes.c:", 136), "call": ("crash (crashes.c:", 139),
        "abort": ("crash (crashes.c:", 134), "heap": ("damage_the_heap (crashes.c:", 134),
        "raise": ("crash (crashes.c:", 135), "thread": ("in_a_thread (crashes.c:", 139)}


def crash(runner, *arguments, options=(), around=(), count=3):
    needs_combray(runner)
    executable = runner.build / "crashes"
    problem = runner.compile(TESTS / "c" / "crashes.c", executable, ["-g", "-O0", "-pthread"])
    assert not problem, problem
    command = [*runner.mpiexec, *options, "-n", str(count), *around, str(executable), *arguments]
    return run(command, timeout=60.0)[:2]


def a_crash_shows_the_functions_of_the_program(runner):
    for way, (function, expected) in WAYS.items():
        code, output = crash(runner, way)
        assert code == expected, f"{way}: exit code {code}\n{output}"
        assert output.count("combray: ") == 1, f"{way}: not one message\n{output}"
        for word in ("combray: rank 1 (process ", "  it was in:", function, "ulimit -c", " -e gdb "):
            assert word in output, f"{way}: the message lacks {word!r}\n{output}"


def a_crash_of_all_is_reported_once(runner):
    code, output = crash(runner, "read", "all", count=4)
    assert code == 139 and output.count("it was in:") == 1, f"exit code {code}\n{output}"


def a_crash_below_a_script_is_reported(runner):
    code, output = crash(runner, "read", around=["sh", "-c", '"$0" "$@"; exit $?'])
    assert code == 139 and "read_from (crashes.c:" in output, f"exit code {code}\n{output}"


def a_crash_on_another_host_is_reported(runner):
    reach = runner.build / "reach-for-crashes"
    reach.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    reach.chmod(0o755)
    code, output = crash(runner, "read", options=["--hosts", "one:1,two:2", "--launch-agent", str(reach)])
    assert code == 139 and "read_from (crashes.c:" in output, f"exit code {code}\n{output}"


def without_a_launcher_the_process_reports_its_crash(runner):
    crash(runner, "none")
    code, output, _ = run([str(runner.build / "crashes"), "read", "all"], timeout=60.0)
    assert code == -11 and "read_from (crashes.c:" in output, f"exit code {code}\n{output}"


def the_handler_of_the_program_stays(runner):
    code, output = crash(runner, "handler")
    assert code == 3 and "the program's own handler" in output, f"exit code {code}\n{output}"
    assert "it was in:" not in output, output


def a_crashing_child_of_a_process_is_its_own_matter(runner):
    code, output = crash(runner, "child")
    assert code == 0 and "it was in:" not in output, f"exit code {code}\n{output}"


def the_core_file_is_written_with_the_stack_of_the_crash(runner):
    pattern = open("/proc/sys/kernel/core_pattern").read()
    if pattern.startswith(("|", "/")):
        raise Skip("core files go elsewhere on this machine")
    folder = runner.build / "core-of-a-crash"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    script = f'cd {shlex.quote(str(folder))} && ulimit -c unlimited && exec "$0" "$@"'
    code, output = crash(runner, "read", around=["bash", "-c", script], count=2)
    assert code == 139 and f"core file: {folder}/" in output, f"exit code {code}\n{output}"
    found = os.listdir(folder)
    assert len(found) == 1, f"core files: {found}\n{output}"


def a_fatal_error_of_mpi_shows_the_place_of_the_call(runner):
    code, output = crash(runner, "error")
    assert code != 0 and "Called by send_nowhere (crashes.c:" in output, f"exit code {code}\n{output}"
    assert "main (crashes.c:" in output, output


def collective_operations_that_differ_point_to_the_check(runner):
    code, output = crash(runner, "mismatch", options=["-x", "COMBRAY_BOARDS=never"], count=2)
    assert code != 0 and "combray run --check names the calls" in output, f"exit code {code}\n{output}"


SCENARIOS = [collective_operations_that_differ_point_to_the_check,
             a_fatal_error_of_mpi_shows_the_place_of_the_call,
             a_crash_shows_the_functions_of_the_program, a_crash_of_all_is_reported_once,
             a_crash_below_a_script_is_reported, a_crash_on_another_host_is_reported,
             without_a_launcher_the_process_reports_its_crash, the_handler_of_the_program_stays,
             a_crashing_child_of_a_process_is_its_own_matter,
             the_core_file_is_written_with_the_stack_of_the_crash]
