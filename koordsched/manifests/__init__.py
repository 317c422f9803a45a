"""What people hand in: documents of YAML or JSON files (`documents`), and short manifests completed to whole objects (`completion`).

`koordsched.simulate` and `koordsched.scenario` read the same files by the same rules, so those stand below both.
"""
