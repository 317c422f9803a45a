"""Maintenance: keeps new pods off pools of nodes that are under maintenance."""
