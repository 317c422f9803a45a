"""A real etcd and kube-apiserver on loopback, for tests/e2e and the side-by-side benchmarks.

`binaries` finds or builds the programs, `plane.ControlPlane` runs them, `credentials` writes kubeconfig files, `rest` is a blocking client
for what a test sets up and looks at, `definitions` installs config/crds, `cleaning` empties the cluster between tests. Nothing here waits
on an event loop: one control plane serves a whole test session, whatever loops its tests have. In async tests call what takes long through
`asyncio.to_thread`.
Nodes are plain objects; there is no kubelet and no controller.
"""
