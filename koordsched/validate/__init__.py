"""`koord-scheduler validate --objects`: what is wrong with manifests, before a cluster gets them.

In reading order: `findings`, what is said of objects; `objects`, what an API server refuses and what plugins cannot use; `quotas`, the
rules of quotas, their pods and profiles; `command`.
"""
