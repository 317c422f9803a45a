"""ScarceResourceAvoidance: keeps pods off nodes with scarce resources that they do not request (frameworkext.md §6)."""
