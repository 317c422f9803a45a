"""YAML that people write: configurations, kubeconfigs, flags' files. `reading` makes plain values of it, within bounds."""
