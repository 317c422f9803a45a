"""What Koordinator's manager does about quotas, without the manager: admission rules and profiles (elasticquota.md §14, §15).

Nothing here asks a cluster or knows the scheduler. A webhook, a controller or a command brings objects and gets back what is refused, what
is filled in, and what is to be written. In reading order:

- `topology.py`   the quotas that are known, their children and their namespaces, and the pods
- `rules.py`      what is refused of a quota that is created, changed or deleted
- `defaults.py`   what is filled in when a quota is created
- `profiles.py`   the root quota that an ElasticQuotaProfile makes of nodes
- `pods.py`       which quota a pod is of, what is refused of it, and to which nodes its tree keeps it
"""
