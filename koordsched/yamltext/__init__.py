"""YAML that people write. None of it is read by PyYAML's constructor; `building` says why, and what replaces it.

- `documents.py`  what becomes of a text: values, the line of each, mistakes; and how paths and values are written in messages
- `reading.py`    a text to documents, for what is checked field by field: configurations, kubeconfigs, files of flags
- `values.py`     a text to plain values, for files as large as a dump of a cluster: manifests, scenarios
"""
