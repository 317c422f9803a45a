"""Kinds of change that the node table logs for a row, so that only answers that read them are asked again."""

from enum import IntFlag


class NodeChange(IntFlag):
    USAGE = 1  # requested amounts, number of pods
    CAPACITY = 2  # allocatable amounts
    LABELS = 4  # label columns and the name column
    TAINTS = 8  # the taint-set id
    PORTS = 16  # port bits
    IMAGES = 32  # image bits
    EXISTENCE = 64  # the row became a node or ceased to be one
    OBJECT = 128  # anything else of the node's object (annotations, conditions): only plugins that read NodeInfo care
    ALL = 255
