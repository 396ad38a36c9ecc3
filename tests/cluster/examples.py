"""Programs of examples/, on several hosts."""

import importlib.util
import pathlib

SCENARIOS_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "scenarios"

spec = importlib.util.spec_from_file_location("examples", SCENARIOS_FOLDER / "examples.py")
examples = importlib.util.module_from_spec(spec)
spec.loader.exec_module(examples)
Skip, SCENARIOS = examples.Skip, examples.SCENARIOS
