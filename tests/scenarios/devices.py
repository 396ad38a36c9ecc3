"""Memory of graphics processors, where the environment of the job matters. The programs `devices` test the calls."""

import re

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


def messages_are_staged_where_memory_is_not_shared(runner):
    needs_combray(runner)
    library = (runner.build / "libcuda.so.1.so").resolve()
    for setting in ["FAKE_DEVICE_FAIL=cuIpcGetMemHandle,-1", "FAKE_DEVICE_FAIL=cuIpcOpenMemHandle_v2,-1",
                    "FAKE_DEVICE_PEERS=0", "COMBRAY_SINGLE_COPY=never"]:
        code, output, _ = run([*runner.mpiexec, "-n", "2", "-x", setting, "env", f"LD_PRELOAD={library}",
                               str(runner.build / "devices_shared"), "kinds"], timeout=120)
        assert code == 0, f"{setting}: {output}"


def windows_are_reached_by_messages_where_memory_is_not_shared(runner):
    needs_combray(runner)
    library = (runner.build / "libcuda.so.1.so").resolve()
    for setting in ["FAKE_DEVICE_FAIL=cuIpcGetMemHandle,-1", "FAKE_DEVICE_FAIL=cuIpcOpenMemHandle_v2,-1",
                    "FAKE_DEVICE_PEERS=0", "COMBRAY_SINGLE_COPY=never"]:
        code, output, _ = run([*runner.mpiexec, "-n", "2", "-x", setting, "env", f"LD_PRELOAD={library}",
                               str(runner.build / "devices_windows")], timeout=120)
        assert code == 0, f"{setting}: {output}"


def calls_wait_for_a_stream_that_cannot_wait(runner):
    needs_combray(runner)
    library = (runner.build / "libcuda.so.1.so").resolve()
    for setting in ["FAKE_DEVICE_FAIL=cuStreamWaitValue32_v2,-1", "COMBRAY_HELPER=never"]:
        code, output, _ = run([*runner.mpiexec, "-n", "2", "-x", setting, "env", f"LD_PRELOAD={library}",
                               str(runner.build / "devices_streams"), "waits"], timeout=120)
        assert code == 0, f"{setting}: {output}"


def a_report_names_messages_that_are_staged(runner):
    needs_combray(runner)
    library = (runner.build / "libcuda.so.1.so").resolve()
    code, output, _ = run([*runner.mpiexec, "-n", "2", "--timeout", "4", "-x", "FAKE_DEVICE_FAIL=cuIpcGetMemHandle,-1",
                           "env", f"LD_PRELOAD={library}", str(runner.build / "devices_shared"), "hang"], timeout=60)
    assert code != 0 and re.search(r"rank 0, device memory of \d+ messages? went through memory of the processor: "
                                   "cuIpcGetMemHandle of libcuda.so.1 returned CUDA_ERROR_UNKNOWN", output), output


SCENARIOS = [a_driver_is_loaded_later, memory_of_devices_is_not_expected, messages_are_staged_where_memory_is_not_shared,
             windows_are_reached_by_messages_where_memory_is_not_shared, calls_wait_for_a_stream_that_cannot_wait,
             a_report_names_messages_that_are_staged]
