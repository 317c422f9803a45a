"""Change the sources a little, many times over, and see whether a test notices: the measure of what the tests do not see.

`make mutate` takes a seeded sample of the mutants that mutmut's operators make of the folders under `[tool.mutmut]` in pyproject.toml.
mutmut's own runner collects the tests again for each mutant and asks every test that calls the function; here pytest collects once, each
mutant is a fork in which the code objects of the changed functions are exchanged, and only the tests that reach the changed line run, the
quick ones and those of the same folder first. No file is ever changed. Decorated functions are in reach; what runs while a module is
imported is not, and the last line of the output says how many mutants that is.

`sampling` makes the mutants, `swapping` exchanges code in a running process, `session` is the pytest plugin that forks, `scenarios` lets
pytest collect tests/scenarios, `report` keeps and shows the results. `equivalent.yaml` lists mutants that behave as the original does, each
with the reason.
"""
