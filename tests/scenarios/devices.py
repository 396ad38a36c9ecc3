"""Memory of graphics processors, where the environment of the job matters. The programs `devices` test the calls."""

from harness.scenarios import needs_combray, run


def start(runner, setting):
    needs_combray(runner)
    library = (runner.build / "libcuda.so.1.so").resolve()
    return run([*runner.mpiexec, "-n", "2", "-x", f"COMBRAY_DEVICES={setting}", str(runner.build / "devices_late"),
                str(library)])


def a_driver_is_loaded_later(runner):
    code, output, _ = start(runner, "always")
    assert code == 0, output


def memory_of_devices_is_not_expected(runner):
    code, output, _ = start(runner, "never")
    assert code != 0 and "signal" in output, f"exit code {code}\n{output}"


SCENARIOS = [a_driver_is_loaded_later, memory_of_devices_is_not_expected]
